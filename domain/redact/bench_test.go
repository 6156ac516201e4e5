package redact_test

import (
	"strings"
	"testing"
)

func BenchmarkText(b *testing.B) {
	for name, text := range map[string]string{
		"one run":  strings.Repeat("x", 16<<10),
		"prose":    strings.Repeat("the quick brown fox jumps over the lazy dog. ", 364),
		"printenv": strings.Repeat("MY_VALUE=some/path/or:other\nAPI_TOKEN=abcdef\n", 364),
	} {
		b.Run(name, func(b *testing.B) {
			r := redactor()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				r.Text(text)
			}
		})
	}
}
