package main

import (
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"hangar/cmd/internal/app"
)

func newVersion(sh *shell) *cobra.Command {
	return addJSON(&cobra.Command{
		Use:   "version",
		Short: "Print which hangar this is",
		Args:  takes(),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{app.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return sh.emit(v, func(w io.Writer) { row(w, "hangar", v.Version, v.OS+"/"+v.Arch, v.Go) })
		},
	}, sh)
}
