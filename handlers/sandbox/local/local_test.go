package local_test

import (
	"testing"

	"go.uber.org/goleak"

	"hangar/handlers/sandbox"
	"hangar/handlers/sandbox/local"
	"hangar/handlers/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProvider(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider {
		p, err := local.New(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}
