package sqlite

import "hangar/eventstore"

// keptHeads bounds each of the two generations of the cache of heads.
const keptHeads = 4096

// heads remembers where the streams end that were written last. It is the
// writer's alone. Two generations make it forget the streams that rest without
// keeping a list: when the young one is full, it becomes the old one.
type heads struct {
	young, old map[eventstore.Stream]eventstore.Head
}

func (h *heads) get(s eventstore.Stream) (eventstore.Head, bool) {
	if head, ok := h.young[s]; ok {
		return head, true
	}
	head, ok := h.old[s]
	return head, ok
}

func (h *heads) set(s eventstore.Stream, head eventstore.Head) {
	if h.young == nil || len(h.young) >= keptHeads {
		h.old, h.young = h.young, make(map[eventstore.Stream]eventstore.Head, keptHeads)
	}
	h.young[s] = head
}

// clear forgets everything: what a failed group set may not be in the log.
func (h *heads) clear() { h.young, h.old = nil, nil }
