// Package store keeps orders in a SQL database and runs every message through
// the process in one transaction: the order's state, the journal that is also
// the inbox, the outbox and its deadlines change together or not at all.
//
// Handle is the whole life of a message. What the databases say differently
// stands in one place each (sqlite.go, sqlserver_texts.go), behind the interface
// engine; the logic is written once.
package store

import (
	"context"
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
	// database's. Required there; SQL Server has a clock of its own.
	Now func() time.Time
	// Deadlines is how long each deadline is, counted from the commit that arms
	// it. A purpose that is missing takes 24 hours, shipment-timeout 7 days.
	Deadlines map[workflow.Purpose]time.Duration
	// SendAhead is how long before it is due a deadline is handed to the
	// broker. Zero means 2 minutes.
	SendAhead time.Duration
	// EarlyLimit is how long an early message is held for an order that does not
	// start. Zero means 24 hours.
	EarlyLimit time.Duration
	// Retention is how long the journal and the outbox of an order are kept
	// after it was last decided about and is at rest. Zero means 30 days.
	Retention time.Duration
	// DuplicateDetection is for how long the broker drops what it is sent twice.
	// It must not be shorter than the topics' own window, or what is sent again
	// is dropped. Zero means 10 minutes.
	DuplicateDetection time.Duration
	// Existing has Open take nothing but what is there: a SQLite file is neither
	// made nor is its schema changed.
	Existing bool
	// Apply decides about messages. Nil means workflow.Apply; another is for
	// tests that need decisions to fail. It may panic.
	Apply func(workflow.Order, workflow.Message, []workflow.Message) workflow.Result
	// KeepBytes is how much of a rejected message's body is kept. Zero means
	// 64 KiB.
	KeepBytes int
	// Audit has whatever happens from now on listed by Unaudited until it is
	// confirmed by Audited, and kept until then. What happened while it was false
	// is never listed.
	Audit bool
	// Wake is called after a commit that left something to send. It must
	// return at once. Nil is allowed.
	Wake func()
	// Decided is called after the commit of what was decided about a message,
	// with the decision about it first and then those about the early ones that
	// were taken up. It must return at once. Nil is allowed.
	Decided func([]workflow.Decision)

	// What follows is about SQL Server alone.

	// MaxConnections is how many connections are open at most. Zero means 30.
	MaxConnections int
	// ConnectionLifetime is how long a connection is used: not longer than the
	// token it was opened with is good for. Zero means 15 minutes.
	ConnectionLifetime time.Duration
	// Timeout bounds each request, and the making of a connection, within the
	// caller's own deadline. Zero means 15 seconds.
	Timeout time.Duration
}

// Store is one database of orders. It is safe for concurrent use, and several
// processes may use one database.
type Store struct {
	engine  engine
	text    *texts
	options Options
	ended   endedCount
}

// Open opens the database that a connection names: a SQLite file by its path,
// or SQL Server by a sqlserver:// address.
//
// A SQLite file is created where there is none, and its schema brought up to
// date, unless only an existing one will do, when the error for an old schema
// wraps ErrSchema; its folder must exist and be writable. SQL Server is not even
// asked yet: what is wrong with it shows when it is needed, or by Ready.
func Open(ctx context.Context, connection string, options Options) (*Store, error) {
	if isSQLServer(connection) {
		e, err := startSQLServer(connection, options)
		if err != nil {
			return nil, err
		}
		return &Store{engine: e, text: &sqlServerTexts, options: options}, nil
	}
	if options.Now == nil {
		return nil, errors.New("store: Options.Now is required")
	}
	if options.Existing {
		if err := checkSQLite(ctx, connection); err != nil {
			return nil, fmt.Errorf("open the database %s: %w", connection, err)
		}
	}
	e, err := startSQLite(ctx, "sqlite", connection, options.Now)
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", connection, err)
	}
	return &Store{engine: e, text: &sqliteTexts, options: options}, nil
}

// Ready connects to the database and says whether it can be used. The error
// wraps ErrSchema when its schema has to be brought up to date first, by Migrate.
func (s *Store) Ready(ctx context.Context) error { return s.engine.ready(ctx) }

// Close finishes what is being written and closes the database.
func (s *Store) Close() error { return s.engine.close() }

// maxTries bounds how often a message is decided again because another was
// faster: each time one of those that race has won. Beyond it the message is
// left to its next delivery.
const maxTries = 30

// heldMost is how many early messages are held for one order: each is looked at
// again with every step that the order takes. Further ones are rejected, which
// keeps them where a person sees them.
const heldMost = 1000

// errConflict: the order moved between load and commit.
var errConflict = errors.New("the order was changed by another message")

// Handle runs one message through the process: load, decide, commit. It returns
// what was decided about it; duplicates and conflicts are decisions too, and so
// is that it blocks its order, because it cannot be handled for a reason that is
// not its own. An error means that the message should come again; it wraps
// workflow.ErrTransient where waiting helps. Then nothing was written, unless
// the reply of a commit was lost or ctx ended during one; the next delivery
// finds a duplicate.
func (s *Store) Handle(ctx context.Context, m workflow.Message) (d workflow.Decision, err error) {
	err = s.insist(ctx, func() (err error) {
		d, err = s.handle(ctx, m)
		return err
	})
	if err != nil {
		return workflow.Decision{}, fmt.Errorf("handle %s %s of order %s: %w", m.Type, m.ID, m.OrderID, err)
	}
	return d, nil
}

// insist tries something again as long as another was faster.
func (s *Store) insist(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil {
			return nil
		}
		if err := overtaken(ctx, err, try); err != nil {
			return err
		}
	}
}

// overtaken returns nil, after a pause, when it is worth to try again because
// another was faster; else the error to give up with.
func overtaken(ctx context.Context, err error, try int) error {
	switch {
	case !errors.Is(err, errConflict):
		return err
	case try == maxTries:
		return fmt.Errorf("%w: %w, %d times over", workflow.ErrTransient, err, try)
	}
	if err := pause(ctx, try); err != nil {
		return transient(err)
	}
	return nil
}

// handle is one try of Handle. It returns errConflict when another message was
// faster; then everything is decided again from what that one left.
// also is written in the same commit.
func (s *Store) handle(ctx context.Context, m workflow.Message, also ...statement) (workflow.Decision, error) {
	found, err := s.load(ctx, &m)
	if err != nil {
		return workflow.Decision{}, err
	}
	if d, handled := s.before(found, m); handled {
		switch {
		case len(also) > 0: // whoever handled it wrote that too
			err = errConflict
		case d.Outcome == workflow.Rejected:
			err = s.engine.write(ctx, s.reject(rejection(m, d.Reason)))
		}
		return d, err
	}
	if found.line || found.blockedBy != "" {
		return s.enqueue(ctx, found, m, also)
	}
	return s.decide(ctx, found, m, also)
}

// decide has the process decide about a message and commits the decision. A
// message that cannot be decided about, or its decision not be written, blocks
// its order.
func (s *Store) decide(ctx context.Context, f *found, m workflow.Message, also []statement) (workflow.Decision, error) {
	if f.newer != nil {
		return workflow.Decision{}, f.newer
	}
	m.DueAt, m.NotDue = f.dueAt, f.dueAt.After(f.now)
	result, poison := s.apply(f, m)
	if poison.is(m) {
		return s.hold(ctx, f, m, poison, also)
	}
	if first := &result.Decisions[0]; first.Outcome == workflow.Held && f.holding >= heldMost {
		first.Outcome, first.Reason = workflow.Rejected, fmt.Sprintf("%s, and %d messages are held for it already", first.Reason, f.holding)
	}
	batch, err := s.commit(f, result, poison)
	if err == nil {
		err = s.engine.write(ctx, append(batch, also...))
	}
	switch {
	case err == nil:
	case errors.Is(err, errConflict), errors.Is(err, workflow.ErrTransient):
		return workflow.Decision{}, err
	default:
		return s.hold(ctx, f, m, unwritten(m, err), also)
	}
	if s.options.Wake != nil && len(result.Emissions()) > 0 {
		s.options.Wake()
	}
	if s.options.Decided != nil {
		s.options.Decided(result.Decisions)
	}
	d := result.Decisions[0]
	if !m.DueAt.IsZero() {
		d.Late = f.now.Sub(m.DueAt)
	}
	if poison.id != "" {
		d.Trouble = poison.trouble()
	}
	return d, nil
}

// before decides about a message whose ID was handled before: a duplicate when
// its content is the same, else a conflict.
func (s *Store) before(f *found, m workflow.Message) (workflow.Decision, bool) {
	if f.outcome == "" || f.strayed(m) {
		return workflow.Decision{}, false
	}
	d := f.unmoved(m, workflow.Duplicate, "it was handled before: "+string(f.outcome))
	if f.fingerprint != "" && f.fingerprint != m.Fingerprint {
		d.Outcome = workflow.Rejected
		d.Reason = fmt.Sprintf("conflict: MessageId %s was handled with other content (fingerprint %s, now %s)", m.ID, f.fingerprint, m.Fingerprint)
		if workflow.ActionKind(m.Type).Known() {
			return d, true // the process does not know it
		}
		if as, poison := s.attempt(f.order, m, nil); poison == nil && as.Decisions[0].Outcome == workflow.Rejected {
			d.Reason += "; under an ID of its own: " + as.Decisions[0].Reason // what differs, in words
		}
	}
	return d, true
}

// unmoved is a decision that leaves the order where it is.
func (f *found) unmoved(m workflow.Message, outcome workflow.Outcome, reason string) workflow.Decision {
	status := f.order.Status
	return workflow.Decision{Message: m, Outcome: outcome, Reason: reason, From: status, To: status, Version: f.order.Version}
}

// strayed reports whether what bears the message's ID is a stray: a deadline
// that came before the order armed one of that ID, as after the database was
// put back to an earlier state. The armed one, which the message is, would be
// armed no longer if it had been handled; it must not be lost as a duplicate.
func (f *found) strayed(m workflow.Message) bool {
	return (f.outcome == workflow.Stale || f.outcome == workflow.Skipped) && m.ID == f.order.Armed && m.Facts.TimeoutID == m.ID
}

// Reject keeps a message that can never be accepted, with its reason. The same
// message again only counts up.
func (s *Store) Reject(ctx context.Context, r workflow.Rejection) error {
	if err := s.insist(ctx, func() error { return s.engine.write(ctx, s.reject(r)) }); err != nil {
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
	return or(s.options.Deadlines[p], p.Default())
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
