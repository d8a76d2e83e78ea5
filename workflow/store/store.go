// Package store keeps orders in a SQL database and runs every message through
// the process in one transaction: the order's state, the journal that is also
// the inbox, the outbox and its deadlines change together or not at all.
//
// Handle is the whole life of a message. What the databases say differently
// stands in one place each (sqlite.go); the logic is written once.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"orderflow/workflow"
)

// Options are what a store needs to know. The zero value of a field takes the
// default named there.
type Options struct {
	// Now is the store's clock on embedded SQLite, where it stands for the
	// database's. Required.
	Now func() time.Time
	// Deadlines is how long each deadline is, counted from the commit that arms
	// it. A purpose that is missing takes 24 hours, shipment-timeout 7 days.
	Deadlines map[workflow.Purpose]time.Duration
	// SendAhead is how long before it is due a deadline is handed to the
	// broker. Zero means 2 minutes.
	SendAhead time.Duration
	// KeepBytes is how much of a rejected message's body is kept. Zero means
	// 64 KiB.
	KeepBytes int
	// Wake is called after a commit that left something to send. It must
	// return at once. Nil is allowed.
	Wake func()
}

// Store is one database of orders. It is safe for concurrent use, and several
// processes may use one database.
type Store struct {
	db   *sql.DB
	text *texts
	// loadStmt and heldStmt are the reads of every message, prepared once.
	loadStmt, heldStmt *sql.Stmt
	writer             *writer
	options            Options
}

// maxTries bounds how often a message is decided again because another was
// faster. Beyond it the message is left to its next delivery.
const maxTries = 12

// errConflict: the order moved between load and commit.
var errConflict = errors.New("the order was changed by another message")

// Handle runs one message through the process: load, decide, commit. It returns
// what was decided about it; duplicates and conflicts are decisions too. An
// error means that the message should come again; it wraps workflow.ErrTransient
// where waiting helps. Then nothing was written, unless the reply of a commit
// was lost or ctx ended during one; the next delivery finds a duplicate.
func (s *Store) Handle(ctx context.Context, m workflow.Message) (workflow.Decision, error) {
	for try := 1; ; try++ {
		d, err := s.handle(ctx, m)
		switch {
		case err == nil:
			return d, nil
		case !errors.Is(err, errConflict):
			return workflow.Decision{}, fmt.Errorf("handle %s %s of order %s: %w", m.Type, m.ID, m.OrderID, err)
		case try == maxTries:
			return workflow.Decision{}, fmt.Errorf("handle %s %s of order %s: %w: %w, %d times over",
				m.Type, m.ID, m.OrderID, workflow.ErrTransient, err, try)
		}
		if err := pause(ctx, try); err != nil {
			return workflow.Decision{}, fmt.Errorf("handle %s %s of order %s: %w: %w", m.Type, m.ID, m.OrderID, workflow.ErrTransient, err)
		}
	}
}

// handle is one try of Handle. It returns errConflict when another message was
// faster; then everything is decided again from what that one left.
func (s *Store) handle(ctx context.Context, m workflow.Message) (workflow.Decision, error) {
	found, err := s.load(ctx, &m)
	if err != nil {
		return workflow.Decision{}, err
	}
	if d, handled := found.again(m); handled {
		if d.Outcome == workflow.Rejected {
			err = s.write(ctx, s.reject(rejection(m, d.Reason)))
		}
		return d, err
	}
	m.DueAt, m.NotDue = found.dueAt, found.dueAt.After(found.now)
	result := workflow.Apply(found.order, m, found.held)
	batch, err := s.commit(found, result)
	if err != nil {
		return workflow.Decision{}, err
	}
	if err := s.write(ctx, batch); err != nil {
		return workflow.Decision{}, err
	}
	if s.options.Wake != nil && len(result.Emissions()) > 0 {
		s.options.Wake()
	}
	return result.Decisions[0], nil
}

// again decides about a message whose ID was handled before: a duplicate when
// its content is the same, else a conflict.
func (f *found) again(m workflow.Message) (workflow.Decision, bool) {
	if f.outcome == "" || f.strayed(m) {
		return workflow.Decision{}, false
	}
	d := workflow.Decision{
		Message: m, From: f.order.Status, To: f.order.Status, Version: f.order.Version,
		Outcome: workflow.Duplicate, Reason: "it was handled before: " + string(f.outcome),
	}
	if f.fingerprint != m.Fingerprint {
		d.Outcome = workflow.Rejected
		d.Reason = fmt.Sprintf("conflict: MessageId %s was handled with other content (fingerprint %s, now %s)", m.ID, f.fingerprint, m.Fingerprint)
		if as := workflow.Apply(f.order, m, nil).Decisions[0]; as.Outcome == workflow.Rejected {
			d.Reason += "; under an ID of its own: " + as.Reason // what differs, in words
		}
	}
	return d, true
}

// strayed reports whether what bears the message's ID is a stray: a deadline
// that came before the order armed one of that ID, as after the database was
// put back to an earlier state. The armed one, which the message is, would be
// armed no longer if it had been handled; it must not be lost as a duplicate.
func (f *found) strayed(m workflow.Message) bool {
	return f.outcome == workflow.Stale && m.ID == f.order.Armed && m.Facts.TimeoutID == m.ID
}

// Reject keeps a message that can never be accepted, with its reason. The same
// message again only counts up.
func (s *Store) Reject(ctx context.Context, r workflow.Rejection) error {
	if err := s.write(ctx, s.reject(r)); err != nil {
		return fmt.Errorf("keep a rejected message: %w", err)
	}
	return nil
}

// rejection is a sound message that was refused all the same.
func rejection(m workflow.Message, reason string) workflow.Rejection {
	return workflow.Rejection{Envelope: m.Envelope, Delivery: m.Delivery, Reason: reason, Fingerprint: m.Fingerprint}
}

// deadline is how long a deadline of a purpose is.
func (s *Store) deadline(p workflow.Purpose) time.Duration {
	if d := s.options.Deadlines[p]; d > 0 {
		return d
	}
	if p == workflow.ShipmentTimeout {
		return 7 * 24 * time.Hour
	}
	return 24 * time.Hour
}

// pause waits a little, longer and less predictably each time, so that messages
// that race for an order do not meet again.
func pause(ctx context.Context, try int) error {
	most := min(time.Millisecond<<try, 100*time.Millisecond)
	timer := time.NewTimer(rand.N(most)) //nolint:gosec // no secret hangs on it
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
