package supervisor

import "os"

// The parts a process of this binary may have been started for, as its name
// (argv[0]) says. No shell gives a program such a name.
const (
	partSupervisor = "hangar: supervisor"
	partStage      = "hangar: stage"
	partRunner     = "hangar: runner"
)

// stageVerb is the first argument of the command line that StageCommand makes.
const stageVerb = "__stage"

// Main is called first in main, and in every TestMain that starts agents. Where
// this process was started as a supervisor, a stage or a runner of staged
// commands, or as the helper inside a sandbox, it does that and exits; else it
// returns at once.
func Main() {
	switch {
	case len(os.Args) == 1 && os.Args[0] == partSupervisor:
		os.Exit(supervise(os.Stdin, os.Stdout))
	case len(os.Args) == 1 && os.Args[0] == partStage:
		os.Exit(stage())
	case len(os.Args) == 1 && os.Args[0] == partRunner:
		os.Exit(runner())
	case len(os.Args) > 2 && os.Args[1] == stageVerb:
		os.Exit(stageCommand(os.Args[2], os.Args[3:]))
	}
	if code, handled := Helper(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); handled {
		os.Exit(code)
	}
}
