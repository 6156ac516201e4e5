package main

import (
	"github.com/spf13/cobra"
)

func newSecret(sh *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "secret", Short: "Change the server's secret"}
	var lost bool
	rotate := &cobra.Command{
		Use:   "rotate [--lost]",
		Short: "Make a new server secret, and say so in the log",
		Long: `Make a new server secret and put it before those in secret.key, where the old
ones stay. No server may run meanwhile.

With --lost the secret that the log was written under cannot be found any more:
the log takes the one that is there now, and what was sealed stays sealed.`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := sh.rotateSecret(cmd.Context(), lost)
			if err != nil {
				return err
			}
			sh.say("hangar: the server secret is now %s", id)
			return nil
		},
	}
	rotate.Flags().BoolVar(&lost, "lost", false, "the old secret cannot be found any more")
	cmd.AddCommand(rotate)
	return group(cmd)
}
