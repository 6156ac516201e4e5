package auth

import (
	"encoding/json"
	"net/http"
	"strings"

	"hangar/domain/access"
)

// Where the protected resource metadata is (RFC 9728, section 3): at the root,
// and with the path of the resource behind it.
const (
	MetadataPath    = "/.well-known/oauth-protected-resource"
	MetadataPathMCP = MetadataPath + mcpPath
	mcpPath         = "/mcp"
)

// metadata is a protected resource metadata document (RFC 9728, section 2).
type metadata struct {
	Resource               string   `json:"resource"`
	ResourceName           string   `json:"resource_name"`
	AuthorizationServers   []string `json:"authorization_servers,omitempty"`
	ScopesSupported        []string `json:"scopes_supported"`
	BearerMethodsSupported []string `json:"bearer_methods_supported"`
}

// Metadata serves the metadata, at both paths. It needs no token.
func (o Options) Metadata() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*") // RFC 9728 clients in browsers read it
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "only GET is served here")
			return
		}
		m := metadata{
			Resource:               o.origin(r) + mcpPath,
			ResourceName:           "Hangar",
			AuthorizationServers:   o.AuthorizationServers,
			BearerMethodsSupported: []string{"header"},
		}
		for _, s := range access.All {
			m.ScopesSupported = append(m.ScopesSupported, string(s))
		}
		body, err := json.Marshal(m)
		if err != nil {
			panic(err) // strings always marshal
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // a client that is gone has nothing to be told
	})
}

func (o Options) metadataURL(r *http.Request) string { return o.origin(r) + MetadataPathMCP }

// origin gives scheme and host of the server as clients reach it.
func (o Options) origin(r *http.Request) string {
	if o.PublicURL != "" {
		return strings.TrimSuffix(o.PublicURL, "/")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
