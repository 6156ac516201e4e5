package domain_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"hangar/domain"
)

func secret() domain.Secret {
	var b [32]byte
	for i := range b {
		b[i] = byte(i)
	}
	return domain.NewSecret(b)
}

// The derivation is permanent: handles and sealed values in the log depend on it.
func TestKeysAreGolden(t *testing.T) {
	for p, want := range map[domain.Purpose]string{
		domain.ForHandles:   "2fcb89a0e1c6774649e9096721c94a26d134d295f5f921da59b748a1600f61d5",
		domain.ForSealing:   "fe6480ddad2cd294178d43f3d3ea030d0a0cb8fb7a92e84faf40e8901cf1f4cc",
		domain.ForRedaction: "8bd23d81d0f752fe4277c9ca456fae9a6335aba18090766cdb65e9b7a73b1571",
	} {
		if got := hex.EncodeToString(secret().Key(p)); got != want {
			t.Errorf("the key for %s is %s, want %s", p, got, want)
		}
	}
	if got := secret().ID(); got != "93b4b44fb88d00b9" {
		t.Errorf("the key's id is %s", got)
	}
}

func TestParseSecret(t *testing.T) {
	got, err := domain.ParseSecret(secret().Hex())
	if err != nil || got.Hex() != secret().Hex() || got.ID() != secret().ID() {
		t.Fatalf("a secret does not come back from its digits: %v", err)
	}
	for _, s := range []string{"", "00", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("0", 66), strings.Repeat("g", 64)} {
		if _, err := domain.ParseSecret(s); err == nil {
			t.Errorf("%q is taken for a secret", s)
		} else if len(s) > 2 && strings.Contains(err.Error(), s) {
			t.Errorf("the error repeats what was given: %v", err)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	type exported struct{ Secret domain.Secret }
	type hidden struct{ secret domain.Secret }
	s := secret()
	forms := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%b", "%t"} {
		for _, v := range []any{s, &s, exported{s}, &exported{s}, hidden{s}, []domain.Secret{s}, map[string]domain.Secret{"k": s}, []hidden{{s}}} {
			forms[fmt.Sprintf("%s of %T", verb, v)] = fmt.Sprintf(verb, v)
		}
	}
	for _, v := range []any{s, &s, exported{s}, map[string]any{"s": s}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		forms[fmt.Sprintf("JSON of %T", v)] = string(b)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s, "in", exported{s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s, "in", exported{s}, "hidden", hidden{s})
	forms["log lines"] = log.String()

	for how, text := range forms {
		for _, leak := range []string{s.Hex()[:16], strings.ToUpper(s.Hex()[20:36]), "4 5 6 7", "100 101 110 111", "0x4, 0x5, 0x6"} {
			if strings.Contains(text, leak) {
				t.Errorf("%s gives the secret away: %s", how, text)
			}
		}
	}
	if got := fmt.Sprint(s); got != "secret 93b4b44fb88d00b9" {
		t.Errorf("it prints as %q", got)
	}
	if got := fmt.Sprint(domain.Secret{}); got != "no secret" {
		t.Errorf("none prints as %q", got)
	}
}

func TestNoSecretGivesNoKey(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the zero secret gave a key, the same for everybody")
		}
	}()
	domain.Secret{}.Key(domain.ForHandles)
}
