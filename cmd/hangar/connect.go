package main

import (
	"errors"
	"io/fs"
	"net"
	"net/url"

	"hangar/cmd/internal/app"
	"hangar/cmd/internal/client"
	"hangar/cmd/internal/config"
	"hangar/cmd/internal/datadir"
)

// connect makes a client of the server: the one at HANGAR_URL, else that of the
// data folder. Whether there is one is seen by calling it.
func (sh *shell) connect() (*client.Client, error) {
	path, err := config.DataFolder(sh.flags, sh.getenv)
	if err != nil {
		return nil, err
	}
	o := client.Options{URL: sh.getenv("HANGAR_URL"), Token: sh.getenv("HANGAR_TOKEN"), Version: app.Version}
	dir, err := datadir.Find(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.URL == "":
		return nil, &client.NoServerError{Where: path}
	case errors.Is(err, fs.ErrNotExist):
		return client.New(o)
	case err != nil:
		return nil, err
	}
	if o.URL == "" {
		if o.Socket, err = socketOf(dir); err != nil {
			return nil, err
		}
	}
	if o.Token == "" && (o.URL == "" || isLoopback(o.URL)) { // this folder's token is for this machine's server
		if o.Token, err = dir.AdminToken(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return client.New(o)
}

// socketOf gives the socket that the folder's server says it listens on, else the
// one it would.
func socketOf(dir *datadir.Dir) (string, error) {
	if h := dir.Holder(); h.Socket != "" {
		return h.Socket, nil
	}
	return dir.Socket()
}

func isLoopback(rawURL string) bool {
	u, err := url.Parse(rawURL)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// noServer reports whether an error says that there is no server of this data
// folder, so that a command may do without.
func (sh *shell) noServer(err error) bool {
	var none *client.NoServerError
	return errors.As(err, &none) && sh.getenv("HANGAR_URL") == ""
}
