package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hangar/cmd/internal/client"
	"hangar/domain"
	"hangar/domain/job"
	"hangar/handlers/mcp"
	"hangar/handlers/tools"
)

// maxPrompt bounds a prompt from standard input, in bytes; the server's own bound
// is lower and named by it.
const maxPrompt = 1 << 20

func newJob(sh *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "job", Short: "Submit, look at and cancel jobs"}
	cmd.AddCommand(newJobSubmit(sh), newJobGet(sh), newJobList(sh), newJobCancel(sh), newJobLogs(sh))
	return group(cmd)
}

func newJobSubmit(sh *shell) *cobra.Command {
	var repo, agent string
	var openPR, wait bool
	cmd := &cobra.Command{
		Use:   "submit [--repo PATH] [--agent A] [--open-pr=false] [--wait] PROMPT",
		Short: "Submit a job; its prompt is what the agent is to do (- reads it)",
		Long: `Submit a job, and print its id and that of its task. The prompt is what the agent
is to do; for the agent shell it is a script. - reads it from standard input.

With --wait the job's steps are shown on standard error until it ends, and then
the job. A question is shown with the command that answers it, and waited for.
The exit code is 0 where the job completed, else 1.`,
		Args: takes("PROMPT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt, err := sh.prompt(args[0])
			if err != nil {
				return err
			}
			arguments := map[string]any{"prompt": prompt}
			if repo != "" {
				if arguments["repo"], err = repoPath(repo); err != nil {
					return err
				}
			}
			if agent != "" {
				arguments["agent"] = agent
			}
			if cmd.Flags().Changed("open-pr") {
				arguments["open_pr"] = openPR
			}
			return sh.submit(cmd.Context(), arguments, wait)
		},
	}
	f := cmd.Flags()
	f.StringVar(&repo, "repo", "", "git repository to work in, on the server's machine")
	f.StringVar(&agent, "agent", "", "agent that does the work (default the server's default_agent)")
	f.BoolVar(&openPR, "open-pr", true, "bring the commits back for a pull request")
	f.BoolVar(&wait, "wait", false, "follow the job until it ends")
	return addJSON(cmd, sh)
}

func (sh *shell) prompt(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(io.LimitReader(sh.in, maxPrompt+1))
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	if len(b) > maxPrompt {
		return "", fmt.Errorf("the prompt has more than %d bytes", maxPrompt)
	}
	return string(b), nil
}

// repoPath makes a path mean to the server what it means here.
func repoPath(path string) (string, error) {
	if strings.HasPrefix(path, "~") {
		return path, nil
	}
	return filepath.Abs(path)
}

func (sh *shell) submit(ctx context.Context, arguments map[string]any, wait bool) error {
	c, err := sh.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := c.CallTool(ctx, "submit_job", arguments, true)
	if err != nil {
		return err
	}
	if r.Task == nil {
		return toolError(r)
	}
	id, _ := r.Task.Meta[tools.MetaJob].(string)
	if wait {
		return sh.follow(ctx, c, domain.JobID(id), r.Task, followEvery)
	}
	view, err := getJob(ctx, c, domain.JobID(id))
	if err != nil {
		return err
	}
	return sh.emit(struct {
		Job  json.RawMessage `json:"job"`
		Task *mcp.Task       `json:"task"`
	}{view.raw, r.Task}, func(w io.Writer) {
		row(w, "job", id)
		row(w, "task", r.Task.ID)
	})
}

// toolError gives the error that a tool's result tells.
func toolError(r *client.Result) error {
	if r.Text == "" {
		return errors.New("the server gave an answer that was not asked for")
	}
	return errors.New(r.Text)
}

// jobView is a job as the server shows it: parsed for people, and as it came.
type jobView struct {
	tools.JobView
	raw json.RawMessage
}

func callForJob(ctx context.Context, c *client.Client, tool string, arguments map[string]any) (*jobView, error) {
	r, err := c.CallTool(ctx, tool, arguments, false)
	if err != nil {
		return nil, err
	}
	if r.IsError {
		return nil, toolError(r)
	}
	return parseJob(r.Structured)
}

func parseJob(raw json.RawMessage) (*jobView, error) {
	v := &jobView{raw: raw}
	if err := json.Unmarshal(raw, &v.JobView); err != nil {
		return nil, fmt.Errorf("the job cannot be read: %w", err)
	}
	return v, nil
}

func getJob(ctx context.Context, c *client.Client, id domain.JobID) (*jobView, error) {
	return callForJob(ctx, c, "get_job", map[string]any{"job_id": id})
}

// oneJob makes a command that calls a tool about one job and shows the job.
func oneJob(sh *shell, use, short, tool string) *cobra.Command {
	return addJSON(&cobra.Command{
		Use:   use,
		Short: short,
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := sh.connect()
			if err != nil {
				return err
			}
			defer c.Close()
			v, err := callForJob(cmd.Context(), c, tool, map[string]any{"job_id": args[0]})
			if err != nil {
				return err
			}
			return sh.showJob(v)
		},
	}, sh)
}

func newJobGet(sh *shell) *cobra.Command {
	return oneJob(sh, "get ID", "Show a job", "get_job")
}

func newJobCancel(sh *shell) *cobra.Command {
	return oneJob(sh, "cancel ID", "Ask a job to end, and show it", "cancel_job")
}

func newJobList(sh *shell) *cobra.Command {
	var status string
	var limit int
	cmd := &cobra.Command{
		Use:   "list [--status S] [--limit N]",
		Short: "List jobs, newest first",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			arguments := map[string]any{"limit": limit}
			if status != "" {
				arguments["status"] = status
			}
			c, err := sh.connect()
			if err != nil {
				return err
			}
			defer c.Close()
			r, err := c.CallTool(cmd.Context(), "list_jobs", arguments, false)
			if err != nil {
				return err
			}
			if r.IsError {
				return toolError(r)
			}
			var list struct {
				Jobs []tools.JobView `json:"jobs"`
				Next string          `json:"next_cursor"`
			}
			if err := json.Unmarshal(r.Structured, &list); err != nil {
				return fmt.Errorf("the list cannot be read: %w", err)
			}
			if list.Next != "" {
				sh.say("hangar: there are more; --limit shows them")
			}
			return sh.emit(r.Structured, func(w io.Writer) {
				row(w, "ID", "STATUS", "AGENT", "CREATED", "TITLE")
				for i := range list.Jobs {
					j := &list.Jobs[i]
					row(w, j.ID, j.Status, oneLine(j.Agent), sh.when(j.CreatedAt), clip(oneLine(j.Title), 60))
				}
			})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only those that are "+statusNames())
	cmd.Flags().IntVar(&limit, "limit", 20, "how many at most")
	return addJSON(cmd, sh)
}

func statusNames() string {
	names := make([]string, len(job.Statuses))
	for i, s := range job.Statuses {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

func newJobLogs(sh *shell) *cobra.Command {
	var turn int
	var tail int64
	cmd := &cobra.Command{
		Use:   "logs [--turn N] [--tail BYTES] ID",
		Short: "Print what a job's agent printed",
		Args:  takes("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if turn < 0 || tail < 0 {
				return misuse(cmd, "--turn and --tail are not negative")
			}
			c, err := sh.connect()
			if err != nil {
				return err
			}
			defer c.Close()
			return c.JobLogs(cmd.Context(), sh.out, domain.JobID(args[0]), turn, tail)
		},
	}
	cmd.Flags().IntVar(&turn, "turn", 0, "of this turn (default the newest that has begun)")
	cmd.Flags().Int64Var(&tail, "tail", 0, "the last bytes only")
	return cmd
}

// showJob shows a job.
func (sh *shell) showJob(v *jobView) error {
	return sh.emit(v.raw, func(w io.Writer) {
		row(w, "job", v.ID)
		row(w, "status", statusOf(&v.JobView))
		field(w, "title", clip(oneLine(v.Title), 100))
		row(w, "agent", oneLine(v.Agent))
		field(w, "repo", oneLine(v.Repo))
		if v.Step != nil && !v.Done {
			row(w, "step", oneLine(v.Step.Name+": "+v.Step.Status))
		}
		questions := v.Questions
		if len(questions) == 0 && v.Question != nil {
			questions = []tools.QuestionView{*v.Question}
		}
		for _, q := range questions {
			row(w, "question", questionLine(q.Key, q.Text, q.Options))
		}
		field(w, "summary", clip(oneLine(v.Summary), 200))
		if v.Error != nil {
			row(w, "error", oneLine(v.Error.Message)+" ("+oneLine(v.Error.Code)+")")
		}
		if v.PR != nil {
			field(w, "branch", oneLine(v.PR.Branch))
			for _, c := range v.PR.Commits {
				row(w, "commit", clip(c.Hash, 12)+" "+clip(oneLine(c.Subject), 80))
			}
			field(w, "pr", oneLine(v.PR.URL))
		}
		field(w, "result", clip(oneLine(string(v.Result)), 200))
		for _, a := range v.Artifacts {
			row(w, "artifact", fmt.Sprintf("%s (%d bytes)", oneLine(a.Name), a.Size))
		}
		row(w, "created", sh.when(v.CreatedAt))
		field(w, "started", sh.when(v.StartedAt))
		field(w, "finished", sh.when(v.FinishedAt))
		field(w, "note", oneLine(v.Note))
	})
}

func statusOf(v *tools.JobView) string {
	if v.CancelRequested {
		return string(v.Status) + ", to be cancelled"
	}
	return string(v.Status)
}

func questionLine(key, text string, options []string) string {
	line := key + ": " + oneLine(text)
	if len(options) > 0 {
		line += " (" + oneLine(strings.Join(options, " | ")) + ")"
	}
	return line
}
