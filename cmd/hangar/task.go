package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"hangar/cmd/internal/client"
	"hangar/domain"
	"hangar/domain/task"
	"hangar/handlers/mcp"
	"hangar/handlers/tools"
)

func newTask(sh *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "task", Short: "List, look at, answer and cancel tasks"}
	cmd.AddCommand(newTaskList(sh), newTaskGet(sh), newTaskAnswer(sh), newTaskCancel(sh))
	return group(cmd)
}

func newTaskList(sh *shell) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "list [--limit N]",
		Short: "List your tasks that are served, newest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := sh.connect()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.ListTasks(cmd.Context(), limit)
			if err != nil {
				return err
			}
			return sh.emit(list, func(w io.Writer) {
				row(w, "ID", "STATUS", "JOB", "OWNER", "CREATED", "MESSAGE")
				for _, t := range list.Tasks {
					row(w, t.ID, t.Status, t.Job, t.Owner, sh.when(t.CreatedAt), clip(oneLine(t.Message), 60))
				}
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	return addJSON(cmd, sh)
}

// withTask calls a server about a task and shows the task as it then stands.
func (sh *shell) withTask(cmd *cobra.Command, id string, f func(c *client.Client, id domain.TaskID) error) error {
	if !domain.ValidID(task.Category, id) {
		return misuse(cmd, "%q is not a task's id; it is task- and 26 characters", id)
	}
	c, err := sh.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := f(c, domain.TaskID(id)); err != nil {
		return err
	}
	t, err := c.GetTask(cmd.Context(), domain.TaskID(id))
	if err != nil {
		return err
	}
	return sh.showTask(t)
}

func newTaskGet(sh *shell) *cobra.Command {
	return addJSON(&cobra.Command{
		Use:   "get ID",
		Short: "Show a task",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.withTask(cmd, args[0], func(*client.Client, domain.TaskID) error { return nil })
		},
	}, sh)
}

func newTaskCancel(sh *shell) *cobra.Command {
	return addJSON(&cobra.Command{
		Use:   "cancel ID",
		Short: "Ask a task to end, and show it",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return sh.withTask(cmd, args[0], func(c *client.Client, id domain.TaskID) error { return c.CancelTask(cmd.Context(), id) })
		},
	}, sh)
}

func newTaskAnswer(sh *shell) *cobra.Command {
	return addJSON(&cobra.Command{
		Use:   "answer ID KEY=VALUE...",
		Short: "Answer a task's questions, and show it",
		Long: `Answer a task's questions. KEY is the question's, as get shows it; VALUE is the
answer, or a JSON object where the question has several fields.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return takes("ID", "KEY=VALUE")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			answers, err := parseAnswers(args[1:])
			if err != nil {
				return &usageError{cmd, err}
			}
			return sh.withTask(cmd, args[0], func(c *client.Client, id domain.TaskID) error {
				t, err := c.GetTask(cmd.Context(), id)
				if err != nil {
					return err
				}
				if err := outstanding(t, answers); err != nil {
					return err
				}
				return c.UpdateTask(cmd.Context(), id, answers)
			})
		},
	}, sh)
}

// parseAnswers reads KEY=VALUE as what tasks/update takes.
func parseAnswers(args []string) (map[string]any, error) {
	answers := map[string]any{}
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("%q is not KEY=VALUE", a)
		}
		if _, twice := answers[key]; twice {
			return nil, fmt.Errorf("%s is answered twice", key)
		}
		var content any = map[string]string{"answer": value}
		if object := json.RawMessage(value); strings.HasPrefix(strings.TrimSpace(value), "{") && json.Valid(object) {
			content = object
		}
		answers[key] = map[string]any{"action": task.Accept, "content": content}
	}
	return answers, nil
}

// outstanding refuses answers to what is not asked: the server would pass over
// them in silence, as the protocol wants.
func outstanding(t *mcp.Task, answers map[string]any) error {
	keys := slices.Sorted(maps.Keys(t.InputRequests))
	for key := range answers {
		switch {
		case slices.Contains(keys, key):
		case len(keys) == 0:
			return fmt.Errorf("the task is %s and waits for no answer", t.Status)
		default:
			return fmt.Errorf("%s is not asked; the task waits for %s", key, strings.Join(keys, ", "))
		}
	}
	return nil
}

// showTask shows a task.
func (sh *shell) showTask(t *mcp.Task) error {
	return sh.emit(t, func(w io.Writer) {
		row(w, "task", t.ID)
		row(w, "status", t.Status)
		field(w, "message", clip(oneLine(t.StatusMessage), 200))
		if id, ok := t.Meta[tools.MetaJob].(string); ok {
			row(w, "job", oneLine(id))
		}
		for _, key := range slices.Sorted(maps.Keys(t.InputRequests)) {
			text, options := question(t.InputRequests[key])
			row(w, "question", questionLine(key, text, options))
			row(w, "answer", fmt.Sprintf("hangar task answer %s %s=…", t.ID, key))
		}
		if t.Error != nil {
			row(w, "error", fmt.Sprintf("%s (%d)", oneLine(t.Error.Message), t.Error.Code))
		}
		if len(t.Result) > 0 {
			sh.showOutcome(w, t.Result)
		}
		row(w, "created", sh.when(t.CreatedAt))
		row(w, "updated", sh.when(t.LastUpdatedAt))
		if created, err := domain.ParseTime(t.CreatedAt); err == nil && t.TTLMs != nil {
			row(w, "served until", sh.when(domain.FormatTime(created.Add(millis(*t.TTLMs)))))
		}
	})
}

// showOutcome shows what a completed task holds, in a few words.
func (sh *shell) showOutcome(w io.Writer, raw json.RawMessage) {
	r, err := client.ParseResult(raw)
	if err != nil {
		return
	}
	if r.IsError {
		row(w, "outcome", "failed")
	}
	v, err := parseJob(r.Structured)
	if err != nil {
		field(w, "result", clip(oneLine(r.Text), 200))
		return
	}
	field(w, "summary", clip(oneLine(v.Summary), 200))
	field(w, "result", clip(oneLine(string(v.Result)), 200))
	if v.Error != nil {
		row(w, "error", oneLine(v.Error.Message)+" ("+oneLine(v.Error.Code)+")")
	}
}
