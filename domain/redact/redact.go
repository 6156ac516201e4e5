// Package redact decides what may be written down. Everything that comes from
// outside passes it before an event is built: known secrets and what looks like
// one leave their name, their size and a keyed hash behind.
package redact

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"hangar/domain"
)

// Redactor knows the secrets of one server. It is safe for concurrent use.
type Redactor struct {
	mac   []byte
	seal  cipher.AEAD
	known []secret // longest first
}

type secret struct{ name, value string }

// minSecret is the length below which a value is too common to be hunted for.
const minSecret = 8

// New makes a redactor with keys derived from the server's secret. known are
// further secrets by name, such as those of the configuration.
func New(s domain.Secret, known map[string]string) *Redactor {
	block, err := aes.NewCipher(s.Key(domain.ForSealing))
	if err != nil {
		panic(err) // the key is 32 bytes
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block is AES
	}
	r := &Redactor{mac: s.Key(domain.ForRedaction), seal: gcm}
	r.known = append(r.known, secret{"server secret", s.Hex()})
	for name, value := range known {
		r.known = append(r.known, secret{name, value})
	}
	r.known = usable(r.known)
	return r
}

func usable(list []secret) []secret {
	list = slices.DeleteFunc(list, func(s secret) bool { return len(s.value) < minSecret })
	slices.SortFunc(list, func(a, b secret) int {
		if d := len(b.value) - len(a.value); d != 0 {
			return d
		}
		return strings.Compare(a.name, b.name)
	})
	return list
}

// With gives a redactor that knows more secrets besides, such as a job's
// environment.
func (r *Redactor) With(known map[string]string) *Redactor {
	if len(known) == 0 {
		return r
	}
	more := slices.Clone(r.known)
	for name, value := range known {
		more = append(more, secret{name, value})
	}
	return &Redactor{mac: r.mac, seal: r.seal, known: usable(more)}
}

// token is what a bearer token of ours looks like, wherever it turns up.
var token = regexp.MustCompile(`\bhgr_[A-Za-z0-9_-]{43}`)

// Known names the first secret that text holds: a token of ours, or one this
// server knows. Prompts and answers that hold one are refused, since they are
// written down as they are.
func (r *Redactor) Known(text string) (name string, found bool) {
	if token.MatchString(text) {
		return "a hangar token", true
	}
	for _, s := range r.known {
		if strings.Contains(text, s.value) {
			return s.name, true
		}
	}
	return "", false
}

// patterns find what is a secret by its look. The group, where there is one, is
// the secret; the rest stays.
var patterns = []struct {
	name string
	re   *regexp.Regexp
}{
	{"private key", regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)},
	{"hangar token", token},
	{"access key", regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"forge token", regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})`)},
	{"api key", regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,})`)},
	{"web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	{"authorization", regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`)},
	{"url password", regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@]*:([^\s/@]{3,})@`)},
	{"value", regexp.MustCompile(`(?i)(?:password|passwd|secret|token|api[_-]?key|private[_-]?key|authorization|cookie|credential)[a-z0-9_-]*(?:\\?["'])?\s*[:=]\s*(?:\\?["'])?([^\s"'\\,;}&\[]{4,})`)},
}

// Text gives text with every secret replaced by its name, its size and a keyed
// hash: enough to recognise one that is known, not enough to learn one.
func (r *Redactor) Text(text string) string {
	for _, s := range r.known {
		if strings.Contains(text, s.value) {
			text = strings.ReplaceAll(text, s.value, r.mark(s.name, s.value))
		}
	}
	for _, p := range patterns {
		text = r.replace(text, p.name, p.re)
	}
	return text
}

func (r *Redactor) replace(text, name string, re *regexp.Regexp) string {
	found := re.FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		return text
	}
	var b strings.Builder
	last := 0
	for _, m := range found {
		from, to := m[0], m[1]
		if len(m) > 3 && m[2] >= 0 {
			from, to = m[2], m[3]
		}
		b.WriteString(text[last:from])
		b.WriteString(r.mark(name, text[from:to]))
		last = to
	}
	b.WriteString(text[last:])
	return b.String()
}

func (r *Redactor) mark(name, value string) string {
	h := hmac.New(sha256.New, r.mac)
	io.WriteString(h, value) //nolint:errcheck // a hash never fails
	return fmt.Sprintf("[redacted %s, %d bytes, %s]", name, len(value), hex.EncodeToString(h.Sum(nil)[:4]))
}

// sealedPrefix begins every sealed value.
const sealedPrefix = "sealed:"

// Seal encrypts a value that must survive in the log and be read by nobody but
// this server; what it is for is bound to it. nonce is 12 random bytes.
func (r *Redactor) Seal(value, purpose string, nonce [12]byte) string {
	box := r.seal.Seal(nonce[:], nonce[:], []byte(value), []byte(purpose))
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(box)
}

// Open reads a sealed value back.
func (r *Redactor) Open(sealed, purpose string) (string, error) {
	text, ok := strings.CutPrefix(sealed, sealedPrefix)
	box, err := base64.RawStdEncoding.DecodeString(text)
	if !ok || err != nil || len(box) < 12 {
		return "", domain.Errorf(domain.Internal, "a sealed value cannot be read")
	}
	value, err := r.seal.Open(nil, box[:12], box[12:], []byte(purpose))
	if err != nil {
		return "", domain.Errorf(domain.Unavailable, "a sealed value was sealed under another server secret")
	}
	return string(value), nil
}
