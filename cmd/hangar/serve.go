package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"hangar/cmd/internal/config"
)

func newServe(sh *shell) *cobra.Command {
	var stdio, fixtures bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP on " + config.DefaultListen + ", and the local socket for this command line",
		Long: `Serve MCP until interrupted. Agents that run then go on, and the next start
finds them again. When it serves, one line on standard error says where.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if stdio {
				return errors.New("serve --stdio is not in this build; serve over HTTP and connect to the URL that the ready line names")
			}
			if fixtures {
				return serveFixtures(cmd, sh)
			}
			return serve(cmd, sh, false)
		},
	}
	f := cmd.Flags()
	f.StringVar(&sh.flags.Config, "config", "", "configuration file (default hangar.yaml in the data folder, if it is there)")
	f.StringVar(&sh.flags.Listen, "listen", "", "address to listen on (default "+config.DefaultListen+")")
	f.StringVar(&sh.flags.Store, "store", "", "URL of the log's store (default "+config.DefaultStore+")")
	f.BoolVar(&stdio, "stdio", false, "serve on standard input and output")
	f.BoolVar(&fixtures, "fixtures", false, "serve the conformance suite's tools, without authentication")
	f.Lookup("fixtures").Hidden = true
	return cmd
}

func serve(cmd *cobra.Command, sh *shell, fixtures bool) (err error) {
	cfg, err := config.Load(sh.flags, sh.getenv)
	if err != nil {
		return err
	}
	s, err := newServer(cfg, logger(sh.errw), sh.errw, fixtures)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Run(cmd.Context())
}

// serveFixtures serves what the conformance suite calls, from a data folder that
// lives as long as the server.
func serveFixtures(cmd *cobra.Command, sh *shell) (err error) {
	if sh.flags.Data != "" {
		return misuse(cmd, "--fixtures makes a temporary data folder; it takes no --data")
	}
	dir, err := os.MkdirTemp("", "hangar-fixtures-")
	if err != nil {
		return fmt.Errorf("make a temporary data folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sh.flags.Data = dir
	return serve(cmd, sh, true)
}

// logger writes for people on a terminal, and JSON elsewhere.
func logger(w io.Writer) *slog.Logger {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{TimeFormat: "15:04:05.000"}))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}
