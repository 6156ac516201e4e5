package job

// Checkout is a repository that was looked at and may be worked on.
type Checkout struct {
	Repo       string // its folder, absolute, links resolved
	BaseBranch string
	BaseCommit string
	Branch     string // where the job's commits go
}
