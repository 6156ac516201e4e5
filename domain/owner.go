package domain

import "regexp"

// Tenant is the organisation a caller acts for. Names are [a-z0-9-]{1,64}.
type Tenant string

// Principal is one caller within a tenant: the name of the token it shows.
// A name is unique in its tenant and never given out a second time.
type Principal string

// Owner says whose a task or a job is. Two owners are the same only when both
// fields are equal. The zero value is the unattributed caller, who reaches
// nothing but what is itself unattributed.
type Owner struct {
	Tenant    Tenant    `json:"tenant,omitempty"`
	Principal Principal `json:"principal,omitempty"`
}

// String gives tenant/principal, for people.
func (o Owner) String() string { return string(o.Tenant) + "/" + string(o.Principal) }

var name = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// ValidName reports whether s may name a tenant or a principal.
func ValidName(s string) bool { return name.MatchString(s) }
