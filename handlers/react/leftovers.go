package react

import "hangar/domain"

// leftover reports whether something of a turn was still kept when the server
// started.
func (r *Reactions) leftover(id domain.TurnID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[id]
}

func (r *Reactions) released(id domain.TurnID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, id)
}

func (r *Reactions) keptAtStart(ids []domain.TurnID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = make(map[domain.TurnID]bool, len(ids))
	for _, id := range ids {
		r.kept[id] = true
	}
}
