//go:build !linux

package supervisor

// landlockABI is Linux's.
func landlockABI() int { return 0 }
