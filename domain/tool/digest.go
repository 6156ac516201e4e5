// Package tool is the contract of an MCP tool: its definition, and the digest
// that pins it.
package tool

import (
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"

	"hangar/domain"
)

// Definition is the part of a tool that its digest covers.
type Definition struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// Digest is SHA-256 over the canonical form (RFC 8785) of the definition.
func (d Definition) Digest() (domain.Digest, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return "", fmt.Errorf("tool %s: %w", d.Name, err)
	}
	return Canonical(b)
}

// Canonical gives the digest of any JSON text in canonical form (RFC 8785), so
// that key order and white space do not matter. Absent and null arguments are
// the caller's to make equal.
func Canonical(text []byte) (domain.Digest, error) {
	c, err := jcs.Transform(text)
	if err != nil {
		return "", fmt.Errorf("canonical JSON: %w", err)
	}
	return domain.Sum(c), nil
}
