package storetest

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"orderflow/workflow"
)

// Record is everything that a database of orders holds, read past the store, so
// that what the store made of it can be judged: Faults says what of it cannot
// be, Unrest what is not done, Misheard what the services heard wrongly.
type Record struct {
	orders []*recorded // by ID
	byID   map[string]*recorded
}

// recorded is all rows about one order.
type recorded struct {
	id                string
	rows              int // in the table orders: 1, or something is wrong
	revision, version int64
	status            workflow.Status
	state             string
	blockedBy         string
	journal           []handled // in the order of decision
	outbox            []queued  // in the order of seq
	refusals          int       // rejected messages, each as often as it came
}

// handled is a row of the journal.
type handled struct {
	workflow.Envelope

	revision, place, version int64
	fingerprint              string
	outcome                  workflow.Outcome
	reason                   string
	from, to                 workflow.Status
	emitted                  []string
	receivedAt, decidedAt    time.Time
}

// queued is a row of the outbox.
type queued struct {
	workflow.Outgoing

	seq               int64
	state             string
	visibleAt, sentAt time.Time
	attempts, deaths  int
	lastError         string
}

func (q *queued) unsettled() bool {
	return q.state == workflow.DispatchWaiting || q.state == workflow.DispatchSent
}

// Read reads a database in which nothing happens meanwhile.
func Read(ctx context.Context, db *sql.DB) (*Record, error) {
	r := &Record{byID: make(map[string]*recorded)}
	err := errors.Join(
		each(ctx, db, `SELECT order_id, revision, version, status, state, blocked_by FROM orders`, func(scan scanner) error {
			var id string
			var o recorded
			var blockedBy sql.NullString
			err := scan(&id, &o.revision, &o.version, &o.status, &o.state, &blockedBy)
			of := r.of(id)
			of.revision, of.version, of.status, of.state, of.blockedBy = o.revision, o.version, o.status, o.state, blockedBy.String
			of.rows++
			return err
		}),
		each(ctx, db, `SELECT order_id, revision, place, message_id, message_type, conversation, parent_id, origin_id, schema_version,
  traceparent, fingerprint, body, outcome, reason, from_status, to_status, version, emitted, received_at, decided_at FROM journal`, func(scan scanner) error {
			var h handled
			var emitted string
			err := scan(&h.OrderID, &h.revision, &h.place, &h.ID, &h.Type, &h.Conversation, &h.ParentID, &h.OriginID, &h.Schema,
				&h.TraceParent, &h.fingerprint, &h.Body, &h.outcome, &h.reason, &h.from, &h.to, &h.version, &emitted,
				instant{&h.receivedAt}, instant{&h.decidedAt})
			if err == nil {
				err = json.Unmarshal([]byte(emitted), &h.emitted)
			}
			of := r.of(h.OrderID)
			of.journal = append(of.journal, h)
			return err
		}),
		each(ctx, db, `SELECT order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at,
  body, state, visible_at, sent_at, attempts, deaths, last_error FROM outbox`, func(scan scanner) error {
			var q queued
			var purpose sql.NullString
			err := scan(&q.OrderID, &q.seq, &q.ID, &q.Type, &q.Conversation, &q.ParentID, &q.OriginID, &q.TraceParent, &purpose,
				instant{&q.DueAt}, &q.Body, &q.state, instant{&q.visibleAt}, instant{&q.sentAt}, &q.attempts, &q.deaths, &q.lastError)
			q.Purpose = workflow.Purpose(purpose.String)
			of := r.of(q.OrderID)
			of.outbox = append(of.outbox, q)
			return err
		}),
		each(ctx, db, `SELECT order_id, times FROM rejected`, func(scan scanner) error {
			var id string
			var times int
			err := scan(&id, &times)
			if o := r.byID[id]; o != nil { // others are about orders that were never known
				o.refusals += times
			}
			return err
		}))
	if err != nil {
		return nil, fmt.Errorf("read the database: %w", err)
	}
	for _, o := range r.orders {
		slices.SortFunc(o.journal, func(a, b handled) int {
			return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.place, b.place))
		})
		slices.SortFunc(o.outbox, func(a, b queued) int { return cmp.Compare(a.seq, b.seq) })
	}
	slices.SortFunc(r.orders, func(a, b *recorded) int { return cmp.Compare(a.id, b.id) })
	return r, nil
}

func (r *Record) of(id string) *recorded {
	o := r.byID[id]
	if o == nil {
		o = &recorded{id: id}
		r.byID[id] = o
		r.orders = append(r.orders, o)
	}
	return o
}

type scanner func(dest ...any) error

func each(ctx context.Context, db *sql.DB, query string, row func(scanner) error) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// instant reads a time however a database gives it; NULL is the zero time.
type instant struct{ *time.Time }

// Scan implements sql.Scanner.
func (i instant) Scan(value any) (err error) {
	switch v := value.(type) {
	case nil:
		*i.Time = time.Time{}
	case time.Time:
		*i.Time = v.UTC()
	case string:
		*i.Time, err = time.Parse(time.RFC3339Nano, v)
	default:
		err = fmt.Errorf("a time is stored as %T", value)
	}
	return err
}

// line is what waits to be handled in order, the first first.
func (o *recorded) line() (ids []string) {
	for _, h := range o.journal {
		if h.outcome == workflow.Blocked {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// has reports whether a message of the order had an outcome.
func (o *recorded) has(outcome workflow.Outcome) bool {
	return slices.ContainsFunc(o.journal, func(h handled) bool { return h.outcome == outcome })
}

// begun reports whether something says why an order goes on, or does not: only
// one that waits to be placed, or whose placing a person skipped, may be not
// started.
func (o *recorded) begun() bool {
	return o.status != workflow.NotStarted || o.has(workflow.Held) || o.has(workflow.Skipped)
}

// Endings counts the orders by how they stand: by status, but "blocked" where a
// message blocks one.
func (r *Record) Endings() map[string]int {
	endings := make(map[string]int)
	for _, o := range r.orders {
		if o.blockedBy != "" {
			endings["blocked"]++
		} else {
			endings[string(o.status)]++
		}
	}
	return endings
}

// Tally counts rows: of the journal by outcome, of the outbox by state.
func (r *Record) Tally() (journal, outbox map[string]int) {
	journal, outbox = make(map[string]int), make(map[string]int)
	for _, o := range r.orders {
		for _, h := range o.journal {
			journal[string(h.outcome)]++
		}
		for _, q := range o.outbox {
			outbox[q.state]++
		}
		journal["Rejected (times)"] += o.refusals
	}
	return journal, outbox
}

// Unrest says what is not done although it could be: no command may wait to be
// sent, no deadline be overdue, and every order has ended, waits for a
// person, or is visibly held. For a system that was left alone until then.
func (r *Record) Unrest(now time.Time) (all []string) {
	for _, o := range r.orders {
		say := func(format string, args ...any) {
			all = append(all, o.id+": "+fmt.Sprintf(format, args...))
		}
		if o.blockedBy == "" && len(o.line()) > 0 {
			say("nothing blocks it, and %v wait to be handled", o.line())
		}
		if o.blockedBy == "" && (!o.begun() || o.status != workflow.NotStarted && !o.status.AtRest()) {
			say("it is %s, and nothing says why", o.status)
		}
		for _, q := range o.outbox {
			switch {
			case q.state == workflow.DispatchWaiting && q.Purpose == "":
				say("%s is to be sent at %s", q.ID, q.visibleAt)
			case q.state == workflow.DispatchRecall && !q.visibleAt.After(now):
				say("%s is to be recalled since %s", q.ID, q.visibleAt)
			case q.unsettled() && q.Purpose != "" && !q.DueAt.After(now) && o.blockedBy == "":
				say("%s is overdue since %s", q.ID, q.DueAt)
			}
		}
	}
	return all
}
