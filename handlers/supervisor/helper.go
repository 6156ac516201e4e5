package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hangar/domain"
)

// Exit codes of the helper.
const (
	helperDone      = 0
	helperRefused   = 1 // said why
	helperMisused   = 2 // said how it is used
	helperWithdrawn = 3 // ask: nobody will answer, for the turn ends
	helperEnded     = 128 + int(syscall.SIGTERM)
)

// lastWord is how long a helper that is told to end waits for the word that the
// turn ends: both come at once then, and a script wants the second.
const lastWord = time.Second

// usage of the helper's verbs.
var usage = map[string]string{
	"ask":      "hangar ask QUESTION [--option A]...   prints the answer; exit 3 when nobody will answer",
	"step":     "hangar step TEXT                      says what you are doing",
	"result":   "hangar result JSON|-                  gives the structured result; - reads it from standard input",
	"artifact": "hangar artifact PATH [--name N]       keeps a file of the workspace",
	"pr":       "hangar pr --title T [--body B]        gives title and body for a pull request",
}

// Helper is hangar as an agent calls it inside its sandbox: ask, step, result,
// artifact, pr, each told to the turn's supervisor. It handles args (the program's
// name left out) only where they begin with one of these and the environment
// names a supervisor. code is for os.Exit: 0 done, 1 refused and said why, 2 wrong
// usage, 3 a question that nobody will answer.
func Helper(args []string, in io.Reader, out, errw io.Writer) (code int, handled bool) {
	socket, token := os.Getenv(EnvSocket), os.Getenv(EnvToken)
	if len(args) == 0 || usage[args[0]] == "" || socket == "" {
		return 0, false
	}
	r, err := parseHelper(args[0], args[1:], in)
	if errors.Is(err, errHelp) {
		fmt.Fprintln(out, "usage: "+usage[args[0]])
		return helperDone, true
	}
	if err != nil {
		fmt.Fprintf(errw, "hangar %s: %v\nusage: %s\n", args[0], err, usage[args[0]])
		return helperMisused, true
	}
	ctx, stop := untilTold()
	defer stop()
	got, err := converse(ctx, socket, token, r)
	var refused *domain.Error
	switch {
	case ctx.Err() != nil:
		return helperEnded, true
	case errors.As(err, &refused):
		fmt.Fprintf(errw, "hangar %s: %v\n", args[0], refused)
		return helperRefused, true
	case err != nil:
		fmt.Fprintf(errw, "hangar %s: the turn's supervisor cannot be reached: %v\n", args[0], err)
		return helperRefused, true
	case got.Withdrawn:
		fmt.Fprintln(errw, "hangar ask: the question was withdrawn: the turn ends")
		return helperWithdrawn, true
	case r.Do == doAsk:
		fmt.Fprintln(out, answerText(got.Answer))
	}
	return helperDone, true
}

// untilTold gives a context that ends a little after this process is told to.
func untilTold() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	go func() { // ends with the context
		select {
		case <-told:
			time.AfterFunc(lastWord, cancel)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(told); cancel() }
}

// errHelp: the usage was asked for.
var errHelp = errors.New("help")

// parseHelper reads a verb's arguments. Options may stand anywhere; after -- there
// are none.
func parseHelper(name string, args []string, in io.Reader) (request, error) {
	r := request{Do: verb(name)}
	options := map[string]func(string){}
	switch r.Do {
	case doAsk:
		options["option"] = func(v string) { r.Options = append(r.Options, v) }
	case doArtifact:
		options["name"] = func(v string) { r.Name = v }
	case doPR:
		options["title"] = func(v string) { r.Title = v }
		options["body"] = func(v string) { r.Text = v }
	default: // the other verbs have none
	}
	words, err := splitOptions(args, options)
	if err != nil {
		return r, err
	}
	switch r.Do {
	case doAsk, doStep:
		r.Text = strings.Join(words, " ")
		if strings.TrimSpace(r.Text) == "" {
			return r, errors.New("there is no text")
		}
	case doResult:
		return r, r.takeResult(words, in)
	case doArtifact:
		return r, r.takePath(words)
	case doPR:
		if len(words) > 0 {
			return r, fmt.Errorf("%q stands alone; quote texts of several words", words[0])
		}
		if strings.TrimSpace(r.Title) == "" {
			return r, errors.New("there is no --title")
		}
	default: // Helper knows no other verb
	}
	return r, nil
}

// splitOptions takes --name VALUE and --name=VALUE out of args.
func splitOptions(args []string, options map[string]func(string)) (words []string, err error) {
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if a == "--" {
			return append(words, args...), nil
		}
		if a == "-h" || a == "--help" {
			return nil, errHelp
		}
		name, value, joined := strings.Cut(strings.TrimPrefix(a, "--"), "=")
		set := options[name]
		switch {
		case !strings.HasPrefix(a, "--"):
			words = append(words, a)
			continue
		case set == nil:
			return nil, fmt.Errorf("there is no option --%s (a text that begins so goes after --)", name)
		case !joined && len(args) == 0:
			return nil, fmt.Errorf("--%s wants a value", name)
		case !joined:
			value, args = args[0], args[1:]
		}
		set(value)
	}
	return words, nil
}

func (r *request) takeResult(words []string, in io.Reader) error {
	if len(words) != 1 {
		return errors.New("give the result as one argument, quoted, or - to read it")
	}
	r.Result = words[0]
	if words[0] == "-" {
		b, err := io.ReadAll(io.LimitReader(in, maxResultBytes+1))
		if err != nil {
			return fmt.Errorf("standard input: %w", err)
		}
		r.Result = string(b)
	}
	if len(r.Result) > maxResultBytes {
		return fmt.Errorf("the result has more than %d bytes; keep bulk in an artifact", maxResultBytes)
	}
	return nil
}

// takePath makes the path absolute and follows its links, as the agent sees them.
func (r *request) takePath(words []string) error {
	if len(words) != 1 {
		return errors.New("give one path")
	}
	path, err := filepath.Abs(words[0])
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	r.Path = path
	return err
}

// answerText is an answer as a script wants it: the text where it is one, also
// where it stands alone in the form {"answer": TEXT}; else JSON.
func answerText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var form map[string]json.RawMessage
	if json.Unmarshal(raw, &form) == nil && len(form) == 1 && json.Unmarshal(form["answer"], &text) == nil {
		return text
	}
	return string(raw)
}
