package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hangar/domain"
	"hangar/domain/turn"
)

// floodChunk is how many bytes a flood prints between looks at its context.
const floodChunk = 1 << 20

// player does what one turn's script says.
type player struct {
	turn.Assignment
	journal *journal
	output  *output
	clock   domain.Clock

	schema   *jsonschema.Schema // of the result, nil for none
	resulted bool
	posed    []*ask // asked and not yet waited for
	answer   string // the last one
	lastStep string
	lastSay  string
}

// ending is how a script ends before its last line.
type ending struct {
	exit turn.Exit
	lost bool // without a last line
}

// run plays the script to its end. life ends when the turn is stopped or the
// runner closed; the lease is kept here.
func (p *player) run(life context.Context) {
	if !p.Deadline.IsZero() {
		var cancel context.CancelFunc
		life, cancel = context.WithDeadlineCause(life, p.Deadline, errLease)
		defer cancel()
	}
	e := p.play(life)
	if e.lost {
		p.journal.lose()
		return
	}
	e.exit.Message = p.output.message()
	if e.exit.Summary = p.lastStep; e.exit.Summary == "" {
		e.exit.Summary = p.lastSay
	}
	e.exit.Output = p.output.describe()
	p.journal.exit(e.exit)
}

func (p *player) play(ctx context.Context) *ending {
	acts, err := parse(p.Prompt)
	if err != nil {
		p.say(err.Error())
		return p.failed(2, "") // as a shell ends on a script it cannot read
	}
	if p.schema, err = compile(p.OutputSchema); err != nil {
		p.say("output schema: " + err.Error())
		return p.failed(1, turn.AgentStart)
	}
	for _, do := range acts {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		if e := do(ctx, p); e != nil {
			return e
		}
	}
	if p.schema != nil && !p.resulted {
		return p.failed(0, turn.ResultMissing)
	}
	return &ending{exit: turn.Exit{Reason: turn.ExitCompleted}}
}

// ended tells how an agent ends whose context has.
func ended(ctx context.Context) *ending {
	exit := turn.Exit{Reason: turn.ExitCancelled, ExitCode: -1, Signal: "SIGTERM"}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errClosed):
		return &ending{lost: true}
	case errors.Is(cause, errLease):
		exit.Reason, exit.Code = turn.ExitTimeout, turn.AgentTimeout
	}
	return &ending{exit: exit}
}

// failed ends the script with an exit code, and another code than agent_exited
// where one is given.
func (p *player) failed(exitCode int, code string) *ending {
	if code == "" {
		code = turn.AgentExited
	}
	return &ending{exit: turn.Exit{Reason: turn.ExitFailed, ExitCode: exitCode, Code: code}}
}

// must ends the script where err is one, with its text as the last output.
func (p *player) must(ctx context.Context, err error) *ending {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	p.say(err.Error())
	return p.failed(1, "")
}

func (p *player) say(text string) {
	p.lastSay = clip(text, turn.MaxTextBytes)
	p.output.write(text + "\n")
}

func (p *player) step(text string) {
	p.lastStep = clip(text, turn.MaxTextBytes)
	p.journal.step(p.lastStep)
}

func (p *player) work(ctx context.Context, d time.Duration) *ending {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}

func (p *player) hang(ctx context.Context) *ending {
	<-ctx.Done()
	return ended(ctx)
}

// pose asks. Where the turn has asked too many it tells the agent, and goes on.
func (p *player) pose(q question) {
	if a := p.journal.ask(q.Text, q.Options, q.Schema); a != nil {
		p.posed = append(p.posed, a)
		return
	}
	p.say(fmt.Sprintf("question refused: a turn asks no more than %d", turn.MaxQuestions))
}

// await waits for every question posed, in their order.
func (p *player) await(ctx context.Context) *ending {
	for ; len(p.posed) > 0; p.posed = p.posed[1:] {
		select {
		case <-p.posed[0].done:
			p.answer = p.posed[0].answer
		case <-ctx.Done():
			return ended(ctx)
		}
	}
	return nil
}

// result reports a result that fits the schema; one that does not is told to the
// agent, which is what it prints.
func (p *player) result(result json.RawMessage) {
	if p.schema != nil {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(result)))
		if err == nil {
			err = p.schema.Validate(v)
		}
		if err != nil {
			p.say("result refused: " + err.Error())
			return
		}
	}
	p.resulted = true
	p.journal.add(turn.Line{Kind: turn.LineResult, Result: result})
}

func (p *player) flood(ctx context.Context, n int64) *ending {
	const line = "the quick brown fox jumps over the lazy dog and is told about it at some length\n"
	chunk := strings.Repeat(line, floodChunk/len(line))
	for n > 0 {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		part := chunk[:min(n, int64(len(chunk)))]
		p.output.write(part)
		n -= int64(len(part))
	}
	return nil
}

// compile reads an output schema, nil for none. References out of it are
// refused: this process fetches nothing for an agent.
func compile(schema json.RawMessage) (*jsonschema.Schema, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		return nil, err
	}
	const name = "urn:hangar:output-schema"
	c := jsonschema.NewCompiler()
	c.UseLoader(nothing{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// nothing loads no schema.
type nothing struct{}

// Load refuses.
func (nothing) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not within the schema", url)
}
