package config_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"hangar/cmd/internal/config"
)

var update = flag.Bool("update", false, "write what came out into the golden files")

// TestLoad runs testdata/*.txtar. In each, hangar.yaml is the file, env and flags
// are lines of NAME=VALUE, and want is what came out: every value that is not the
// default, or the error. $DIR is the folder the test ran in.
func TestLoad(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			env := map[string]string{"HOME": "/home/ann", "HANGAR_DATA": dir}
			var f config.Flags
			want := -1
			for i, part := range a.Files {
				switch part.Name {
				case "env":
					maps.Copy(env, pairs(t, part.Data, dir))
				case "flags":
					p := pairs(t, part.Data, dir)
					f = config.Flags{Config: p["config"], Data: p["data"], Listen: p["listen"], Store: p["store"]}
				case "want":
					want = i
				default:
					if err := os.WriteFile(filepath.Join(dir, part.Name), part.Data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			c, err := config.Load(f, func(k string) string { return env[k] })
			got := strings.ReplaceAll(render(c, err), dir, "$DIR")
			if *update {
				a.Files[want].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(a.Files[want].Data), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func pairs(t *testing.T, text []byte, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for line := range strings.Lines(string(text)) {
		k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			t.Fatalf("%q is not NAME=VALUE", line)
		}
		m[k] = strings.ReplaceAll(v, "$DIR", dir)
	}
	return m
}

// render lists what is not the default.
func render(c config.Config, err error) string {
	if err != nil {
		return "error\n" + err.Error() + "\n"
	}
	var b strings.Builder
	var walk func(name string, v, d reflect.Value)
	walk = func(name string, v, d reflect.Value) {
		if v.Kind() == reflect.Struct && v.Type().PkgPath() == reflect.TypeFor[config.Config]().PkgPath() {
			for i := range v.NumField() {
				walk(name+"."+v.Type().Field(i).Name, v.Field(i), d.Field(i))
			}
			return
		}
		if !reflect.DeepEqual(v.Interface(), d.Interface()) {
			fmt.Fprintf(&b, "%s = %v\n", name[1:], v.Interface())
		}
	}
	walk("", reflect.ValueOf(c), reflect.ValueOf(config.Default()))
	return b.String()
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("ab", 31) + "a"
	env := map[string]string{"HOME": "/home/ann", "HANGAR_SECRET": secret, "HANGAR_STORE": "postgres://u:" + secret + "@h/d"}
	_, err := config.Load(config.Flags{}, func(k string) string { return env[k] })
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v, want an error without the secret", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("listen: 127.0.0.1:0\ntasks: { ttl: 1h }\nagents:\n  a: {kind: scripted}\n")
	f.Add("a: &x [1]\nb: *x\n<<: *x\n")
	f.Add("upstreams:\n  u: {command: [\"${X:-a}\"], pins: {a: b}}\n")
	f.Add("? [a]\n: b\n--- \n...\n--- 1")
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, config.FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{"HOME": "/home/ann"}
		c, err := config.Load(config.Flags{Data: dir}, func(k string) string { return env[k] })
		if err == nil && (c.Tasks.TTL <= 0 || c.Limits.Running < 1 || c.Agents[c.DefaultAgent].Kind == "") {
			t.Errorf("%q was taken for %+v", text, c)
		}
	})
}

// TestShownIsTheSame: what YAML writes is read back as what it was.
func TestShownIsTheSame(t *testing.T) {
	t.Parallel()
	a, err := txtar.ParseFile("testdata/whole.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, config.FileName)
	env := map[string]string{"HOME": "/home/ann", "WORK": "/work"}
	load := func(text []byte) config.Config {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Flags{Data: dir}, func(k string) string { return env[k] })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := load(a.Files[0].Data)
	shown, err := first.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, load(shown)); d != "" {
		t.Errorf("%s\n%s", d, shown)
	}
}
