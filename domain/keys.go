package domain

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Secret is the server's secret, from which every key is derived. Replicas on
// one store share it. It is never printed: String hides it, and the bytes are
// behind a function because fmt asks no String of a field that is not exported,
// and looks through pointers. The zero value is no secret.
type Secret struct{ reveal func() [32]byte }

// Purpose names what a derived key is for; two purposes never share a key.
type Purpose string

// The purposes. Their texts go into the derivation and are fixed for ever.
const (
	ForHandles   Purpose = "hangar task handles v1"
	ForSealing   Purpose = "hangar sealed values v1"
	ForRedaction Purpose = "hangar redaction v1"
	ForArguments Purpose = "hangar argument hashes v1"
)

// ParseSecret reads 64 hex digits.
func ParseSecret(s string) (Secret, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 32 {
		return Secret{}, fmt.Errorf("a server secret is 64 hex digits")
	}
	return NewSecret([32]byte(b)), nil
}

// NewSecret makes a secret of 32 random bytes.
func NewSecret(random [32]byte) Secret { return Secret{reveal: func() [32]byte { return random }} }

// Hex gives the 64 hex digits, for the key file alone.
func (s Secret) Hex() string { return hex.EncodeToString(s.raw()) }

func (s Secret) raw() []byte {
	if s.reveal == nil {
		panic("the zero Secret is none") // every key derived from it would be anybody's
	}
	b := s.reveal()
	return b[:]
}

// String hides the secret.
func (s Secret) String() string {
	if s.reveal == nil {
		return "no secret"
	}
	return "secret " + s.ID()
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// ID names the secret without giving it away. StoreOpened holds it.
func (s Secret) ID() string { return hex.EncodeToString(s.Key("hangar key id v1"))[:16] }

// Key derives the 32-byte key for a purpose by HKDF-SHA-256 (RFC 5869).
func (s Secret) Key(p Purpose) []byte {
	key, err := hkdf.Key(sha256.New, s.raw(), nil, string(p), 32)
	if err != nil {
		panic(err) // only for a length that is not ours
	}
	return key
}
