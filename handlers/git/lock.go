package git

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The lock of a repository is a file beside its refs: two servers have different
// data folders, and a linked worktree has the same refs as its main one.
const (
	lockName  = "hangar.lock"
	lockRetry = 25 * time.Millisecond // between looks at a lock that another process holds
)

// lock waits until this call alone, of all servers', works on the refs of repo.
func (g *Git) lock(ctx context.Context, repo string) (unlock func(), err error) {
	dir, err := g.commonDir(ctx, repo)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	mine := g.locks[dir]
	if mine == nil {
		mine = make(chan struct{}, 1)
		g.locks[dir] = mine
	}
	g.mu.Unlock()

	select {
	case mine <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the lock of %s: %w", repo, context.Cause(ctx))
	}
	f, err := lockFile(ctx, filepath.Join(dir, lockName))
	if err != nil {
		<-mine
		return nil, fmt.Errorf("locking %s: %w", repo, err)
	}
	return func() {
		_ = f.Close() // nothing was written to it
		<-mine
	}, nil
}

// lockFile waits until the lock of the file is ours. The file stays for ever: to
// remove it would let two hold locks of the same name.
func lockFile(ctx context.Context, name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		locked, err := tryLock(f)
		if locked {
			return f, nil
		}
		if err == nil {
			select {
			case <-retry.C:
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		_ = f.Close()
		return nil, err
	}
}

// commonDir gives the folder that holds the refs of repo, its linked worktrees'
// included.
func (g *Git) commonDir(ctx context.Context, repo string) (string, error) {
	return g.run(ctx, repo, "rev-parse", "--path-format=absolute", "--git-common-dir")
}
