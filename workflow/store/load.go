package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"orderflow/workflow"
)

// found is what the database knows when a message comes.
type found struct {
	order    workflow.Order
	revision int64 // 0: there is no row yet
	since    time.Time
	now      time.Time // the database's
	// outcome and fingerprint are those of the message with the same ID that
	// was handled before; empty when there was none.
	outcome     workflow.Outcome
	fingerprint string
	// dueAt is when the deadline that the message speaks of is due; zero when
	// it is unknown here.
	dueAt time.Time
	// held are the order's early messages, oldest first, if they are of interest;
	// holding is how many there are.
	held    []workflow.Message
	holding int
	// unread is an early message that cannot be read, and why; those after it
	// are not among held.
	unread poison
	// unreadable says why the order's state cannot be read; empty when it can.
	// newer is the error of one that a newer program wrote: it is left alone,
	// and nothing is decided.
	unreadable string
	newer      error
	// blockedBy is the message that blocks the order, and line whether messages
	// wait in its line, that one among them.
	blockedBy string
	line      bool
	// action is what a person did that has the message handled, and is written
	// before it; nil when it came by itself.
	action *workflow.Decision
}

// loaded is a row of texts.load: NULL where there is no order, no such message,
// no such deadline.
type loaded struct {
	revision, version             sql.NullInt64
	status, state, outcome, print sql.NullString
	blockedBy                     sql.NullString
	unheld                        bool // no held message is of interest
}

// load reads everything that the decision about a message needs. What it saw is
// a proposal: the commit checks the revision.
func (s *Store) load(ctx context.Context, m *workflow.Message) (*found, error) {
	var known struct {
		found
		loaded
	}
	f, l := &known.found, &known.loaded
	about := []any{m.OrderID, m.ID, m.Facts.TimeoutID}
	err := s.engine.read(ctx, question{
		text: s.text.load, args: about,
		row: func(r row) error {
			err := r.Scan(&l.revision, &l.version, &l.status, &l.state, moment{&f.since}, &l.blockedBy, &l.outcome, &l.print,
				moment{&f.dueAt}, &f.holding, &f.line, moment{&f.now})
			switch workflow.Outcome(l.outcome.String) {
			case "", workflow.Blocked, workflow.Stale, workflow.Skipped: // it may be decided about
				l.unheld = f.holding == 0 || l.status.String == string(workflow.NotStarted) && m.Type != workflow.OrderPlaced
			default:
				l.unheld = true
			}
			return err
		},
	}, question{
		text: s.text.held, args: []any{m.OrderID, oneIf(m.Type == workflow.OrderPlaced)},
		moot: &l.unheld,
		row: func(r row) error {
			e, err := scanEnvelope(r, m.OrderID)
			if err != nil || f.unread.id != "" {
				return err
			}
			m, err := e.Decode()
			if err != nil { // it was sound when it came
				f.unread = unreadable(e, err)
				return nil
			}
			f.held = append(f.held, m)
			return nil
		},
	})
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if f.now.IsZero() { // SQLite has no clock of its own
		f.now = s.options.Now().UTC()
	}
	f.outcome, f.fingerprint = workflow.Outcome(l.outcome.String), l.print.String
	if !l.revision.Valid {
		f.order = workflow.Order{ID: m.OrderID, Status: workflow.NotStarted}
		return f, nil
	}
	f.revision, f.blockedBy = l.revision.Int64, l.blockedBy.String
	f.order, err = decodeState(m.OrderID, l.status.String, l.version.Int64, l.state.String)
	if err != nil { // to keep a message nothing of it is needed
		f.order = workflow.Order{ID: m.OrderID, Status: workflow.Status(l.status.String), Version: l.version.Int64}
		if errors.Is(err, workflow.ErrTransient) {
			f.newer = err
		} else {
			f.unreadable = err.Error()
		}
	}
	return f, nil
}

// scanEnvelope reads a held message as it came, and the columns before it.
func scanEnvelope(r row, orderID string, before ...any) (workflow.Envelope, error) {
	e := workflow.Envelope{OrderID: orderID}
	err := r.Scan(append(before, &e.ID, &e.Type, &e.Conversation, &e.ParentID, &e.OriginID, &e.Schema, &e.TraceParent, &e.Body)...)
	return e, err
}

// stateSchema is the version of the stored order. A newer one is left alone: it
// was written by a newer program that is being rolled back.
const stateSchema = 1

// state is the order as it is stored.
type state struct {
	Schema int            `json:"schema"`
	Order  workflow.Order `json:"order"`
}

func encodeState(o workflow.Order) (string, error) {
	b, err := json.Marshal(state{stateSchema, o})
	if err != nil {
		return "", fmt.Errorf("write the state of order %s: %w", o.ID, err)
	}
	return string(b), nil
}

func decodeState(orderID, status string, version int64, text string) (workflow.Order, error) {
	var s state
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return workflow.Order{}, fmt.Errorf("read the state of order %s: %w", orderID, err)
	}
	if s.Schema > stateSchema {
		return workflow.Order{}, fmt.Errorf("%w: order %s was written by a newer program (schema %d, this one reads %d)",
			workflow.ErrTransient, orderID, s.Schema, stateSchema)
	}
	if s.Schema < 1 {
		return workflow.Order{}, fmt.Errorf("read the state of order %s: there is no order in it", orderID)
	}
	if !workflow.Status(status).Known() {
		return workflow.Order{}, fmt.Errorf("%w: order %s was written by a newer program (status %q is not known)",
			workflow.ErrTransient, orderID, status)
	}
	s.Order.ID, s.Order.Status, s.Order.Version = orderID, workflow.Status(status), version
	return s.Order, nil
}
