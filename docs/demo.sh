#!/usr/bin/env bash
# A walk through the main job: submit, question, kill -9, answer, commits, replay.
# Everything it makes is in a temporary folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
HANGAR=$PWD/build/hangar
[[ -x $HANGAR ]] || { echo "docs/demo.sh: build/hangar is missing: run make build" >&2; exit 1; }

WORK=$(mktemp -d /tmp/hangar-demo.XXXXXX)
export HANGAR_DATA=$WORK/data HOME=$WORK
unset HANGAR_TOKEN HANGAR_URL HANGAR_CONFIG HANGAR_STORE HANGAR_SECRET
SERVER=
finish() {
	[[ -z $SERVER ]] || { kill "$SERVER" && wait "$SERVER"; } 2>/dev/null || true
	rm -rf "$WORK"
}
trap finish EXIT

say() { printf '\n# %s\n' "$*"; }
run() { printf '$ %s\n' "$*"; "$@"; }
hangar() { "$HANGAR" "$@"; }

start() {
	"$HANGAR" serve --listen 127.0.0.1:0 2>>"$WORK/log" &
	SERVER=$!
	for _ in $(seq 200); do
		if grep -q 'ready on' "$WORK/log"; then
			grep 'ready on' "$WORK/log" | tail -n 1
			return
		fi
		kill -0 "$SERVER" 2>/dev/null || { cat "$WORK/log"; exit 1; }
		sleep 0.1
	done
	echo "the server is not ready after 20 s" >&2
	exit 1
}

# until_task STATUS waits until the task shows a status.
until_task() {
	for _ in $(seq 300); do
		if hangar task get "$TASK" --json | grep -q "\"status\": *\"$1\""; then return; fi
		sleep 0.1
	done
	echo "the task is not $1 after 30 s" >&2
	hangar task get "$TASK" >&2
	exit 1
}

say "A git repository to work on."
git init -q -b main "$WORK/shop"
git -C "$WORK/shop" config user.name Ann
git -C "$WORK/shop" config user.email ann@example.com
echo 'price = 10' >"$WORK/shop/price.txt"
git -C "$WORK/shop" add price.txt
git -C "$WORK/shop" commit -qm "Start the shop"

say "Hangar on its embedded default."
start

say "A job for the agent shell: its prompt is a script. It asks before it commits."
cat >"$WORK/prompt" <<'SCRIPT'
hangar step "reading the price"
price=$(hangar ask "Raise the price to what?" --option 11 --option 12)
hangar step "raising the price to $price"
echo "price = $price" >price.txt
git commit -qam "Raise the price to $price"
hangar result "{\"price\": $price}"
SCRIPT
cat "$WORK/prompt"
printf '$ hangar job submit --repo %s "$(cat prompt)"\n' "$WORK/shop"
hangar job submit --repo "$WORK/shop" "$(cat "$WORK/prompt")" | tee "$WORK/submitted"
JOB=$(awk '$1 == "job" { print $2 }' "$WORK/submitted")
TASK=$(awk '$1 == "task" { print $2 }' "$WORK/submitted")

say "The task waits for an answer."
until_task input_required
run hangar task get "$TASK"

say "kill -9 of the server. The agent is not its child, and goes on waiting."
kill -9 "$SERVER"
wait "$SERVER" 2>/dev/null || true
: >"$WORK/log"
start

say "The same task, the same question; the answer lets the agent go on."
run hangar task answer "$TASK" answer-1=12
until_task completed
run hangar job get "$JOB"

say "The commit came back to the user's repository, on a branch of the job's."
run git -C "$WORK/shop" log --format='%an: %s' "hangar/$JOB"

say "What happened, from the log alone."
run hangar audit replay --task "$TASK"

say "And nothing in it was changed."
run hangar audit verify
