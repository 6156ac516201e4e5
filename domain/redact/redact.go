// Package redact decides what may be written down. Everything that comes from
// outside passes it before an event is built: known secrets and what looks like
// one leave their name, their size and a keyed hash behind.
package redact

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"hangar/domain"
)

// Redactor knows the secrets of one server. It is safe for concurrent use.
type Redactor struct {
	mac   []byte
	seals []cipher.AEAD // the newest secret's first
	known []secret      // longest first
}

// secret is a value to hunt for: as it is, as it stands in JSON, or one line of
// it.
type secret struct {
	name string
	form string // what is looked for
	of   string // the whole value
}

// Lengths below which a text is too common to be hunted for.
const (
	minSecret     = 8
	minSecretLine = 16 // of a secret of several lines
)

// New makes a redactor with keys derived from the server's secret. known are
// further secrets by name, such as those of the configuration; older are secrets
// the server had before, under which values may still be sealed.
func New(s domain.Secret, known map[string]string, older ...domain.Secret) *Redactor {
	r := &Redactor{mac: s.Key(domain.ForRedaction)}
	for _, k := range append([]domain.Secret{s}, older...) {
		block, err := aes.NewCipher(k.Key(domain.ForSealing))
		if err != nil {
			panic(err) // the key is 32 bytes
		}
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			panic(err) // the block is AES
		}
		r.seals = append(r.seals, gcm)
		r.known = append(r.known, forms("server secret", k.Hex())...)
	}
	return r.With(known)
}

// forms gives the forms in which a value may turn up.
func forms(name, value string) []secret {
	list := []secret{{name, value, value}}
	add := func(form string, least int) {
		if len(form) >= least && !slices.ContainsFunc(list, func(s secret) bool { return s.form == form }) {
			list = append(list, secret{name, form, value})
		}
	}
	if len(value) < minSecret {
		return nil
	}
	if plain, err := encode(value); err == nil {
		add(string(plain[1:len(plain)-1]), minSecret)
	}
	if escaped, err := json.Marshal(value); err == nil {
		add(string(escaped[1:len(escaped)-1]), minSecret)
	}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			add(strings.TrimSpace(line), minSecretLine)
		}
	}
	return list
}

// With gives a redactor that knows more secrets besides, such as a job's
// environment.
func (r *Redactor) With(known map[string]string) *Redactor {
	more := slices.Clone(r.known)
	for name, value := range known {
		more = append(more, forms(name, value)...)
	}
	slices.SortFunc(more, func(a, b secret) int {
		return cmp.Or(cmp.Compare(len(b.form), len(a.form)), strings.Compare(a.name, b.name), strings.Compare(a.form, b.form))
	})
	return &Redactor{mac: r.mac, seals: r.seals, known: more}
}

// token is what a bearer token of ours looks like, wherever it turns up.
var token = regexp.MustCompile(`hgr_[A-Za-z0-9_-]{43}`)

// Known names the first secret that text holds: a token of ours, or one this
// server knows. Where text is JSON it is looked into, since the same string can
// be written in many ways there. Prompts and answers that hold one are refused,
// since they are written down as they are.
func (r *Redactor) Known(text string) (name string, found bool) {
	if token.MatchString(text) {
		return "a hangar token", true
	}
	for _, s := range r.known {
		if strings.Contains(text, s.form) {
			return s.name, true
		}
	}
	if v, ok := decode([]byte(text)); ok {
		return r.knownIn(v)
	}
	return "", false
}

func (r *Redactor) knownIn(v any) (name string, found bool) {
	switch v := v.(type) {
	case string:
		return r.Known(v)
	case []any:
		for _, e := range v {
			if name, found = r.knownIn(e); found {
				return name, true
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if name, found = r.Known(k); found {
				return name, true
			}
			if name, found = r.knownIn(v[k]); found {
				return name, true
			}
		}
	}
	return "", false
}

// secretName is what the name of a secret's variable, member or flag holds.
const secretName = `(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|cookie|credential)`

// names are parts of what secretName matches, one of them in each.
var names = []string{"pass", "secret", "token", "key", "authorization", "cookie", "credential"}

// patterns find what is a secret by its look. The group, where there is one, is
// the secret; the rest stays. A text that holds none of the hints, in lower case,
// is not searched: most texts hold none, and searching is slow.
var patterns = []struct {
	name  string
	hints []string
	re    *regexp.Regexp
}{
	{"private key", []string{"private key"}, regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`)},
	// One whose beginning was cut off.
	{"private key", []string{"private key"}, regexp.MustCompile(`^[A-Za-z0-9+/=\s\\]+-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`)},
	{"hangar token", []string{"hgr_"}, token},
	{"access key", []string{"akia", "asia"}, regexp.MustCompile(`(?:AKIA|ASIA)[0-9A-Z]{16}`)},
	{"forge token", []string{"gh", "glpat-"}, regexp.MustCompile(`(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})`)},
	{"api key", []string{"sk-", "k_live_", "xox", "aiza", "npm_"}, regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{20,}|[rs]k_live_[A-Za-z0-9]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{35}|npm_[A-Za-z0-9]{36})`)},
	{"web token", []string{"eyj"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}`)},
	{"url password", []string{"://"}, regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@"']*:([^\s/?#"']+)@`)},
	// Headers, to the end of the line or of the quotation.
	{"authorization", []string{"authorization"}, regexp.MustCompile(`(?i)authorization\\?["']?\s*[:=]\s*\\?["']?(?:(?:bearer|basic|digest|negotiate|token)\s+)?([^\r\n"'\\\[]{4,})`)},
	{"authorization", []string{"bearer", "basic"}, regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`)},
	{"cookie", []string{"cookie"}, regexp.MustCompile(`(?i)\bcookie2?\\?["']?\s*:\s*\\?["']?([^\r\n"'\\\[]{4,})`)},
	// What printenv prints: a value goes to the end of its line.
	{"value", append([]string{"_pwd", "_pat", "_auth"}, names...), regexp.MustCompile(`(?im)^[ \t]*(?:export |declare -x |set )?[a-z0-9_]*(?:` + secretName + `[a-z0-9_]*|_key|_pass|_pwd|_pat|_auth)=([^\r\n]+)`)},
	{"value", names, regexp.MustCompile(`(?i)` + secretName + `[a-z0-9_-]*["']?\s*[:=]\s*"((?:[^"\\\r\n]|\\.)+)"`)},
	{"value", names, regexp.MustCompile(`(?i)` + secretName + `[a-z0-9_-]*["']?\s*[:=]\s*'([^'\r\n]+)'`)},
	{"value", names, regexp.MustCompile(`(?i)` + secretName + `[a-z0-9_-]*\\["']\s*[:=]\s*\\["']([^"'\\\r\n]+)\\["']`)},
	{"value", names, regexp.MustCompile(`(?i)` + secretName + `[a-z0-9_-]*(?:\\?["'])?\s*[:=]\s*(?:\\?["'])?([^\s"'\\,;}&\[]{4,})`)},
	{"value", names, regexp.MustCompile(`(?i)--[a-z-]*` + secretName + `[a-z-]*\s+([^\s"'\[-][^\s"']{3,})`)},
}

// plain is what stands where a secret might, and is none: the name of a scheme,
// or how many tokens a model took.
var plain = regexp.MustCompile(`(?i)^(?:(?:bearer|basic|digest|negotiate|token)\s*|[0-9][0-9.,]*[km]?)$`)

// Text gives text with every secret replaced by its name, its size and a keyed
// hash: enough to recognise one that is known, not enough to learn one.
func (r *Redactor) Text(text string) string {
	for _, s := range r.known {
		if strings.Contains(text, s.form) {
			text = strings.ReplaceAll(text, s.form, r.mark(s.name, s.of))
		}
	}
	lower := strings.ToLower(text)
	for _, p := range patterns {
		if slices.ContainsFunc(p.hints, func(h string) bool { return strings.Contains(lower, h) }) {
			text = r.replace(text, p.name, p.re)
		}
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
		if value := text[from:to]; len(m) > 2 && isPlain(text[m[0]:from], value) {
			b.WriteString(value)
		} else {
			b.WriteString(r.mark(name, value))
		}
		last = to
	}
	b.WriteString(text[last:])
	return b.String()
}

// isPlain reports whether a value that is named like a secret is none. A number
// is none only where tokens are counted.
func isPlain(before, value string) bool {
	if mark.MatchString(value) {
		return true
	}
	if !plain.MatchString(value) {
		return false
	}
	return value[0] < '0' || value[0] > '9' || strings.Contains(strings.ToLower(before), "tokens")
}

// mark is what a redacted value leaves.
var mark = regexp.MustCompile(`^\[redacted [^\[\]]*, [0-9]+ bytes, [0-9a-f]{8}\]$`)

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
	box := r.seals[0].Seal(nonce[:], nonce[:], []byte(value), []byte(purpose))
	return sealedPrefix + base64.RawStdEncoding.EncodeToString(box)
}

// Open reads a sealed value back.
func (r *Redactor) Open(sealed, purpose string) (string, error) {
	text, ok := strings.CutPrefix(sealed, sealedPrefix)
	box, err := base64.RawStdEncoding.DecodeString(text)
	if !ok || err != nil || len(box) < 12 {
		return "", domain.Errorf(domain.Internal, "a sealed value cannot be read")
	}
	for _, seal := range r.seals {
		if value, err := seal.Open(nil, box[:12], box[12:], []byte(purpose)); err == nil {
			return string(value), nil
		}
	}
	return "", domain.Errorf(domain.Unavailable, "a sealed value was sealed under another server secret")
}
