package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// The exit codes.
const (
	exitDone    = 0
	exitFailed  = 1
	exitMisused = 2
)

// usageError says that a command was called wrongly, and which.
type usageError struct {
	cmd *cobra.Command
	error
}

// Unwrap gives what was wrong.
func (e *usageError) Unwrap() error { return e.error }

func misuse(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd, fmt.Errorf(format, args...)}
}

// errTold: the command failed, and what there is to say has been said.
var errTold = errors.New("told already")

// run carries out a command line and gives the exit code.
func run(ctx context.Context, args []string, sh *shell) int {
	root := newRoot(sh)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var misused *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errTold):
		return exitFailed
	case errors.As(err, &misused):
		fmt.Fprintf(sh.errw, "hangar: %v\nsee: %s --help\n", misused, misused.cmd.CommandPath())
		return exitMisused
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(sh.errw, "hangar: interrupted")
		return exitFailed
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(sh.errw, "hangar: %s\n", strings.TrimSuffix(line, "\n"))
	}
	return exitFailed
}

func newRoot(sh *shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "hangar",
		Short: "Run coding agents' jobs as MCP tasks, with every event on record",
		Long: `Hangar serves MCP. Long work becomes tasks, and everything that happens to a
task is an appended event.

Configuration comes from flags, else the environment (HANGAR_DATA,
HANGAR_LISTEN, HANGAR_STORE, HANGAR_CONFIG, HANGAR_SECRET,
HANGAR_MCP_TOOL_WAIT_SECONDS, HANGAR_MCP_STATELESS_HTTP), else hangar.yaml in
the data folder. Commands that call a server find it by its data folder, or at
HANGAR_URL; they show it HANGAR_TOKEN, else the data folder's admin.token.

Inside a job's sandbox, agents have ask, step, result, artifact and pr besides.

Exit codes: 0 done, 1 failed, 2 misused.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(sh.in)
	root.SetOut(sh.out)
	root.SetErr(sh.errw)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd, err} })
	root.PersistentFlags().StringVar(&sh.flags.Data, "data", "", "data folder (default $XDG_DATA_HOME/hangar, else ~/.local/share/hangar)")
	for _, c := range []*cobra.Command{
		newServe(sh), newToken(sh), newJob(sh), newTask(sh), newAudit(sh), newProjections(sh), newSecret(sh), newConfig(sh), newVersion(sh),
	} {
		root.AddCommand(c)
	}
	root.AddCommand(newHelpers()...)
	group(root)
	root.SetUsageTemplate(usageTemplate)
	eachCommand(root, func(c *cobra.Command) { c.DisableFlagsInUseLine = true })
	return root
}

func eachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		eachCommand(c, f)
	}
}

const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}
{{- if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
{{- if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
`

// group makes a command that only holds others: alone it shows what there is, and
// what it does not have is a misuse.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			text := fmt.Sprintf("there is no command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				text += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return misuse(cmd, "%s", text)
		}
		cmd.SetOut(cmd.ErrOrStderr())
		if err := cmd.Help(); err != nil {
			return err
		}
		return misuse(cmd, "a command is missing")
	}
	return cmd
}

// takes gives the check that a command was called with exactly the words named.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return misuse(cmd, "%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return misuse(cmd, "%q is too much; quote what is one text", args[len(names)])
		}
		return nil
	}
}

// onlyOne refuses a command that was given several of the flags.
func onlyOne(cmd *cobra.Command, flags ...string) error {
	var given []string
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return misuse(cmd, "%s exclude each other", strings.Join(given, " and "))
	}
	return nil
}

// addJSON adds the flag that gives results to machines.
func addJSON(cmd *cobra.Command, sh *shell) *cobra.Command {
	cmd.Flags().BoolVar(&sh.json, "json", false, "print the result as JSON")
	return cmd
}
