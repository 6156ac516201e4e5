package auth

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Sites says from where requests may come, against DNS rebinding: a page of any
// site can make a browser send requests to a loopback address, but it cannot
// choose the Host and Origin that the browser names (basic/transports, security).
type Sites struct {
	// Loopback: the listener is on a loopback address, so Host must name one,
	// unless it is among Hosts.
	Loopback bool
	// Hosts are further names that Host may have, without a port.
	Hosts []string
	// Origins are the origins of web pages that may send requests, as browsers
	// write them: "https://console.example". Loopback origins always may, on a
	// loopback listener.
	Origins []string
}

// Check refuses requests from elsewhere with 403.
func (s Sites) Check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Loopback && !isLoopback(hostOf(r.Host)) && !containsFold(s.Hosts, hostOf(r.Host)) {
			refuse(w, http.StatusForbidden, "forbidden_host", "the Host of this request is not served here")
			return
		}
		for _, origin := range r.Header["Origin"] {
			if !s.allows(origin) {
				refuse(w, http.StatusForbidden, "forbidden_origin", "requests from this Origin are not served")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (s Sites) allows(origin string) bool {
	if containsFold(s.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	return s.Loopback && isLoopback(u.Hostname())
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(e string) bool { return strings.EqualFold(e, s) })
}

// hostOf gives the name or address in a Host header, without port and brackets.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
