package audit

import (
	"context"

	"hangar/domain"
)

// cursor goes through records in position order.
type cursor interface {
	// next gives the next record, nil at the end.
	next(ctx context.Context) (*domain.Record, error)
}

// pages is a cursor over what is read page by page.
type pages struct {
	read func(ctx context.Context, last *domain.Record) ([]domain.Record, error)
	page []domain.Record
	last *domain.Record
	done bool
}

func (p *pages) next(ctx context.Context) (*domain.Record, error) {
	if len(p.page) == 0 && !p.done {
		page, err := p.read(ctx, p.last)
		if err != nil {
			return nil, err
		}
		p.page, p.done = page, len(page) < pageRecords
	}
	if len(p.page) == 0 {
		return nil, nil //nolint:nilnil // the end
	}
	p.last, p.page = &p.page[0], p.page[1:]
	return p.last, nil
}

func streamOf(r Reader, stream domain.Stream) *pages {
	return &pages{read: func(ctx context.Context, last *domain.Record) ([]domain.Record, error) {
		from := int64(0)
		if last != nil {
			from = last.Revision + 1
		}
		return r.ReadStream(ctx, stream, from, pageRecords)
	}}
}

func all(r Reader) *pages {
	return &pages{read: func(ctx context.Context, last *domain.Record) ([]domain.Record, error) {
		after := domain.Position(0)
		if last != nil {
			after = last.Position
		}
		return r.ReadAll(ctx, after, pageRecords)
	}}
}

// merged is a cursor over several, by position.
type merged struct {
	cursors []cursor
	heads   []*domain.Record // by cursor; filled by the first next
}

func (m *merged) next(ctx context.Context) (*domain.Record, error) {
	if m.heads == nil {
		m.heads = make([]*domain.Record, len(m.cursors))
		for i := range m.cursors {
			if err := m.advance(ctx, i); err != nil {
				return nil, err
			}
		}
	}
	first := -1
	for i, r := range m.heads {
		if r != nil && (first < 0 || r.Position < m.heads[first].Position) {
			first = i
		}
	}
	if first < 0 {
		return nil, nil //nolint:nilnil // the end
	}
	r := m.heads[first]
	return r, m.advance(ctx, first)
}

func (m *merged) advance(ctx context.Context, i int) (err error) {
	m.heads[i], err = m.cursors[i].next(ctx)
	return err
}
