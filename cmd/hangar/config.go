package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"hangar/cmd/internal/config"
)

func newConfig(sh *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check and show the configuration"}
	check := &cobra.Command{
		Use:   "check",
		Short: "Say what is wrong with the configuration",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.Load(sh.flags, sh.getenv)
			if err != nil {
				return err
			}
			if cfg.File == "" {
				sh.say("hangar: the configuration is right; there is no file, so it is the defaults and the environment")
				return nil
			}
			sh.say("hangar: the configuration is right; the file is %s", cfg.File)
			return nil
		},
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration that holds, as a file would say it",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.Load(sh.flags, sh.getenv)
			if err != nil {
				return err
			}
			text, err := cfg.YAML()
			if err != nil {
				return err
			}
			source := cfg.File
			if source == "" {
				source = "(no file)"
			}
			_, err = fmt.Fprintf(sh.out, "# data: %s\n# file: %s\n%s", cfg.Data, source, text)
			return err
		},
	}
	for _, c := range []*cobra.Command{check, show} {
		c.Flags().StringVar(&sh.flags.Config, "config", "", "configuration file (default hangar.yaml in the data folder, if it is there)")
	}
	cmd.AddCommand(check, show)
	return group(cmd)
}
