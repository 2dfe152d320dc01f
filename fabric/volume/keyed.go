package volume

import "sync"

// keyed is a lock for each key.
type keyed[K comparable] struct {
	mu   sync.Mutex
	held map[K]*keyedLock
}

type keyedLock struct {
	sync.Mutex
	users int
}

// lock waits for the lock of a key, and gives what unlocks it.
func (k *keyed[K]) lock(key K) (unlock func()) {
	k.mu.Lock()
	if k.held == nil {
		k.held = map[K]*keyedLock{}
	}
	l := k.held[key]
	if l == nil {
		l = &keyedLock{}
		k.held[key] = l
	}
	l.users++
	k.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.held, key)
		}
	}
}
