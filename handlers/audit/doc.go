// Package audit is what the log can be asked by people who were not there: what
// happened, told record by record (Replay), and whether the log is still what was
// written (Verify). Both only read, beside a running server or without one.
package audit

import (
	"context"

	"hangar/domain"
)

// Reader is what an audit needs of the log.
type Reader interface {
	ReadStream(ctx context.Context, stream domain.Stream, from int64, limit int) ([]domain.Record, error)
	ReadAll(ctx context.Context, after domain.Position, limit int) ([]domain.Record, error)
}

// pageRecords is how many records one read gives: each may have 256 KiB of data,
// so a page stays below 32 MiB.
const pageRecords = 128
