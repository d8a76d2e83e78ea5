package localbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	defaultMaxDeliveryCount = 10
	defaultLockDuration     = time.Minute
)

// Bus is one open bus. Its methods may be called from many goroutines.
//
// One goroutine, the loop, owns what is in memory: who holds which session and
// which messages wait in it. Messages themselves are in the file only. A killed
// process therefore loses the locks and nothing else.
//
// A file belongs to one Bus at a time, as two would each deliver every message.
type Bus struct {
	now      func() time.Time
	lock     *fileLock
	store    *store
	declared []Topic
	topics   map[string]*topic

	requests chan *request
	closing  chan struct{}
	stopped  chan struct{}
	close    func() error

	// Owned by the loop.

	held map[*Session]struct{}
	// alarm is no later than the next moment at which something happens by
	// itself: a lock or a message expires or a message becomes due. Zero means
	// never.
	alarm time.Time
}

// Open opens the bus kept in the SQLite file at path, which it creates when
// there is none, with the messages that an earlier run left in it. The folder
// must exist. Messages of topics and subscriptions that are no longer declared
// stay in the file, out of reach. ErrInUse when another Bus, in this process or
// another, has the file; it is known by a lock on a second file, path.lock.
//
// Time is what now says; the bus wakes itself with real timers.
func Open(path string, topics []Topic, now func() time.Time) (*Bus, error) {
	b := &Bus{
		now:      now,
		declared: clone(topics),
		requests: make(chan *request),
		closing:  make(chan struct{}),
		stopped:  make(chan struct{}),
		held:     map[*Session]struct{}{},
	}
	b.close = sync.OnceValue(b.shut)

	var err error
	if b.topics, err = declare(topics); err != nil {
		return nil, fmt.Errorf("open bus %s: %w", path, err)
	}
	if b.lock, err = lockFile(path); err != nil {
		return nil, fmt.Errorf("open bus %s: %w", path, err)
	}
	if b.store, err = openStore(path); err != nil {
		return nil, errors.Join(fmt.Errorf("open bus %s: %w", path, err), b.lock.release())
	}
	if err := b.restore(); err != nil {
		return nil, errors.Join(fmt.Errorf("open bus %s: restore messages: %w", path, err), b.store.close(), b.lock.release())
	}
	go b.loop()
	return b, nil
}

// Close ends the bus: what is being written is finished, whoever waits gets
// ErrClosed, and so does every later call. Messages in delivery stay in the
// file with their count unchanged. Closing again does nothing.
func (b *Bus) Close() error {
	return b.close()
}

func (b *Bus) shut() error {
	close(b.closing)
	<-b.stopped
	if err := errors.Join(b.store.close(), b.lock.release()); err != nil {
		return fmt.Errorf("close bus: %w", err)
	}
	return nil
}

// declare checks the topics and builds their empty queues.
func declare(topics []Topic) (map[string]*topic, error) {
	declared := make(map[string]*topic, len(topics))
	for _, d := range topics {
		if d.Name == "" || declared[d.Name] != nil || d.DuplicateDetection < 0 {
			return nil, fmt.Errorf("topic %q is unnamed, declared twice or has a negative duration", d.Name)
		}
		t := &topic{name: d.Name, duplicateDetection: d.DuplicateDetection, queues: map[string]*queue{}}
		for _, s := range d.Subscriptions {
			if s.Name == "" || t.queues[s.Name] != nil || s.LockDuration < 0 || s.MaxDeliveryCount < 0 {
				return nil, fmt.Errorf("subscription %q of topic %q is unnamed, declared twice or has a negative limit", s.Name, d.Name)
			}
			t.queues[s.Name] = newQueue(d.Name, s)
		}
		declared[d.Name] = t
	}
	return declared, nil
}

// restore fills the memory from the file.
func (b *Bus) restore() error {
	err := b.store.transact(func(x *tx) {
		for name, t := range b.topics {
			t.sequence = x.sequence(name)
			t.due = x.nextDue(name)
			b.wakeBy(t.due)
			for _, q := range t.queues {
				q.expires = x.nextExpiry(q, time.Time{})
				b.wakeBy(q.expires)
			}
		}
	})
	if err != nil {
		return err
	}
	return b.store.eachActive(context.Background(), func(topic, subscription, session string, dead bool, e entry) {
		q, err := b.queue(topic, subscription)
		switch {
		case err != nil: // no longer declared
		case dead:
			q.dead.put(e)
		default:
			q.add(session, e)
		}
	})
}

// Topics returns the topics as they were declared.
func (b *Bus) Topics() []Topic {
	return clone(b.declared)
}

func clone(topics []Topic) []Topic {
	topics = slices.Clone(topics)
	for i := range topics {
		topics[i].Subscriptions = slices.Clone(topics[i].Subscriptions)
		for j := range topics[i].Subscriptions {
			topics[i].Subscriptions[j].Subjects = slices.Clone(topics[i].Subscriptions[j].Subjects)
		}
	}
	return topics
}

func (b *Bus) topic(name string) (*topic, error) {
	if t := b.topics[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("topic %q: %w", name, ErrNotFound)
}

func (b *Bus) queue(topic, subscription string) (*queue, error) {
	t, err := b.topic(topic)
	if err != nil {
		return nil, err
	}
	if q := t.queues[subscription]; q != nil {
		return q, nil
	}
	return nil, fmt.Errorf("subscription %q of topic %q: %w", subscription, topic, ErrNotFound)
}
