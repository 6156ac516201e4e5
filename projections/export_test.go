package projections

// Held tells what the cache holds, for tests.
func (f *Folds) Held() (entries, bytes, watches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries), f.bytes, len(f.watches)
}
