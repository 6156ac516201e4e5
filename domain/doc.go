// Package domain is the language of Hangar: who owns a thing, what it is called,
// when it happened, and how a wish is refused.
//
// Hangar runs coding agents and stands before other MCP servers, and everything
// that happens on either side is an event in one append-only log. A caller, an
// Owner, wishes for something by a command. The command's subject (a job, a task,
// a token) is a stream of Records; folded, they are its state. A pure function
// decides what follows from state and command: an Error that the caller may read,
// or events. The command appends these and is done. Whoever acts on the world
// does so because an event says that it should happen, and reports what came of
// it by another command.
//
// So the log is what is true. Everything else, the snapshot that a client polls
// as much as a list, is folded from it and may be thrown away.
//
// The packages below are that language's parts: event says what an event is, turn
// what a conversation with an agent is, and each of the others is one aggregate or
// one rule of its own. None of them does I/O, looks at the wall clock or draws a
// random number: times come from a Clock that the caller holds, chance by argument.
package domain
