package react

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/cenkalti/backoff/v4"

	"hangar/domain"
	"hangar/domain/turn"
	"hangar/projections"
)

// tailPage is how many records one message holds at most.
const tailPage = 512

// notice is what a reaction is told of a record.
type notice struct {
	Stream   domain.Stream   `json:"stream"`
	Type     string          `json:"type"`
	Position domain.Position `json:"position"`
}

// subscriber is a watermill message.Subscriber over the log's tail. One message
// is one page, and the next is sent after the ack, so order is kept. It starts
// where it is told and stores no position: what is unfinished is woken at start.
type subscriber struct {
	store projections.Reader
	from  domain.Position
	log   *slog.Logger
}

// Subscribe follows the log until ctx ends; the topic means nothing.
func (s *subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		s.follow(ctx, out)
	}()
	return out, nil
}

// Close does nothing: the context ends a subscription.
func (s *subscriber) Close() error { return nil }

func (s *subscriber) follow(ctx context.Context, out chan<- *message.Message) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval, retry.MaxElapsedTime = 20*time.Millisecond, 5*time.Second, 0
	for at := s.from; ctx.Err() == nil; {
		records, err := s.store.ReadAll(ctx, at, tailPage)
		if err == nil && len(records) == 0 {
			err = s.store.Wait(ctx, at)
		}
		if err != nil {
			if ctx.Err() == nil {
				s.log.Warn("reactions cannot follow the log, trying again", "error", err)
				sleep(ctx, retry.NextBackOff())
			}
			continue
		}
		retry.Reset()
		if len(records) > 0 && s.deliver(ctx, out, records) {
			at = records[len(records)-1].Position
		}
	}
}

// deliver sends a page and waits for its ack; a nack sends it again.
func (s *subscriber) deliver(ctx context.Context, out chan<- *message.Message, records []domain.Record) bool {
	page := make([]notice, len(records))
	for i, r := range records {
		page[i] = notice{Stream: r.Stream, Type: r.Type, Position: r.Position}
	}
	payload, err := json.Marshal(page)
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	for {
		m := message.NewMessage(records[0].ID, payload)
		m.SetContext(ctx)
		select {
		case out <- m:
		case <-ctx.Done():
			return false
		}
		select {
		case <-m.Acked():
			return true
		case <-m.Nacked():
			sleep(ctx, 100*time.Millisecond)
		case <-ctx.Done():
			return false
		}
	}
}

// route runs the watermill router until ctx ends.
func (r *Reactions) route(ctx context.Context, from domain.Position) error {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second},
		quietLogger(r.deps.Log))
	if err != nil {
		return err
	}
	router.AddMiddleware(middleware.Recoverer)
	router.AddConsumerHandler("wake", "log", &subscriber{store: r.deps.Store, from: from, log: r.deps.Log}, r.wake)
	return router.Run(ctx)
}

// quietLogger keeps the router's own news out of a log that people read.
func quietLogger(log *slog.Logger) watermill.LoggerAdapter {
	return watermill.NewSlogLoggerWithLevelMapping(log.With("part", "router"), map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
}

// wake is the one reaction: it never works and never waits.
func (r *Reactions) wake(m *message.Message) error {
	var page []notice
	if err := json.Unmarshal(m.Payload, &page); err != nil {
		return err
	}
	woken := map[domain.Stream]bool{}
	for _, n := range page {
		if n.Type == string(turn.Queued{}.EventType()) {
			r.slots.enqueue(domain.JobID(n.Stream), n.Position)
		}
	}
	for _, n := range page {
		if !woken[n.Stream] {
			woken[n.Stream] = true
			r.keepers.wake(n.Stream)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
