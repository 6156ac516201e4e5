package event

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"hangar/domain"
)

// Upcast turns the data of one version of a type into the next version's.
type Upcast func(data json.RawMessage) (json.RawMessage, error)

// kind is what the registry knows of a type.
type kind struct {
	version int // the newest, which the struct is
	goType  reflect.Type
	upcasts []Upcast // upcasts[i] leads from version i+1 to i+2
}

// kinds is filled while packages initialise and only read afterwards.
var kinds = map[Type]kind{}

// Register adds a type to the registry, at the version that zero's struct is of;
// upcasts lead from each older version to the next, so there is one fewer than
// the version. It is called from the init of the package that owns the type, and
// panics where a type is given twice or an upcast is missing.
func Register(zero Data, version int, upcasts ...Upcast) {
	t := zero.EventType()
	if _, twice := kinds[t]; twice {
		panic(fmt.Sprintf("event type %s is registered twice", t))
	}
	if len(upcasts) != version-1 {
		panic(fmt.Sprintf("event type %s at version %d has %d upcasts", t, version, len(upcasts)))
	}
	kinds[t] = kind{version: version, goType: reflect.TypeOf(zero), upcasts: upcasts}
}

// Types lists the registered types by name, for tests and documentation.
func Types() []Type {
	list := make([]Type, 0, len(kinds))
	for t := range kinds {
		list = append(list, t)
	}
	slices.Sort(list)
	return list
}

// Version gives the newest version of a type, 0 for one that is not registered.
func Version(t Type) int { return kinds[t].version }

// UnknownError says that a record is of a type, or a version of one, that this
// build does not know: it was written by a newer one.
type UnknownError struct {
	Type    Type
	Version int
	Known   int // the newest version known, 0 for none
}

// Error names the type and the version it needs.
func (e *UnknownError) Error() string {
	if e.Known == 0 {
		return fmt.Sprintf("event type %s (version %d) is not known to this version of hangar", e.Type, e.Version)
	}
	return fmt.Sprintf("event type %s is at version %d, and this version of hangar knows it up to %d", e.Type, e.Version, e.Known)
}

// Encode gives the stored form of data.
func Encode(d Data) (t Type, version int, text string, err error) {
	t = d.EventType()
	k, ok := kinds[t]
	if !ok {
		return "", 0, "", &UnknownError{Type: t}
	}
	text, err = encode(d)
	if err != nil {
		return "", 0, "", fmt.Errorf("encode %s: %w", t, err)
	}
	return t, k.version, text, nil
}

// EncodeMeta gives the stored form of a record's meta.
func EncodeMeta(m Meta) (string, error) { return encode(m) }

// encode writes JSON as it is read by people: no HTML escapes.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return string(bytes.TrimRight(b.Bytes(), "\n")), nil
}

// Decode reads a stored record. The error is *UnknownError for what a newer
// version wrote, and names the record otherwise.
func Decode(r domain.Record) (Event, error) {
	e := Event{ID: r.ID, Stream: r.Stream, Revision: r.Revision, Position: r.Position, Hash: r.Hash}
	k, ok := kinds[Type(r.Type)]
	if !ok || r.Version > k.version || r.Version < 1 {
		return e, &UnknownError{Type: Type(r.Type), Version: r.Version, Known: k.version}
	}
	at, err := domain.ParseTime(r.Time)
	if err != nil {
		return e, fmt.Errorf("record %s: time: %w", r.ID, err)
	}
	e.Time = at
	if err := json.Unmarshal([]byte(r.Meta), &e.Meta); err != nil {
		return e, fmt.Errorf("record %s: meta: %w", r.ID, err)
	}
	data := json.RawMessage(r.Data)
	for v := r.Version; v < k.version; v++ {
		if data, err = k.upcasts[v-1](data); err != nil {
			return e, fmt.Errorf("record %s: upcast %s from version %d: %w", r.ID, r.Type, v, err)
		}
	}
	ptr := reflect.New(k.goType)
	if err := json.Unmarshal(data, ptr.Interface()); err != nil {
		return e, fmt.Errorf("record %s: data of %s: %w", r.ID, r.Type, err)
	}
	e.Data = ptr.Elem().Interface().(Data) //nolint:forcetypeassert // Register took it from a Data
	return e, nil
}
