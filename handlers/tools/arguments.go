package tools

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/bmatcuk/doublestar/v4"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/handlers/mcp"
)

// Bounds on arguments. Together they keep a job within one event of the log.
const (
	maxTitleBytes    = 512
	maxNameBytes     = 255 // of a branch, an agent, an idempotency key
	maxRepoBytes     = 4096
	maxReasonBytes   = 1024
	maxSchemaBytes   = 16 << 10
	maxEnv           = 64
	maxEnvBytes      = 16 << 10 // names and values together
	maxLabels        = 16
	maxLabelBytes    = 128 // one value
	maxGlobs         = 16
	maxGlobBytes     = 256
	maxTimeout       = 7 * 24 * 60 // minutes
	defaultListLimit = 20
	maxListLimit     = 100
)

// inputs are a tool's arguments by name. Deferred are those that the contract
// has and this version does not take yet.
type inputs struct {
	tool            string
	names, deferred []string
}

// inputsOf reads the names from the tool's input schema.
func inputsOf(tool string, schema json.RawMessage, deferred ...string) inputs {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		panic(err) // the schema is a constant
	}
	return inputs{tool: tool, names: slices.Sorted(maps.Keys(s.Properties)), deferred: deferred}
}

// read takes a call's arguments into a struct. What the tool does not know is
// refused by name, and so is what has another type. null is as good as absent.
func (in inputs) read(raw json.RawMessage, into any) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return domain.Errorf(domain.Invalid, "the arguments of %s are a JSON object", in.tool)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		switch {
		case slices.Contains(in.names, name):
		case slices.Contains(in.deferred, name):
			return domain.InvalidField(name, "not taken yet; leave it out")
		default:
			return domain.InvalidField(clip(name, maxNameBytes), "not an argument of %s; known are: %s", in.tool, strings.Join(in.names, ", "))
		}
	}
	err := json.Unmarshal(raw, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return domain.InvalidField(wrong.Field, "want %s, not %s", kindName(wrong.Type), wrong.Value)
	}
	return err
}

func kindName(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // the kinds that arguments have
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Map:
		return "an object whose values are strings"
	case reflect.Float64:
		return "a number"
	}
	return "a string"
}

// absent reports whether an argument that may be any JSON was left out.
func absent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// whole reads a whole number within bounds; def stands for one left out.
func whole(field string, v *float64, def, least, most int) (int, error) {
	if v == nil {
		return def, nil
	}
	if n := int(*v); float64(n) == *v && n >= least && n <= most {
		return n, nil
	}
	return 0, domain.InvalidField(field, "%v is not a whole number from %d to %d", *v, least, most)
}

// checkText refuses a text that is too long or holds what no line of text does.
func checkText(field, s string, most int) error {
	if len(s) > most {
		return domain.InvalidField(field, "it has %d bytes; at most %d are taken", len(s), most)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return domain.InvalidField(field, "it holds a control character; want one line of text")
	}
	return nil
}

// checkPrompt refuses a prompt that says nothing or cannot be written down.
func checkPrompt(s string) error {
	if strings.TrimSpace(s) == "" {
		return domain.InvalidField("prompt", "it is empty; say what the agent is to do")
	}
	if strings.ContainsRune(s, 0) {
		return domain.InvalidField("prompt", "it holds a NUL character; leave it out")
	}
	b, err := mcp.Marshal(s)
	if err != nil {
		return err
	}
	if len(b) > commands.MaxPromptBytes {
		return domain.InvalidField("prompt", "it has %d bytes as JSON; at most %d are taken, put more into a file of the repository", len(b), commands.MaxPromptBytes)
	}
	return nil
}

// checkJobID refuses what cannot be a job's id.
func checkJobID(s string) (domain.JobID, error) {
	if s == "" {
		return "", domain.InvalidField("job_id", "it is missing; submit_job gives it, list_jobs lists them")
	}
	if !domain.ValidID(job.Category, s) {
		return "", domain.InvalidField("job_id", "%q is not the id of a job: want %q and 26 characters of a-z and 2-7, as submit_job gave it", clip(s, maxNameBytes), job.Category+"-")
	}
	return domain.JobID(s), nil
}

// checkSchema gives an output schema without white space, nothing for one left out.
func checkSchema(raw json.RawMessage) (json.RawMessage, error) {
	if absent(raw) {
		return nil, nil
	}
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		return nil, domain.InvalidField("output_schema", "want a JSON Schema as an object")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, domain.InvalidField("output_schema", "it is not JSON")
	}
	if b.Len() > maxSchemaBytes {
		return nil, domain.InvalidField("output_schema", "it has %d bytes; at most %d are taken", b.Len(), maxSchemaBytes)
	}
	if _, err := compileSchema(b.Bytes()); err != nil {
		return nil, domain.InvalidField("output_schema", "not a JSON Schema: %s", oneLine(err))
	}
	return b.Bytes(), nil
}

// checkGlobs refuses patterns that are none and those that lead out of the workspace.
func checkGlobs(globs []string) error {
	if len(globs) > maxGlobs {
		return domain.InvalidField("artifacts", "there are %d patterns; at most %d are taken", len(globs), maxGlobs)
	}
	for _, g := range globs {
		show := clip(g, maxGlobBytes)
		switch {
		case g == "" || len(g) > maxGlobBytes:
			return domain.InvalidField("artifacts", "%q is not a pattern of 1 to %d bytes", show, maxGlobBytes)
		case strings.ContainsFunc(g, unicode.IsControl):
			return domain.InvalidField("artifacts", "%q holds a control character", show)
		case !doublestar.ValidatePattern(g):
			return domain.InvalidField("artifacts", "%q is not a pattern; want one like reports/**/*.html", show)
		case path.IsAbs(g) || escapes(g):
			return domain.InvalidField("artifacts", "%q leads out of the workspace; want a pattern relative to it, without ..", show)
		}
	}
	return nil
}

// escapes reports whether a part of a pattern, or an alternative within one, is "..".
func escapes(glob string) bool {
	parts := strings.FieldsFunc(strings.ReplaceAll(glob, `\`, ""), func(r rune) bool { return strings.ContainsRune("/{},", r) })
	return slices.Contains(parts, "..")
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func checkEnv(env map[string]string) error {
	if len(env) > maxEnv {
		return domain.InvalidField("env", "there are %d variables; at most %d are taken", len(env), maxEnv)
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(env)) {
		switch {
		case !envName.MatchString(name):
			return domain.InvalidField("env", "%q cannot name a variable; want letters, digits and _, not beginning with a digit, at most 128", clip(name, maxNameBytes))
		case strings.HasPrefix(name, "HANGAR_"):
			return domain.InvalidField("env", "%s: names that begin with HANGAR_ are Hangar's own; choose another", name)
		case strings.ContainsRune(env[name], 0):
			return domain.InvalidField("env", "%s: the value holds a NUL character", name)
		}
		size += len(name) + len(env[name])
	}
	if size > maxEnvBytes {
		return domain.InvalidField("env", "it has %d bytes; at most %d are taken", size, maxEnvBytes)
	}
	return nil
}

var labelKey = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return domain.InvalidField("labels", "there are %d; at most %d are taken", len(labels), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !labelKey.MatchString(key) {
			return domain.InvalidField("labels", "%q cannot be a label's key; want 1 to 63 letters, digits and . _ / -, beginning with a letter or digit", clip(key, maxNameBytes))
		}
		if err := checkText("labels", labels[key], maxLabelBytes); err != nil {
			return domain.InvalidField("labels", "%s: the value is one line of at most %d bytes", key, maxLabelBytes)
		}
	}
	return nil
}

// hashEnv stands for an environment in the hash of a call's arguments: names in
// clear, of each value a keyed hash.
func (c *Catalogue) hashEnv(env map[string]string) map[string]string {
	if len(env) == 0 {
		return nil
	}
	hashed := make(map[string]string, len(env))
	for name, value := range env {
		h := hmac.New(sha256.New, c.argumentKey)
		h.Write([]byte(value))
		hashed[name] = hex.EncodeToString(h.Sum(nil))
	}
	return hashed
}
