// Package access decides who may do what: bearer tokens, their scopes, and the
// names that tokens give to callers.
package access

import "slices"

// Scope is a part of Hangar that a token may reach.
type Scope string

// The scopes. Admin includes all others, within its tenant.
const (
	Jobs      Scope = "jobs"
	Sandboxes Scope = "sandboxes"
	Gateway   Scope = "gateway"
	Consent   Scope = "consent" // may approve what another person asked for
	Admin     Scope = "admin"
)

// All lists every scope, in the order people read them.
var All = []Scope{Jobs, Sandboxes, Gateway, Consent, Admin}

// Default is what a token gets when its maker names none.
var Default = Scopes{Jobs, Sandboxes, Gateway}

// Scopes are what one token may reach. The zero value reaches nothing.
type Scopes []Scope

// Allow reports whether the scopes reach s.
func (l Scopes) Allow(s Scope) bool {
	return slices.Contains(l, s) || slices.Contains(l, Admin)
}

// Admin reports whether the scopes make an administrator of the tenant.
func (l Scopes) Admin() bool { return slices.Contains(l, Admin) }
