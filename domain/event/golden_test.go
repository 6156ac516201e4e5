package event_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hangar/domain"
	_ "hangar/domain/access" // for its events, as the packages below
	_ "hangar/domain/audit"
	"hangar/domain/event"
	_ "hangar/domain/job"
	_ "hangar/domain/task"
	_ "hangar/domain/turn"
)

var write = flag.Bool("write-new", false, "write golden files that are not there yet; never one that is")

// The encoding of every event is permanent: a log that was written once is read
// by every later version. A file here is never edited. A type that changes gets a
// new version, with an upcast and a file of its own.
func TestEncodingsAreGolden(t *testing.T) {
	for _, typ := range event.Types() {
		version := event.Version(typ)
		full := filepath.Join("testdata", fmt.Sprintf("%s.%d.json", typ, version))
		least := filepath.Join("testdata", fmt.Sprintf("%s.%d.least.json", typ, version))

		zero := zeroOf(t, typ, version)
		golden(t, least, zero)
		filled := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(filled, string(typ))
		golden(t, full, filled.Interface().(event.Data))
	}
}

// Every file is read, those of older versions too, and what it gives is written
// as the newest version's file says.
func TestGoldenFilesAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no golden files: %v", err)
	}
	for _, file := range files {
		parts := strings.Split(filepath.Base(file), ".")
		var version int
		if _, err := fmt.Sscan(parts[1], &version); err != nil {
			t.Fatalf("%s is named after no version", file)
		}
		text := read(t, file)
		e, err := event.Decode(record(parts[0], version, text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		typ, newest, again, err := event.Encode(e.Data)
		if err != nil || string(typ) != parts[0] {
			t.Errorf("%s: %v", file, err)
		}
		if version == newest && again != text {
			t.Errorf("%s is written again as %s", file, again)
		}
	}
}

// The log's vocabulary, so that a type does not appear or vanish unseen.
func TestTypes(t *testing.T) {
	want := strings.Fields(`AccessDenied JobCancelRequested JobFinished JobFollowUpRequested JobStepChanged JobSubmitted
		PrincipalReserved ProjectionRebuilt QuestionAnswered QuestionAsked QuestionWithdrawn ReactionFailed SecretRotated StoreOpened
		TaskCancelRequested TaskCancelled TaskCompleted TaskConsentDecided TaskCreated TaskExpired TaskFailed
		TokenIssued TokenRevoked TurnEnded TurnProgressed TurnQueued TurnStarted`)
	var got []string
	for _, typ := range event.Types() {
		got = append(got, string(typ))
		if event.Version(typ) < 1 {
			t.Errorf("%s is at version %d", typ, event.Version(typ))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if event.Version("TaskForgotten") != 0 {
		t.Error("a type that is not registered has a version")
	}
}

func golden(t *testing.T, file string, d event.Data) {
	t.Helper()
	typ, version, text, err := event.Encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); *write && os.IsNotExist(err) {
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, file); text != want {
		t.Errorf("%s is now written as\n%s\nand was written as\n%s\nso it needs a new version with an upcast", file, text, want)
	}
	e, err := event.Decode(record(string(typ), version, text))
	if err != nil {
		t.Fatal(err)
	}
	_, _, again, err := event.Encode(e.Data)
	if err != nil || again != text {
		t.Errorf("%s does not come back: %s, %v", file, again, err)
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Errorf("%s is no object: %v", file, err)
	}
	checkNames(t, file, members)
}

// checkNames: names are snake case, absent members are left out, never null.
func checkNames(t *testing.T, file string, members map[string]any) {
	t.Helper()
	for name, v := range members {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("%s has a member %q", file, name)
		}
		switch v := v.(type) {
		case nil:
			if absent := []string{"answer", "scopes"}; !slices.Contains(absent, name) { // always there when a hangar writes it
				t.Errorf("%s has a null for %q", file, name)
			}
		case map[string]any:
			if name != "env" && name != "labels" {
				checkNames(t, file, v)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test ./domain/event -write-new writes what is missing)", err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

func record(typ string, version int, data string) domain.Record {
	return domain.Record{ID: "r", Type: typ, Version: version, Time: "2026-05-01T12:00:00.000000Z", Data: data, Meta: "{}"}
}

// zeroOf gives the zero value of a type.
func zeroOf(t *testing.T, typ event.Type, version int) event.Data {
	t.Helper()
	e, err := event.Decode(record(string(typ), version, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	return e.Data
}

// fill puts something into every field, told by its name, so that each member
// shows in the golden file.
func fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("<" + strings.ToLower(name) + ">")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(len(name)))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"` + strings.ToLower(name) + `":[1,"a"]}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), name)
		fill(v.Index(1), name)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("B_KEY"), reflect.ValueOf(name))
		v.SetMapIndex(reflect.ValueOf("A_KEY"), reflect.ValueOf(name))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Field(i).Name)
		}
	default:
		panic("no value for a " + v.Kind().String())
	}
}
