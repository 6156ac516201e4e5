package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hangar/domain"
)

// moved is a type at its third version: version 1 named the place "where", and
// version 2 had no unit.
type moved struct {
	Place    string `json:"place"`
	SpeedKmh int    `json:"speed_kmh"`
}

func (moved) EventType() Type { return "TestMoved" }

// unregistered is of no version.
type unregistered struct{}

func (unregistered) EventType() Type { return "TestUnregistered" }

// register adds a type for one test.
func register(t *testing.T, d Data, version int, upcasts ...Upcast) {
	t.Helper()
	Register(d, version, upcasts...)
	t.Cleanup(func() { delete(kinds, d.EventType()) })
}

// rename gives an upcast that renames a member.
func rename(from, to string) Upcast {
	return func(data json.RawMessage) (json.RawMessage, error) {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, err
		}
		if v, ok := m[from]; ok {
			m[to] = v
			delete(m, from)
		}
		return json.Marshal(m)
	}
}

func record(typ string, version int, data string) domain.Record {
	return domain.Record{ID: "r-1", Stream: "job-x", Revision: 3, Position: 9, Type: typ, Version: version,
		Time: "2026-05-01T12:00:00.000001Z", Data: data, Hash: "h",
		Meta: `{"tenant":"acme","principal":"alice","command_id":"c-1","correlation_id":"o-1","causation_id":"r-0","traceparent":"t"}`}
}

func TestOldVersionsAreUpcastStepByStep(t *testing.T) {
	register(t, moved{}, 3, rename("where", "place"), rename("speed", "speed_kmh"))
	for version, data := range map[int]string{
		1: `{"where":"here","speed":7}`, 2: `{"place":"here","speed":7}`, 3: `{"place":"here","speed_kmh":7}`,
	} {
		e, err := Decode(record("TestMoved", version, data))
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if e.Data != (moved{"here", 7}) {
			t.Errorf("version %d is read as %+v", version, e.Data)
		}
	}
	typ, version, text, err := Encode(moved{"here", 7})
	if typ != "TestMoved" || version != 3 || text != `{"place":"here","speed_kmh":7}` || err != nil {
		t.Errorf("it is written as %s %d %s, %v", typ, version, text, err)
	}
}

func TestUpcastsThatFailNameTheRecord(t *testing.T) {
	fault := errors.New("no place")
	register(t, moved{}, 2, func(json.RawMessage) (json.RawMessage, error) { return nil, fault })
	_, err := Decode(record("TestMoved", 1, `{}`))
	if !errors.Is(err, fault) || !strings.Contains(err.Error(), "r-1") || !strings.Contains(err.Error(), "TestMoved from version 1") {
		t.Errorf("it says %v", err)
	}
}

// What a newer version wrote is told by name and version, so that somebody can
// install that one.
func TestWhatIsUnknownIsNamed(t *testing.T) {
	register(t, moved{}, 2, rename("where", "place"))
	for _, c := range []struct {
		typ     string
		version int
		known   int
		says    string
	}{
		{"TestMoved", 3, 2, "event type TestMoved is at version 3, and this version of hangar knows it up to 2"},
		{"TestMoved", 0, 2, "event type TestMoved is at version 0, and this version of hangar knows it up to 2"},
		{"TestMoved", -1, 2, "event type TestMoved is at version -1, and this version of hangar knows it up to 2"},
		{"TestSailed", 4, 0, "event type TestSailed (version 4) is not known to this version of hangar"},
	} {
		e, err := Decode(record(c.typ, c.version, `{}`))
		var unknown *UnknownError
		if !errors.As(err, &unknown) || *unknown != (UnknownError{Type(c.typ), c.version, c.known}) {
			t.Errorf("%s %d: %v", c.typ, c.version, err)
			continue
		}
		if err.Error() != c.says {
			t.Errorf("it says %q, want %q", err, c.says)
		}
		if e.ID != "r-1" || e.Revision != 3 || e.Data != nil {
			t.Errorf("of a record that is not known it gives %+v", e)
		}
	}
	if _, _, _, err := Encode(unregistered{}); !errors.As(err, new(*UnknownError)) {
		t.Errorf("what is not registered is encoded: %v", err)
	}
}

func TestDecodeGivesAllOfARecord(t *testing.T) {
	register(t, moved{}, 1)
	e, err := Decode(record("TestMoved", 1, `{"place":"here","later":true}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Meta{Tenant: "acme", Principal: "alice", CommandID: "c-1", CorrelationID: "o-1", CausationID: "r-0", Traceparent: "t"}
	if e.Meta != want || e.Meta.Owner() != (domain.Owner{Tenant: "acme", Principal: "alice"}) {
		t.Errorf("its meta is %+v", e.Meta)
	}
	if domain.FormatTime(e.Time) != "2026-05-01T12:00:00.000001Z" || e.Stream != "job-x" || e.Revision != 3 || e.Position != 9 || e.Hash != "h" {
		t.Errorf("it is %+v", e)
	}
}

func TestRecordsThatCannotBeReadAreNamed(t *testing.T) {
	register(t, moved{}, 1)
	for what, damage := range map[string]func(*domain.Record){
		"time": func(r *domain.Record) { r.Time = "noon" },
		"meta": func(r *domain.Record) { r.Meta = "{" },
		"data": func(r *domain.Record) { r.Data = `{"place":7}` },
		"Data": func(r *domain.Record) { r.Data = `` },
	} {
		r := record("TestMoved", 1, `{}`)
		damage(&r)
		_, err := Decode(r)
		if err == nil || !strings.Contains(err.Error(), "record r-1") || !strings.Contains(err.Error(), strings.ToLower(what)) {
			t.Errorf("with its %s damaged: %v", what, err)
		}
	}
}

func TestMetaLeavesOutWhatIsNot(t *testing.T) {
	for want, m := range map[string]Meta{
		`{"command_id":"c"}`: {CommandID: "c"},
		`{"tenant":"a","principal":"b","command_id":"c","correlation_id":"d","causation_id":"e","traceparent":"f"}`: {"a", "b", "c", "d", "e", "f"},
		`{"tenant":"<&>","command_id":""}`: {Tenant: "<&>"},
	} {
		if got, err := EncodeMeta(m); got != want || err != nil {
			t.Errorf("it is written as %s, %v; want %s", got, err, want)
		}
	}
}

func TestRegisterPanicsOnMistakes(t *testing.T) {
	register(t, moved{}, 1)
	for name, f := range map[string]func(){
		"twice":              func() { Register(moved{}, 1) },
		"an upcast missing":  func() { Register(unregistered{}, 2) },
		"an upcast too many": func() { Register(unregistered{}, 1, rename("a", "b")) },
	} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "event type Test") {
					t.Errorf("%s: it panics with %v", name, v)
				}
			}()
			f()
		}()
	}
}
