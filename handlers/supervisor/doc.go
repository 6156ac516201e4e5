// Package supervisor keeps agents alive while the server comes and goes. Every
// turn's agent runs under a process of its own, the supervisor: this same binary,
// executed again, that owns the agent's processes, its output and its questions,
// and writes down in the turn's journal what the agent did. The server talks to
// it through a Client; kill -9 of the server ends no agent.
//
// # Processes
//
//	server (Client) ──> supervisor ──> stage ──> the agent, by execve
//	                        ^                       │
//	                        └── helper socket ──────┘   hangar ask, step, result, ...
//
// The supervisor is in a session of its own. The stage is the binary once more:
// it takes the agent's rights away (see Isolation) and becomes the agent, since Go
// can do neither between fork and exec. The helper is the binary again, as the
// agent calls it. Main gives a process its part; every program that starts agents
// calls it first.
//
// # Folder of a turn
//
// DATA/run/<turn>/ holds
//
//   - lock: the supervisor holds it (flock) as long as it lives. Locked means
//     alive; nothing else does, least of all a pid;
//   - journal: numbered JSON lines (turn.Line), each on the disk before the agent
//     is told that it was taken. A journal with "started" in it is the proof that
//     the agent was begun, and no supervisor begins it again;
//   - out: what the agent printed, capped;
//   - control: where the socket is, and the token for it;
//   - errors: what the supervisor itself printed, if it ever had to.
//
// # Socket
//
// One socket takes two tokens: the control token, which stands in the turn's folder
// and is out of the agent's sight, and the helper token in the agent's environment,
// which reaches the helper's verbs and nothing else. A conversation is a hello with
// the versions spoken, then one request and its reply, each a line of JSON.
//
// # Other programs under the same rules
//
// RunStaged runs a command as a turn's agent would run; StageCommand gives the same
// as a line for a shell, for programs that start a program of our choice (git's
// --upload-pack).
package supervisor
