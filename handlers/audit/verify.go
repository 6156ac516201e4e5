package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"hangar/domain"
	"hangar/eventstore"
	"hangar/eventstore/chain"
)

// VerifyOptions say what the engine promises of a log.
type VerifyOptions struct {
	// Dense: positions begin at one and have no holes, so that a record taken out
	// leaves one.
	Dense bool
	// Progress is told now and then how many records are checked; nil is nobody.
	Progress func(records int)
}

// Report is what a verification found.
type Report struct {
	OK      bool `json:"ok"`
	Records int  `json:"records"` // that were right
	Streams int  `json:"streams"`
	// Head is the last record that was right: its position and its hash.
	Head     domain.Position `json:"head"`
	HeadHash string          `json:"head_hash,omitempty"`
	// Wrong is the first record that is not as it was written, nil for none.
	Wrong *Wrong `json:"wrong,omitempty"`
	// Unseen is what this check cannot see.
	Unseen string `json:"unseen"`
}

// Wrong names a record and what is wrong with it.
type Wrong struct {
	Position domain.Position `json:"position"`
	Stream   domain.Stream   `json:"stream"`
	Revision int64           `json:"revision"`
	Type     string          `json:"type"`
	Reason   string          `json:"reason"`
}

// unseen is what hash chains cannot show.
const unseen = "until checkpoints are signed: records cut off at the end of the log, or at the end of a stream where later " +
	"positions were given anew; and the order of records between streams, since positions are not hashed"

// streamKey is what a verification remembers a stream by: 128 bits of its name's
// SHA-256. Memory grows with the number of streams, some 120 bytes for each,
// never with their length.
type streamKey [16]byte

type streamHead struct {
	revision int64
	hash     [sha256.Size]byte
}

// Verify reads the whole log once and checks that every record is what was
// written: its hash is that of its contents, it follows the record before it in
// its stream, no stream lacks its beginning or a part of its middle, and
// positions only grow. It stops at the first record that is wrong.
func Verify(ctx context.Context, r Reader, o VerifyOptions) (Report, error) {
	v := verifier{VerifyOptions: o, heads: map[streamKey]streamHead{}}
	v.Unseen = unseen
	for records := all(r); ; {
		record, err := records.next(ctx)
		if err != nil {
			return v.Report, fmt.Errorf("read the log: %w", err)
		}
		if record == nil {
			v.OK = true
			return v.Report, nil
		}
		if v.Wrong = v.check(record); v.Wrong != nil {
			return v.Report, nil
		}
		if v.Progress != nil && v.Records%10_000 == 0 {
			v.Progress(v.Records)
		}
	}
}

// verifier is one Verify.
type verifier struct {
	VerifyOptions
	Report
	heads map[streamKey]streamHead
}

// check takes one record, or says what is wrong with it.
func (v *verifier) check(r *domain.Record) *Wrong {
	wrong := func(reason string) *Wrong {
		return &Wrong{Position: r.Position, Stream: r.Stream, Revision: r.Revision, Type: r.Type, Reason: reason}
	}
	switch {
	case r.Position <= v.Head:
		return wrong(fmt.Sprintf("its position is not after %d, that of the record before it", v.Head))
	case v.Dense && r.Position != v.Head+1:
		return wrong(fmt.Sprintf("position %d was due: what was there is gone", v.Head+1))
	}
	sum := sha256.Sum256([]byte(r.Stream))
	key := streamKey(sum[:16])
	before := eventstore.NoStream
	last, known := v.heads[key]
	if known {
		before = eventstore.Head{Revision: last.revision, Hash: hex.EncodeToString(last.hash[:])}
	}
	if err := chain.Verify(before, *r); err != nil {
		if broken, ok := errors.AsType[*chain.BrokenError](err); ok {
			return wrong(broken.Reason)
		}
		return wrong(err.Error())
	}
	next := streamHead{revision: r.Revision}
	if _, err := hex.Decode(next.hash[:], []byte(r.Hash)); err != nil {
		return wrong("its hash is not 64 hex digits")
	}
	v.heads[key] = next
	v.Records++
	if !known {
		v.Streams++
	}
	v.Head, v.HeadHash = r.Position, r.Hash
	return nil
}

// WriteText tells a report to people.
func (r *Report) WriteText(w io.Writer) error {
	if r.Wrong == nil {
		fmt.Fprintf(w, "verified: %s in %s, up to position %d\n", count(r.Records, "record"), count(r.Streams, "stream"), r.Head)
		if r.HeadHash != "" {
			fmt.Fprintf(w, "head:     %s\n", r.HeadHash)
		}
		_, err := fmt.Fprintf(w, "unseen:   %s\n", r.Unseen)
		return err
	}
	_, err := fmt.Fprintf(w, "WRONG at position %d: %s, revision %d of the %s stream %s\n%s\nthe %s before it, up to position %d, are right\n",
		r.Wrong.Position, clean(r.Wrong.Type), r.Wrong.Revision, clean(r.Wrong.Stream.Category()), clean(string(r.Wrong.Stream)),
		clean(r.Wrong.Reason), count(r.Records, "record"), r.Head)
	return err
}
