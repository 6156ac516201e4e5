package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"hangar/domain"
	"hangar/domain/task"
	"hangar/handlers/audit"
)

func newAudit(sh *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Replay and verify the log, beside a server or without one"}
	cmd.AddCommand(newReplay(sh), newVerify(sh))
	return group(cmd)
}

func newReplay(sh *shell) *cobra.Command {
	o := audit.Options{RenderJob: renderJob, RenderTask: renderTask}
	var id, stream, at string
	var whole bool
	cmd := &cobra.Command{
		Use:   "replay [--task ID | --stream S | --all] [--at TIME | --position N]",
		Short: "Tell what happened: who, what, which event, position, hash",
		Long: `Tell what happened, in the order it was written down: of a task and its job, of
one stream, or of everything. With --at or --position the story stops there, and
how things stood then follows. With --json each line is a record as it is stored.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := errors.Join(onlyOne(cmd, "task", "stream", "all"), onlyOne(cmd, "at", "position")); err != nil {
				return err
			}
			if id != "" && !domain.ValidID(task.Category, id) {
				return misuse(cmd, "--task: %q is not a task's id; it is task- and 26 characters (a job's story is --stream %s)", id, id)
			}
			o.Task, o.Stream, o.JSON, o.Zone = domain.TaskID(id), domain.Stream(stream), sh.json, sh.zone
			if at != "" {
				if o.At, err = audit.ParseAt(at, sh.zone); err != nil {
					return &usageError{cmd, err}
				}
			}
			return sh.withReader(cmd.Context(), func(l logReader) error {
				return audit.Replay(cmd.Context(), l, sh.out, o)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&id, "task", "", "a task, and the job it is about")
	f.StringVar(&stream, "stream", "", "one stream, such as a job's id")
	f.BoolVar(&whole, "all", false, "everything (the default)")
	f.StringVar(&at, "at", "", "stop at this time: 2006-01-02T15:04:05Z, or 2006-01-02 15:04:05 for local time")
	f.Uint64Var((*uint64)(&o.Position), "position", 0, "stop at this position")
	return addJSON(cmd, sh)
}

func newVerify(sh *shell) *cobra.Command {
	return addJSON(&cobra.Command{
		Use:   "verify",
		Short: "Check that every record is what was written",
		Long: `Read the whole log and check that every record is what was written: its hash,
its place in its stream's chain, that nothing is missing before or between. The
first record that is wrong is named. What cannot be seen yet is said.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sh.withReader(cmd.Context(), func(l logReader) error {
				report, err := audit.Verify(cmd.Context(), l, audit.VerifyOptions{Dense: l.Dense()})
				if err != nil {
					return err
				}
				if err := sh.emit(report, func(w io.Writer) { err = report.WriteText(w) }); err != nil {
					return err
				}
				if !report.OK {
					return errTold
				}
				return nil
			})
		},
	}, sh)
}

var errNoLog = errors.New("there is no log in this data folder yet; `hangar serve` makes it")
