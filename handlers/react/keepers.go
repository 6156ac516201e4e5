package react

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"hangar/domain"
)

// keep looks after a subject until nothing is left to do for now. woken tells it
// that its subject, or what it waits for, has changed. An error is tried again
// later.
type keep func(ctx context.Context, stream domain.Stream, woken <-chan struct{}) error

// keepers owns one goroutine per subject that has something to do. One that is
// woken while it works looks again before it ends, so no event is missed.
type keepers struct {
	log *slog.Logger
	of  func(domain.Stream) keep

	mu     sync.Mutex
	ctx    context.Context //nolint:containedctx // the life of the goroutines it owns
	cancel context.CancelFunc
	at     map[domain.Stream]*keeper
	failed map[domain.Stream]*failing
	timers map[domain.Stream]*time.Timer
	wg     sync.WaitGroup
}

type keeper struct{ woken chan struct{} }

// failing is a subject whose keeper keeps failing.
type failing struct {
	times int
	timer *time.Timer
}

func newKeepers(log *slog.Logger, of func(domain.Stream) keep) *keepers {
	return &keepers{log: log, of: of, at: map[domain.Stream]*keeper{}, failed: map[domain.Stream]*failing{}}
}

func (k *keepers) start(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ctx, k.cancel = context.WithCancel(ctx)
}

// wake has a subject looked at, soon. It returns at once.
func (k *keepers) wake(stream domain.Stream) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx == nil || k.ctx.Err() != nil {
		return
	}
	if kp, ok := k.at[stream]; ok {
		select {
		case kp.woken <- struct{}{}:
		default:
		}
		return
	}
	do := k.of(stream)
	if do == nil {
		return
	}
	kp := &keeper{woken: make(chan struct{}, 1)}
	k.at[stream] = kp
	k.wg.Go(func() { k.run(k.ctx, stream, kp, do) })
}

func (k *keepers) run(ctx context.Context, stream domain.Stream, kp *keeper, do keep) {
	for {
		err := k.try(ctx, stream, kp, do)
		k.mu.Lock()
		if err == nil && len(kp.woken) > 0 && ctx.Err() == nil {
			<-kp.woken
			k.mu.Unlock()
			continue
		}
		delete(k.at, stream)
		if ctx.Err() == nil {
			k.settle(stream, err)
		}
		k.mu.Unlock()
		return
	}
}

// try runs a keeper and turns its panic into an error: one subject's fault is not
// the others'.
func (k *keepers) try(ctx context.Context, stream domain.Stream, kp *keeper, do keep) (err error) {
	defer func() {
		if p := recover(); p != nil {
			k.log.Error("keeper panicked", "category", stream.Category(), "panic", p, "stack", string(debug.Stack()))
			err = domain.Errorf(domain.Internal, "a fault in hangar: %v", p)
		}
	}()
	return do(ctx, stream, kp.woken)
}

// Bounds of trying again.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
	// reportAfter is how many failures in a row become a ReactionFailed.
	reportAfter = 8
)

// settle plans the next attempt of a subject that failed, longer each time.
func (k *keepers) settle(stream domain.Stream, err error) {
	f := k.failed[stream]
	if err == nil {
		delete(k.failed, stream)
		return
	}
	if f == nil {
		f = &failing{}
		k.failed[stream] = f
	}
	f.times++
	k.log.Warn("keeper failed, trying again", "category", stream.Category(), "times", f.times, "error", err)
	wait := min(firstRetry<<min(f.times-1, 20), lastRetry)
	f.timer = time.AfterFunc(wait, func() { k.wake(stream) })
}

// later wakes a subject after a while.
func (k *keepers) later(stream domain.Stream, d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.timers == nil {
		k.timers = map[domain.Stream]*time.Timer{}
	}
	if _, planned := k.timers[stream]; planned {
		return
	}
	k.timers[stream] = time.AfterFunc(d, func() {
		k.mu.Lock()
		delete(k.timers, stream)
		k.mu.Unlock()
		k.wake(stream)
	})
}

// failures tells how often a subject failed in a row.
func (k *keepers) failures(stream domain.Stream) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.failed[stream]; f != nil {
		return f.times
	}
	return 0
}

// close stops every keeper and waits for them.
func (k *keepers) close() {
	k.mu.Lock()
	if k.cancel != nil {
		k.cancel()
	}
	for _, f := range k.failed {
		if f.timer != nil {
			f.timer.Stop()
		}
	}
	for _, t := range k.timers {
		t.Stop()
	}
	k.mu.Unlock()
	k.wg.Wait()
}
