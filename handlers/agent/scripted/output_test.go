package scripted

import (
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hangar/domain"
	"hangar/domain/turn"
)

func TestOutputKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 2*noteRoom + 40
		o := newOutput(limit)
		var all string
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			s := rapid.StringN(0, 200, 300).Draw(t, "text")
			o.write(s)
			all += s
		}
		b, err := io.ReadAll(o.kept())
		if err != nil {
			t.Fatal(err)
		}
		kept := string(b)
		if d := o.describe(); d.Bytes != int64(len(all)) || d.Kept != int64(len(kept)) || d.SHA256 != domain.Sum(b) {
			t.Fatalf("%+v, of %d bytes, %d kept", d, len(all), len(kept))
		}
		if len(kept) > limit {
			t.Fatalf("%d bytes are kept", len(kept))
		}
		head, tail, dropped := strings.Cut(kept, "\n[hangar: ")
		if !dropped {
			if kept != all {
				t.Fatalf("kept %q of %q and does not say so", kept, all)
			}
			return
		}
		_, tail, _ = strings.Cut(tail, " bytes are not kept]\n")
		if !strings.HasPrefix(all, head) || !strings.HasSuffix(all, tail) || len(head) != limit/2 || len(tail) != limit/2-noteRoom {
			t.Fatalf("kept %q of %q", kept, all)
		}
	})
}

func TestOutputMessage(t *testing.T) {
	for name, tt := range map[string]struct{ printed, want string }{
		"nothing":       {"", ""},
		"lines":         {"a\nb\n", "a\nb"},
		"control":       {"\x1b[31mred\x00\r\n\tx", "[31mred\n\tx"},
		"not UTF-8":     {"a\xff\xfeb", "a?b"},
		"end":           {strings.Repeat("x", 2*turn.MaxMessageBytes) + "y", strings.Repeat("x", turn.MaxMessageBytes-1) + "y"},
		"cut character": {"é" + strings.Repeat("x", turn.MaxMessageBytes-1), strings.Repeat("x", turn.MaxMessageBytes-1)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, limit := range []int{turn.MaxOutputBytes, turn.MaxMessageBytes} { // within the head, and across to the tail
				o := newOutput(limit + 2*noteRoom)
				for _, r := range []byte(tt.printed) {
					o.write(string([]byte{r}))
				}
				if got := o.message(); got != tt.want {
					t.Errorf("message %q, want %q", got, tt.want)
				}
			}
		})
	}
}
