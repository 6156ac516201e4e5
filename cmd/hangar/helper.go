package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// newHelpers are the verbs that agents call. Inside a sandbox they never come
// here: the supervisor's helper takes them first. Outside they say what they are.
func newHelpers() []*cobra.Command {
	var list []*cobra.Command
	for _, v := range []struct{ use, short string }{
		{"ask QUESTION [--option A]...", "Ask the person behind the job, and print the answer"},
		{"step TEXT", "Say what you are doing"},
		{"result JSON|-", "Give the structured result"},
		{"artifact PATH [--name N]", "Keep a file of the workspace"},
		{"pr --title T [--body B]", "Give title and body for a pull request"},
	} {
		list = append(list, &cobra.Command{
			Use:                v.use,
			Short:              v.short,
			Hidden:             true,
			DisableFlagParsing: true,
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
					return cmd.Help()
				}
				return errors.New("hangar " + cmd.Name() + " is for agents, inside a job's sandbox: it tells the job's supervisor, and there is none here")
			},
		})
	}
	return list
}
