package app_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"hangar/cmd/internal/app"
	"hangar/cmd/internal/config"
	"hangar/handlers/supervisor"
)

// The environment by which this test binary is told to be a server.
const (
	envData   = "HANGAR_TEST_DATA"   // its data folder; set means: serve
	envDie    = "HANGAR_TEST_DIE"    // the point at which it kills itself
	envListen = "HANGAR_TEST_LISTEN" // where it listens
)

func TestMain(m *testing.M) {
	supervisor.Main()
	if data := os.Getenv(envData); data != "" {
		os.Exit(serve(data))
	}
	goleak.VerifyTestMain(m)
}

// serve is a server in a process of its own, that dies where it was told to.
func serve(data string) int {
	cfg := testConfig(data)
	if l := os.Getenv(envListen); l != "" {
		cfg.Listen = l
	}
	die := os.Getenv(envDie)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	a, err := app.New(cfg, app.Options{Notices: os.Stdout, Hook: func(point string) {
		if point == die {
			syscall.Kill(os.Getpid(), syscall.SIGKILL) //nolint:errcheck // it is the end of this process
			select {}
		}
	}})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	defer a.Close()
	if err := a.Run(ctx); err != nil {
		fmt.Fprintln(os.Stdout, err)
		return 1
	}
	return 0
}

func testConfig(data string) config.Config {
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Repos = data, "127.0.0.1:0", []string{os.TempDir()}
	cfg.Agents["scripted"] = config.Agent{Kind: config.KindScripted}
	return cfg
}
