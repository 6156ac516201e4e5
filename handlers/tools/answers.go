package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"hangar/commands"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/domain/task"
	"hangar/domain/turn"
	"hangar/handlers/mcp"
)

// Update takes answers to a task's questions. Keys that are not outstanding are
// ignored. What is malformed is refused by its key before anything is recorded,
// and one refusal among the answers ends the task.
func (l *Ledger) Update(ctx context.Context, caller mcp.Caller, id domain.TaskID, responses map[string]json.RawMessage) error {
	t, err := l.authorize(ctx, caller, methodUpdate, id)
	if err != nil {
		return err
	}
	if err := l.allow(caller, t); err != nil {
		return err
	}
	_, sub, err := l.folds.Subject(ctx, t)
	if err != nil {
		return err
	}
	answers, err := readAnswers(t.Show(&sub).Open, responses)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(answers, given.refuses); i >= 0 {
		a := answers[i]
		return l.commands.RefuseTask(ctx, answerOrigin(caller, id, a.key), id,
			task.Refuse{Key: a.key, Action: a.action, Via: turn.ViaTask, Subject: sub})
	}
	for _, a := range answers {
		if err := l.take(ctx, caller, t, a); err != nil {
			return err
		}
	}
	return nil
}

// answerOrigin names the command of an answer by its task and key, so that an
// answer given twice is recorded once.
func answerOrigin(caller mcp.Caller, id domain.TaskID, key string) commands.Origin {
	return origin(caller, domain.DerivedCommand(string(id), key))
}

// take gives an answer to the subject, where the first one wins, and then puts
// the consent on the task's record: of the answer that was taken there, which is
// another where this one came too late.
func (l *Ledger) take(ctx context.Context, caller mcp.Caller, t *task.State, a given) error {
	subject, _ := t.Subject()
	id, o := domain.JobID(subject), answerOrigin(caller, t.Created.Handle, a.key)
	taken, err := l.commands.AnswerQuestion(ctx, o, id, job.Answer{N: a.n, Answer: a.answer, Via: turn.ViaTask})
	if err != nil || !taken {
		return err // who lost the race is not told: the question is answered
	}
	s, err := l.folds.Job(ctx, id)
	if err != nil {
		return err
	}
	q := s.Question(a.n)
	if q == nil || q.Answer == nil {
		return domain.Errorf(domain.Internal, "an answer that was taken is not there")
	}
	return l.commands.ConsentTask(ctx, o, t.Created.Handle, a.key, q.Answer, q.Via)
}

// given is one well-formed answer to an outstanding question.
type given struct {
	key    string
	n      int
	action string
	answer json.RawMessage
}

func (g given) refuses() bool { return g.action != task.Accept }

// readAnswers reads the answers to the open questions, in the order these were
// asked.
func readAnswers(open []turn.Question, responses map[string]json.RawMessage) ([]given, error) {
	var list []given
	for i := range open {
		q := &open[i]
		raw, ok := responses[q.Key()]
		if !ok {
			continue
		}
		a, err := readAnswer(q, raw)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

func readAnswer(q *turn.Question, raw json.RawMessage) (given, error) {
	g := given{key: q.Key(), n: q.N}
	if err := mcp.CheckResponse(g.key, mcp.MethodElicit, raw); err != nil {
		return g, err
	}
	var r struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return g, malformed(g.key, "it cannot be read")
	}
	if g.action = r.Action; g.refuses() {
		return g, nil
	}
	var err error
	if len(q.Schema) > 0 {
		g.answer, err = readForm(q, r.Content)
	} else {
		g.answer, err = readPlain(q, r.Content)
	}
	return g, err
}

// readForm reads the answer to a question that brought its own form: all of it.
func readForm(q *turn.Question, content json.RawMessage) (json.RawMessage, error) {
	if absent(content) {
		content = json.RawMessage("{}")
	}
	if err := checkInstance(q.Schema, content); err != nil {
		return nil, malformed(q.Key(), "content does not fit requestedSchema: %s", err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, content); err != nil {
		return nil, err
	}
	if b.Len() > turn.MaxAnswerBytes {
		return nil, malformed(q.Key(), "the answer has %d bytes; at most %d are taken", b.Len(), turn.MaxAnswerBytes)
	}
	return b.Bytes(), nil
}

// readPlain reads the answer to a question in words.
func readPlain(q *turn.Question, content json.RawMessage) (json.RawMessage, error) {
	var form struct {
		Answer json.RawMessage `json:"answer"`
	}
	if !absent(content) {
		if err := json.Unmarshal(content, &form); err != nil {
			return nil, malformed(q.Key(), "content cannot be read")
		}
	}
	if absent(form.Answer) {
		return nil, malformed(q.Key(), "content.answer is missing; want a string")
	}
	return form.Answer, q.CheckAnswer(form.Answer)
}

func malformed(key, format string, args ...any) error {
	return domain.InvalidField("inputResponses."+key, format, args...)
}
