package redact_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"hangar/domain"
	"hangar/domain/access"
	"hangar/domain/redact"
)

func secret(first byte) domain.Secret { return domain.NewSecret([32]byte{first}) }

// canary is a secret that the server knows by name. It holds what JSON escapes.
const canary = `c4n4ry"\<&>ß/K7`

func redactor() *redact.Redactor {
	return redact.New(secret(1), map[string]string{"forge": canary, "PIN": "1234567"})
}

// pem is a private key, in pieces so that no scanner takes this file for one.
var pem = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEowIBAAKCAQEAx\nfoobarbaz+/==\n-----END RSA " + "PRIVATE KEY-----"

func hangarToken() string { return access.NewToken([32]byte{7}) }

func TestTextLosesItsSecrets(t *testing.T) {
	for _, c := range []struct {
		name, text, leak string
		keeps            string // what must stay
	}{
		{"a known one", "it is " + canary + ".", canary, "it is [redacted forge, "},
		{"a known one in JSON", `{"k":"c4n4ry\"\\<&>ß/K7"}`, `c4n4ry`, `{"k":"[redacted forge, `},
		{"a known one in careful JSON", `{"k":"c4n4ry\"\\\u003c\u0026\u003eß/K7"}`, `c4n4ry`, `{"k":"[redacted forge, `},
		{"the server's own", "key " + secret(1).Hex(), secret(1).Hex(), "key [redacted server secret, 64 bytes, "},
		{"a token of ours", "x_" + hangarToken() + "_y", hangarToken(), "x_[redacted hangar token, 47 bytes, "},
		{"a bearer header", "authorization: Bearer abcdef.012345", "abcdef", "authorization: Bearer [redacted authorization, 13 bytes, "},
		{"a basic header", "> Authorization: Basic dXNlcjpwYXNzd29yZA==\n> Host: a", "dXNlcjp", "\n> Host: a"},
		{"a proxy's header", "Proxy-Authorization: Negotiate YIIabcdef", "YIIabcdef", "Proxy-Authorization: "},
		{"a header of another scheme", "Authorization: AWS4-HMAC-SHA256 Credential=x/y, Signature=deadbeef", "deadbeef", "Authorization: "},
		{"a header in a command", `curl -H "Authorization: Bearer tok-123456" https://a.b/c`, "tok-123456", `" https://a.b/c`},
		{"a bearer alone", "sent bearer tok-123456", "tok-123456", "sent bearer "},
		{"cookies", "Cookie: sid=abc123; theme=dark; csrf=zzz999\r\nHost: a", "zzz999", "\r\nHost: a"},
		{"a cookie set", "Set-Cookie: sid=abc123; Path=/", "abc123", "Set-Cookie: "},
		{"a key", "here:\n" + pem + "\nthere", "foobarbaz", "here:\n[redacted private key, "},
		{"a key without its end", pem[:60], "MIIEowIBA", "[redacted private key, "},
		{"a key without its beginning", pem[40:] + "\nthere", "foobarbaz", "\nthere"},
		{"a PGP key", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\nabcdef\n-----END PGP " + "PRIVATE KEY BLOCK----- x", "abcdef", "----- x"[5:]},
		{"a URL", "postgres://app:s3cr+t,pw@db:5432/x?sslmode=off", "s3cr+t,pw", "postgres://app:[redacted url password, 9 bytes, "},
		{"a URL with an @ in it", "HTTPS://u:p@ss@host/x", "p@ss", "@host/x"},
		{"a URL with a short one", "redis://:pw@host", ":pw@", "@host"},
		{"an access key", "id AKIAIOSFODNN7EXAMPLE ok", "AKIAIOSFODNN7EXAMPLE", " ok"},
		{"a forge's token", "KEY_ghp_0123456789abcdefghijABCDEFGHIJ456789", "0123456789abcdef", "KEY_[redacted"},
		{"a model's key", "sk-" + strings.Repeat("aB3-", 8), "aB3", "[redacted api key"},
		{"a web token", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK", "eyJ", "[redacted web token"},
		{"an assignment", "api_key = abcd1234", "abcd1234", "api_key = [redacted value, 8 bytes, "},
		{"an assignment in quotes", `db_password: "two words; and more"`, "more", `db_password: "[redacted value, 19 bytes, `},
		{"an assignment in single quotes", `db.secret='a b, c'`, "b, c", `db.secret='[redacted value, 6 bytes, `},
		{"an escaped quotation", `{\"client_secret\":\"a b, c\"}`, "b, c", `{\"client_secret\":\"[redacted value, 6 bytes, `},
		{"a quotation with quotes", `"password": "a\"b c"`, "b c", `"password": "[redacted value, `},
		{"a flag", "login --password hunter22 --user me", "hunter22", " --user me"},
		{"a query", "https://a/b?access_token=zzzz9999&x=1", "zzzz9999", "&x=1"},
		{"a number that is a secret", "password: 12345678", "12345678", "password: [redacted value, 8 bytes, "},
	} {
		got := redactor().Text(c.text)
		if strings.Contains(got, c.leak) {
			t.Errorf("%s is left: %s", c.name, got)
		}
		if !strings.Contains(got, c.keeps) {
			t.Errorf("%s: %q is not left of it: %s", c.name, c.keeps, got)
		}
		if again := redactor().Text(got); again != got {
			t.Errorf("%s: redacted again, it changes from\n%s to\n%s", c.name, got, again)
		}
	}
}

func TestPrintenvLosesItsSecrets(t *testing.T) {
	const env = "HOME=/home/me\nAWS_SECRET_ACCESS_KEY=wJalr/XUtn+FEMI\nPATH=/bin:/usr/bin\nPWD=/home/me\nSSH_AUTH_SOCK=/run/agent\n" +
		"PGPASSWORD=p,assw0rd with spaces; and [more]\nexport NPM_TOKEN='abc def'\nSIGNING_KEY=k;1\nDB_PASS=pa\nMYSQL_PWD=pb\n" +
		"GITHUB_PAT=pc\nREGISTRY_AUTH=pd\ndeclare -x API_KEY=\"pe\"\nLANG=C.UTF-8\nDATABASE_URL=postgres://u:pf@h/d\r\nsession_cookie=a=b; c=pg\n"
	got := redactor().Text(env)
	for _, leak := range []string{"wJalr", "p,assw0rd", "with spaces", "more", "abc def", "k;1", "=pa", "=pb", "=pc", "=pd", "pe\"", ":pf@", "pg"} {
		if strings.Contains(got, leak) {
			t.Errorf("%q is left in\n%s", leak, got)
		}
	}
	for _, stays := range []string{"HOME=/home/me", "PATH=/bin:/usr/bin", "\nPWD=/home/me", "SSH_AUTH_SOCK=/run/agent", "LANG=C.UTF-8", "AWS_SECRET_ACCESS_KEY=[redacted value, 15 bytes, ", "MYSQL_PWD=[redacted"} {
		if !strings.Contains(got, stays) {
			t.Errorf("%q is not left in\n%s", stays, got)
		}
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	for _, text := range []string{
		"", "hello, world", "the password is not here", "Tokens used: 12,345", "total_tokens=4096", "tokens: 1.5k", "token: x",
		"--- PASS: TestPassword (0.00s)", "https://host:8080/path", "git@github.com:acme/app.git", "ssh://git@host/x", "task-zyj3lso4trdoez4zhpq5sr47yg",
		"a basic idea", "see https://a.b/c?d=e", "commit 8d26a31 keeps streams", "risk-averse-people-everywhere-agree", "monkey=banana",
	} {
		if got := redactor().Text(text); got != text {
			t.Errorf("%q has become %q", text, got)
		}
	}
}

// What is left recognises a secret: the same one leaves the same mark, another
// one another, and another server's key a third.
func TestMarksTellNameSizeAndKeyedHash(t *testing.T) {
	form := regexp.MustCompile(`^password=\[redacted value, 8 bytes, [0-9a-f]{8}\]$`)
	a, b := redactor().Text("password=hunter22"), redactor().Text("password=hunter23")
	if !form.MatchString(a) || !form.MatchString(b) || a == b || a != redactor().Text("password=hunter22") {
		t.Errorf("the marks are %s and %s", a, b)
	}
	if other := redact.New(secret(2), nil).Text("password=hunter22"); other == a || !form.MatchString(other) {
		t.Errorf("under another key it is %s", other)
	}
	whole, line := redact.New(secret(1), map[string]string{"k": "first line of it\nsecond line of it"}), "second line of it"
	if got := whole.Text("> " + line); strings.Contains(got, line) || !strings.Contains(got, "34 bytes") {
		t.Errorf("a line of a longer secret leaves %s", got)
	}
}

func TestKnown(t *testing.T) {
	r := redactor().With(map[string]string{"CI": "env-value-1"})
	for text, want := range map[string]string{
		"": "", "nothing": "", "1234567": "", "c4n4ry": "", `{"a":[1,null,"b"]}`: "",
		"x" + canary:                              "forge",
		"x" + hangarToken():                       "a hangar token",
		secret(1).Hex():                           "server secret",
		"use env-value-1 there":                   "CI",
		`"\u0065nv-value-1"`:                      "CI",
		`{"a":["\u0065nv-value-1"]}`:              "CI",
		`{"\u0065nv-value-1":0}`:                  "CI",
		`"{\"a\":\"\\u0065nv-value-1\"}"`:         "CI",
		`{"a":"\u0068` + hangarToken()[1:] + `"}`: "a hangar token",
		`{"a":"c4n4ry\"\\<&>ß/K7"}`:               "forge",
	} {
		got, found := r.Known(text)
		if got != want || found != (want != "") {
			t.Errorf("%.40s holds %q, %t; want %q", text, got, found, want)
		}
	}
	if name, found := redactor().Known("env-value-1"); found {
		t.Errorf("the first redactor has learnt %s", name)
	}
}

func TestJSONLosesItsSecrets(t *testing.T) {
	quoted, err := json.Marshal(canary)
	if err != nil {
		t.Fatal(err)
	}
	r := redactor()
	for _, c := range []struct{ name, text, leak, keeps string }{
		{"a value", `{"a":` + string(quoted) + `}`, "c4n4ry", `"a":"[redacted forge, `},
		{"a value of a name", `{"a":{"b":[{"clientSecret":"x"}]}}`, `"x"`, `"clientSecret":"[redacted clientSecret, 1 bytes, `},
		{"values in a list", `{"private_keys":["one","two"]}`, `"one"`, `[redacted private_keys, 3 bytes, `},
		{"a header", `{"Authorization":"Bearer zz","X-Api-Key":"yy","Set-Cookie":"xx"}`, `zz`, `"X-Api-Key":"[redacted X-Api-Key, 2 bytes, `},
		{"a number", `{"password":12345678,"n":1.50}`, "12345678", `"n":1.50`},
		{"JSON in a string", `{"out":" {\"password\":\"zz\",\"n\":10000000000000000000001} "}`, "zz", `10000000000000000000001`},
		{"JSON in a string in JSON in a string", `{"a":"{\"b\":\"{\\\"secret\\\":\\\"zz\\\"}\"}"}`, "zz", `[redacted secret, 2 bytes`},
		{"printenv in a string", `{"out":"A=1\nMY_TOKEN=zz yy\nB=2"}`, "zz yy", `A=1\nMY_TOKEN=[redacted value, 5 bytes, `},
		{"a member's name", `{"` + hangarToken() + `":1}`, hangarToken(), `"[redacted hangar token, 47 bytes, `},
		{"a member's name in a mark", `{"token ` + hangarToken() + `":"x"}`, hangarToken(), `"[redacted token (redacted hangar token, 47 bytes, `},
		{"no JSON", `password=zzzzzz`, "zzzzzz", `"password=[redacted value, 6 bytes, `},
		{"two texts", `{"a":1} {"password":"zzzz"}`, "zzzz", `"{\"a\":1} `},
		{"a text alone", `"` + hangarToken() + `"`, hangarToken(), `"[redacted hangar token`},
	} {
		got := string(r.JSON(json.RawMessage(c.text)))
		if strings.Contains(got, c.leak) || !strings.Contains(got, c.keeps) || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s has become %s", c.name, c.text, got)
		}
		if again := string(r.JSON(json.RawMessage(got))); again != got {
			t.Errorf("%s: redacted again, it changes from\n%s to\n%s", c.name, got, again)
		}
	}
	for _, stays := range []string{``, `null`, `7`, `"x"`, `[]`, `{"a":[1,2.50,1e3,null,true,"<b>"]}`, `{"input_tokens":5000,"max_tokens":null}`, `{"cookie":true,"secret":"","token":null}`} {
		if got := string(r.JSON(json.RawMessage(stays))); got != stays {
			t.Errorf("%s has become %s", stays, got)
		}
	}
}

func TestSeal(t *testing.T) {
	old, now := redact.New(secret(1), nil), redact.New(secret(2), nil, secret(1))
	nonce := [12]byte{1, 2, 3}
	sealed := old.Seal(canary, "env job-x A", nonce)
	if strings.Contains(sealed, "c4n4ry") || !strings.HasPrefix(sealed, "sealed:") {
		t.Errorf("it is sealed as %s", sealed)
	}
	if sealed == old.Seal(canary, "env job-x A", [12]byte{9}) {
		t.Error("another nonce gives the same text")
	}
	for name, r := range map[string]*redact.Redactor{"the same secret": old, "a newer one": now, "more known": old.With(map[string]string{"a": "b"})} {
		if got, err := r.Open(sealed, "env job-x A"); got != canary || err != nil {
			t.Errorf("under %s it opens as %q, %v", name, got, err)
		}
	}
	if got, err := old.Open(now.Seal("x", "p", nonce), "p"); err == nil || domain.CodeOf(err) != domain.Unavailable {
		t.Errorf("what the newer secret sealed opens under the older as %q, %v", got, err)
	}
	for name, bad := range map[string]string{"": "", "no seal": canary, "empty": "sealed:", "short": "sealed:AAAA", "no base64": "sealed:*", "changed": sealed[:len(sealed)-2] + "AA", "cut": sealed[:len(sealed)-4]} {
		if got, err := old.Open(bad, "env job-x A"); err == nil || got != "" {
			t.Errorf("%q opens as %q", name, got)
		} else if strings.Contains(err.Error(), "c4n4ry") {
			t.Errorf("the error gives it away: %v", err)
		}
	}
	if got, err := old.Open(sealed, "env job-x B"); err == nil {
		t.Errorf("for another purpose it opens as %q", got)
	}
	for _, k := range []domain.Secret{secret(1), secret(2)} {
		if name, found := now.Known("x" + k.Hex()); !found || name != "server secret" {
			t.Errorf("the server's secret %s is not known", k.ID())
		}
	}
}
