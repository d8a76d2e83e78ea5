package localbus

import (
	"context"
	"database/sql"
	"fmt"
)

// TopicCounts says how many messages one topic holds. Every declared
// subscription is a key.
type TopicCounts struct {
	Scheduled     int
	Subscriptions map[string]SubscriptionCounts
}

// SubscriptionCounts says how many messages one subscription holds, those in
// delivery included.
type SubscriptionCounts struct {
	Active   int
	Deferred int
	Dead     int
}

// PeekOptions choose what PeekFrom returns. The zero value stands for
// everything but dead letters.
type PeekOptions struct {
	// From is the first sequence number.
	From int64
	// Most is how many messages at most. Zero means all.
	Most int
	// SessionID chooses one session. Empty means every session.
	SessionID   string
	DeadLetters bool
}

// Peek returns the messages that are not dead letters, those in delivery and
// deferred ones included, by sequence number. DeliveryCount counts the failed
// deliveries.
func (b *Bus) Peek(ctx context.Context, topic, subscription string) ([]Message, error) {
	return b.PeekFrom(ctx, topic, subscription, PeekOptions{})
}

// DeadLetters is Peek for the dead letters.
func (b *Bus) DeadLetters(ctx context.Context, topic, subscription string) ([]Message, error) {
	return b.PeekFrom(ctx, topic, subscription, PeekOptions{DeadLetters: true})
}

// PeekFrom is Peek for a choice of messages.
func (b *Bus) PeekFrom(ctx context.Context, topic, subscription string, options PeekOptions) ([]Message, error) {
	if _, err := b.queue(topic, subscription); err != nil {
		return nil, fmt.Errorf("peek: %w", err)
	}
	limit := options.Most
	if limit <= 0 {
		limit = -1 // SQLite's for none
	}
	messages, err := b.read(ctx, b.store.deliveries,
		topic, subscription, options.DeadLetters, options.From, options.SessionID, limit)
	if err != nil {
		return nil, fmt.Errorf("peek at subscription %q: %w", subscription, err)
	}
	return messages, nil
}

// Sessions returns, sorted, the sessions that have active messages, those in
// delivery included, or state.
func (b *Bus) Sessions(ctx context.Context, topic, subscription string) ([]string, error) {
	if _, err := b.queue(topic, subscription); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var sessions []string
	err := b.query(ctx, b.store.sessions, []any{topic, subscription}, func(rows *sql.Rows) error {
		var session string
		err := rows.Scan(&session)
		sessions = append(sessions, session)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list sessions of subscription %q: %w", subscription, err)
	}
	return sessions, nil
}

// Scheduled returns the messages that wait for their time, the first due first.
// EnqueuedAt is when they were accepted.
func (b *Bus) Scheduled(ctx context.Context, topic string) ([]Message, error) {
	if _, err := b.topic(topic); err != nil {
		return nil, fmt.Errorf("read scheduled messages: %w", err)
	}
	messages, err := b.read(ctx, b.store.scheduled, topic)
	if err != nil {
		return nil, fmt.Errorf("read scheduled messages of topic %q: %w", topic, err)
	}
	return messages, nil
}

// Sent returns every send that the topic has accepted, in that order: repeats
// that were dropped as well, under the sequence number of the first, and what
// no subscription took. EnqueuedAt is when it was accepted. It looks back on
// the newest 100,000 sends per topic; older ones are forgotten.
func (b *Bus) Sent(ctx context.Context, topic string) ([]Message, error) {
	if _, err := b.topic(topic); err != nil {
		return nil, fmt.Errorf("read sent messages: %w", err)
	}
	messages, err := b.read(ctx, b.store.sent, topic, keptSent)
	if err != nil {
		return nil, fmt.Errorf("read messages sent to topic %q: %w", topic, err)
	}
	return messages, nil
}

// Counts says how many messages each declared topic holds, all at one moment.
func (b *Bus) Counts(ctx context.Context) (map[string]TopicCounts, error) {
	counts := make(map[string]TopicCounts, len(b.topics))
	for name, t := range b.topics {
		c := TopicCounts{Subscriptions: make(map[string]SubscriptionCounts, len(t.queues))}
		for subscription := range t.queues {
			c.Subscriptions[subscription] = SubscriptionCounts{}
		}
		counts[name] = c
	}
	err := b.query(ctx, b.store.counts, nil, func(rows *sql.Rows) error {
		var topic, subscription, state string
		var n int
		if err := rows.Scan(&topic, &subscription, &state, &n); err != nil {
			return err
		}
		t, declared := counts[topic]
		if !declared {
			return nil
		}
		if state == string(StateScheduled) {
			t.Scheduled = n
			counts[topic] = t
			return nil
		}
		s, declared := t.Subscriptions[subscription]
		if !declared {
			return nil
		}
		switch state {
		case string(StateActive):
			s.Active = n
		case string(StateDeferred):
			s.Deferred = n
		default:
			s.Dead = n
		}
		t.Subscriptions[subscription] = s
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count messages: %w", err)
	}
	return counts, nil
}

func (b *Bus) read(ctx context.Context, stmt *sql.Stmt, args ...any) ([]Message, error) {
	var messages []Message
	err := b.query(ctx, stmt, args, func(rows *sql.Rows) error {
		m, err := scanMessage(rows)
		messages = append(messages, m)
		return err
	})
	return messages, err
}

// query calls each with every row, beside the loop: what a call has returned
// for is seen, what is being written is not.
func (b *Bus) query(ctx context.Context, stmt *sql.Stmt, args []any, each func(*sql.Rows) error) (err error) {
	defer func() {
		select {
		case <-b.closing:
			err = ErrClosed
		default:
		}
	}()
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has said what matters
	for rows.Next() {
		if err := each(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
