package amqp

import (
	"context"
	"sync"
)

// mailbox hands values from the loop, which never waits, to the goroutine of a
// link. What limits its length is the protocol: credit, or what is unsettled.
type mailbox[T any] struct {
	mu    sync.Mutex
	items []T
	some  chan struct{} // holds a token when there may be items
}

func newMailbox[T any]() *mailbox[T] {
	return &mailbox[T]{some: make(chan struct{}, 1)}
}

func (m *mailbox[T]) put(item T) {
	m.mu.Lock()
	m.items = append(m.items, item)
	m.mu.Unlock()
	select {
	case m.some <- struct{}{}:
	default:
	}
}

// get takes the oldest item, if there is one even when ctx has ended. Only one
// goroutine may wait in it.
func (m *mailbox[T]) get(ctx context.Context) (T, error) {
	for {
		if item, ok := m.take(); ok {
			return item, nil
		}
		select {
		case <-m.some:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (m *mailbox[T]) take() (item T, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.items) == 0 {
		return item, false
	}
	item = m.items[0]
	m.items = m.items[1:]
	return item, true
}
