package git

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"hangar/domain"
	"hangar/domain/turn"
)

// Diff is what an agent changed since the base, committed or not.
type Diff struct {
	Patch []byte // for git apply; empty where nothing was changed
	// Truncated says that whole files were left off at the end, to stay within the
	// bound.
	Truncated bool
}

// patchScript prints the difference between a commit and the files of a clone,
// those not yet known to git included, and those ignored not. It works on an
// index of its own, so the agent's stays as it is. What head cuts off ends git by
// a broken pipe: that is no failure.
//
// Its arguments: the clone, the folder for temporary files, the commit, a bound
// in bytes.
const patchScript = `
set -e
dir=$(mktemp -d "$2/hangar-patch.XXXXXX")
trap 'rm -rf "$dir"' EXIT
export GIT_INDEX_FILE="$dir/index" GIT_LITERAL_PATHSPECS=1
cd "$1"
git read-tree "$3"
git -c core.fsmonitor=false -c core.safecrlf=false -c advice.addEmbeddedRepo=false add --all --ignore-errors -- . >&2 || :
{
	status=0
	git diff-index --cached --patch --binary --find-renames --no-ext-diff --no-textconv --no-color \
		--src-prefix=a/ --dst-prefix=b/ "$3" -- || status=$?
	echo "$status" >"$dir/status"
} | head -c "$4"
read -r status <"$dir/status"
[ "$status" = 0 ] || [ "$status" = 141 ]
`

// Patch gives the difference between the base and what the agent left in its
// clone, at most maxBytes of it. All of it runs with the agent's rights. An Invalid
// error says that the clone is no repository any more, or has lost the base.
func (g *Git) Patch(ctx context.Context, ws turn.Folders, baseCommit string, maxBytes int) (Diff, error) {
	ctx, cancel := within(ctx, PatchTimeout)
	defer cancel()
	if !hash.MatchString(baseCommit) {
		return Diff{}, domain.InvalidField("base_commit", "%q is no commit", baseCommit)
	}
	out, err := g.stage.RunStaged(ctx, ws, []string{
		"sh", "-c", patchScript, "hangar-patch", ws.Repo, ws.Tmp, baseCommit, strconv.Itoa(maxBytes + 1),
	})
	switch {
	case ctx.Err() != nil:
		return Diff{}, fmt.Errorf("making a patch: %w", context.Cause(ctx))
	case saidNo(err):
		return Diff{}, domain.Wrap(domain.Invalid, err, "the agent's clone is no repository of which git can make a patch")
	case err != nil:
		return Diff{}, fmt.Errorf("making a patch: %w", err)
	case len(out) <= maxBytes:
		return Diff{Patch: out}, nil
	}
	return Diff{Patch: wholeFiles(out[:maxBytes]), Truncated: true}, nil
}

// wholeFiles cuts a patch that was cut anywhere back to where a file's part
// ended, so that the rest still applies.
func wholeFiles(patch []byte) []byte {
	return patch[:bytes.LastIndex(patch, []byte("\ndiff --git "))+1]
}
