// Package app puts Hangar together: the one constructor behind the binary, the
// end-to-end tests and every simulation.
package app
