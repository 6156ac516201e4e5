package react

import (
	"cmp"
	"slices"
	"sync"

	"hangar/domain"
)

// slots bounds how many agents run at once, and lets those that wait run in the
// order their turns were queued. A turn that waits for an answer holds none; one
// that goes on takes one back at once, and new turns wait a little longer.
type slots struct {
	limit int
	free  func(domain.JobID) // told when a queued job may try

	mu      sync.Mutex
	holders map[domain.JobID]bool
	queue   []queued // by position
}

type queued struct {
	job      domain.JobID
	position domain.Position
}

func newSlots(limit int, free func(domain.JobID)) *slots {
	return &slots{limit: limit, free: free, holders: map[domain.JobID]bool{}}
}

// enqueue puts a job in line, where it is not there yet.
func (s *slots) enqueue(job domain.JobID, position domain.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[job] || slices.ContainsFunc(s.queue, func(q queued) bool { return q.job == job }) {
		return
	}
	at, _ := slices.BinarySearchFunc(s.queue, position, func(q queued, p domain.Position) int {
		return cmp.Or(cmp.Compare(q.position, p), -1) // behind its equals
	})
	s.queue = slices.Insert(s.queue, at, queued{job, position})
}

// join puts a job at the end of the line, where it is not in it yet.
func (s *slots) join(job domain.JobID) {
	s.mu.Lock()
	last := domain.Position(0)
	if n := len(s.queue); n > 0 {
		last = s.queue[n-1].position
	}
	s.mu.Unlock()
	s.enqueue(job, last)
}

// acquire reports whether a queued job may run now.
func (s *slots) acquire(job domain.JobID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[job] {
		return true
	}
	at := slices.IndexFunc(s.queue, func(q queued) bool { return q.job == job })
	if at < 0 || at >= s.limit-len(s.holders) {
		return false
	}
	s.queue = slices.Delete(s.queue, at, at+1)
	s.holders[job] = true
	return true
}

// take gives a job that runs already its slot, even above the limit.
func (s *slots) take(job domain.JobID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[job] = true
	s.queue = slices.DeleteFunc(s.queue, func(q queued) bool { return q.job == job })
}

// release gives a slot back, and the job's place in line.
func (s *slots) release(job domain.JobID) {
	s.mu.Lock()
	delete(s.holders, job)
	s.queue = slices.DeleteFunc(s.queue, func(q queued) bool { return q.job == job })
	var next []domain.JobID
	for i := range min(max(s.limit-len(s.holders), 0), len(s.queue)) {
		next = append(next, s.queue[i].job)
	}
	s.mu.Unlock()
	for _, j := range next {
		s.free(j)
	}
}
