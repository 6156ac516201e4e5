package supervisor

// rules say what a staged program may reach. This system cannot be told.
type rules struct {
	Data  string   `json:"data"`
	Read  []string `json:"read,omitempty"`
	Exec  string   `json:"exec,omitempty"`
	Write string   `json:"write"`
}

func (r rules) apply() error { return nil }
