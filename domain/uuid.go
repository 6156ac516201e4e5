package domain

import (
	"crypto/sha1" //nolint:gosec // RFC 9562 fixes SHA-1 for version 5; it names things here and protects nothing
	"encoding/hex"
	"time"
)

// uuid5 is RFC 9562 version 5: a name-based UUID.
func uuid5(namespace [16]byte, name string) string {
	h := sha1.New() //nolint:gosec // see the import
	h.Write(namespace[:])
	h.Write([]byte(name))
	var u [16]byte
	copy(u[:], h.Sum(nil))
	u[6] = u[6]&0x0f | 0x50
	u[8] = u[8]&0x3f | 0x80
	return formatUUID(u)
}

// NewUUID gives a version 7 UUID (RFC 9562) of the given instant and ten random
// bytes, so that neither time nor chance enters this package by itself.
func NewUUID(at time.Time, random [10]byte) string {
	var u [16]byte
	ms := uint64(at.UnixMilli())
	for i := range 6 {
		u[i] = byte(ms >> (40 - 8*i)) //nolint:gosec // the low byte is meant
	}
	copy(u[6:], random[:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return formatUUID(u)
}

func formatUUID(u [16]byte) string {
	s := hex.EncodeToString(u[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
