package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"hangar/cmd/internal/client"
	"hangar/handlers/rest"
)

func newProjections(sh *shell) *cobra.Command {
	cmd := &cobra.Command{Use: "projections", Short: "See how the views stand, and build them from the log again"}
	status := addJSON(&cobra.Command{
		Use:   "status",
		Short: "Show how far each view has read the log",
		Args:  takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sh.views(cmd.Context(), func(ctx context.Context, c *client.Client) (rest.ViewList, error) {
				return c.ListViews(ctx)
			}, func(context.Context, rest.Views) error { return nil })
		},
	}, sh)
	rebuild := addJSON(&cobra.Command{
		Use:   "rebuild [NAME]",
		Short: "Build a view from the log again, or all of them",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return misuse(cmd, "%q is too much: it takes one NAME, or none for all", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return sh.views(cmd.Context(), func(ctx context.Context, c *client.Client) (rest.ViewList, error) {
				return c.RebuildView(ctx, name)
			}, func(ctx context.Context, v rest.Views) error { return v.Rebuild(ctx, name) })
		},
	}, sh)
	cmd.AddCommand(status, rebuild)
	return group(cmd)
}

// views does something to the views, by way of the server or without one, and
// shows how they stand.
func (sh *shell) views(ctx context.Context, online func(context.Context, *client.Client) (rest.ViewList, error), without func(context.Context, rest.Views) error) error {
	var list rest.ViewList
	c, err := sh.connect()
	if err == nil {
		defer c.Close()
		list, err = online(ctx, c)
	}
	if sh.noServer(err) {
		err = sh.withLog(ctx, func(l offlineLog) error {
			return l.Views(ctx, func(v rest.Views) error {
				if err := without(ctx, v); err != nil {
					return err
				}
				status, err := v.Status(ctx)
				list = rest.ListViews(status)
				return err
			})
		})
	}
	if err != nil {
		return err
	}
	return sh.emit(list, func(w io.Writer) {
		row(w, "NAME", "POSITION", "HEAD", "STATE")
		for _, v := range list.Projections {
			state := "up to date"
			if v.Position < v.Head {
				state = "catching up"
			}
			if v.Halted != "" {
				state = "halted: " + oneLine(v.Halted)
			}
			row(w, v.Name, v.Position, v.Head, state)
		}
	})
}
