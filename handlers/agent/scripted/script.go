package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// act is one line of a script, ready to be done. It gives nil when the script
// goes on.
type act func(ctx context.Context, p *player) *ending

// verbs makes acts of what follows a verb on its line.
var verbs = map[string]func(arg string) (act, error){
	"say":      parseSay,
	"step":     parseStep,
	"work":     parseWork,
	"ask":      parseAsk,
	"pose":     parsePose,
	"await":    bare((*player).await),
	"result":   parseResult,
	"commit":   parseCommit,
	"artifact": parseArtifact,
	"flood":    parseFlood,
	"fail":     parseFail,
	"hang":     bare((*player).hang),
	"die":      bare(func(*player, context.Context) *ending { return &ending{lost: true} }),
}

// parse reads a whole script before any of it is done.
func parse(script string) ([]act, error) {
	var acts []act
	n := 0
	for line := range strings.Lines(script) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		verb, arg, _ := strings.Cut(line, " ")
		read, ok := verbs[verb]
		if !ok {
			return nil, fmt.Errorf("line %d: there is no verb %q", n, verb)
		}
		a, err := read(strings.TrimSpace(arg))
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", n, verb, err)
		}
		acts = append(acts, a)
	}
	return acts, nil
}

// bare reads a verb that takes nothing.
func bare(do func(p *player, ctx context.Context) *ending) func(string) (act, error) {
	return func(arg string) (act, error) {
		if arg != "" {
			return nil, fmt.Errorf("takes nothing, not %q", arg)
		}
		return func(ctx context.Context, p *player) *ending { return do(p, ctx) }, nil
	}
}

func parseSay(arg string) (act, error) {
	return func(_ context.Context, p *player) *ending {
		p.say(strings.ReplaceAll(arg, "{answer}", p.answer))
		return nil
	}, nil
}

func parseStep(arg string) (act, error) {
	if arg == "" {
		return nil, fmt.Errorf("wants a text")
	}
	return func(_ context.Context, p *player) *ending { p.step(arg); return nil }, nil
}

func parseWork(arg string) (act, error) {
	d, err := time.ParseDuration(arg)
	if err != nil || d < 0 {
		return nil, fmt.Errorf("wants a duration as in 1.5s, not %q", arg)
	}
	return func(ctx context.Context, p *player) *ending { return p.work(ctx, d) }, nil
}

func parseAsk(arg string) (act, error) {
	parts := strings.Split(arg, "|")
	for i := range parts {
		if parts[i] = strings.TrimSpace(parts[i]); parts[i] == "" {
			return nil, fmt.Errorf("wants a question and, after it, options as in | A | B")
		}
	}
	q := question{Text: parts[0], Options: parts[1:]}
	return func(ctx context.Context, p *player) *ending {
		p.pose(q)
		return p.await(ctx)
	}, nil
}

// question is what pose reads.
type question struct {
	Text    string          `json:"text"`
	Options []string        `json:"options"`
	Schema  json.RawMessage `json:"schema"`
}

func parsePose(arg string) (act, error) {
	var q question
	d := json.NewDecoder(strings.NewReader(arg))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fmt.Errorf(`wants {"text", "options", "schema"}: %w`, err)
	}
	if q.Text == "" || d.More() {
		return nil, fmt.Errorf(`wants one {"text", "options", "schema"} with a text`)
	}
	return func(_ context.Context, p *player) *ending { p.pose(q); return nil }, nil
}

func parseResult(arg string) (act, error) {
	if !json.Valid([]byte(arg)) {
		return nil, fmt.Errorf("wants JSON, not %q", arg)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(arg)); err != nil {
		return nil, err
	}
	return func(_ context.Context, p *player) *ending { p.result(b.Bytes()); return nil }, nil
}

func parseCommit(arg string) (act, error) {
	file, text, ok := strings.Cut(arg, " ")
	if !ok {
		return nil, fmt.Errorf("wants a file and a text")
	}
	return func(ctx context.Context, p *player) *ending {
		return p.must(ctx, p.commit(ctx, file, text))
	}, nil
}

func parseArtifact(arg string) (act, error) {
	name, text, ok := strings.Cut(arg, " ")
	if !ok || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return nil, fmt.Errorf("wants a file's name, without folders, and a text")
	}
	return func(ctx context.Context, p *player) *ending {
		return p.must(ctx, p.artifact(name, text))
	}, nil
}

func parseFlood(arg string) (act, error) {
	n, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("wants a number of bytes, not %q", arg)
	}
	return func(ctx context.Context, p *player) *ending { return p.flood(ctx, n) }, nil
}

var codeName = regexp.MustCompile(`^[a-z][a-z_]*$`)

func parseFail(arg string) (act, error) {
	if n, err := strconv.Atoi(arg); err == nil && n >= 1 && n <= 255 {
		return func(_ context.Context, p *player) *ending { return p.failed(n, "") }, nil
	}
	if !codeName.MatchString(arg) {
		return nil, fmt.Errorf("wants an exit code from 1 to 255 or the name of a code, not %q", arg)
	}
	return func(_ context.Context, p *player) *ending { return p.failed(1, arg) }, nil
}
