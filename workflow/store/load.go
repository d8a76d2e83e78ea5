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
	// held are the order's early messages, oldest first.
	held []workflow.Message
}

// loaded is a row of texts.load: NULL where there is no order, no such message,
// no such deadline.
type loaded struct {
	revision, version             sql.NullInt64
	status, state, outcome, print sql.NullString
	holding                       bool
}

// load reads everything that the decision about a message needs, in one
// statement, and one more when messages are held. What it saw is a proposal:
// the commit checks the revision.
func (s *Store) load(ctx context.Context, m *workflow.Message) (*found, error) {
	if err := ctx.Err(); err != nil {
		return nil, s.fault("load", err)
	}
	// SQLite's readers wait for nobody, and a context that can end costs the
	// driver a goroutine for each statement.
	ctx = context.WithoutCancel(ctx)
	f := &found{now: s.options.Now().UTC()}
	var l loaded
	err := s.loadStmt.QueryRowContext(ctx, m.OrderID, m.ID, m.Facts.TimeoutID).Scan(&l.revision, &l.version,
		&l.status, &l.state, moment{&f.since}, &l.outcome, &l.print, moment{&f.dueAt}, &l.holding)
	if err != nil {
		return nil, s.fault("load", err)
	}
	f.outcome, f.fingerprint = workflow.Outcome(l.outcome.String), l.print.String
	if !l.revision.Valid {
		f.order = workflow.Order{ID: m.OrderID, Status: workflow.NotStarted}
		return f, nil
	}
	f.revision = l.revision.Int64
	if f.order, err = decodeState(m.OrderID, l.status.String, l.version.Int64, l.state.String); err != nil {
		return nil, err
	}
	if l.holding && f.outcome == "" {
		f.held, err = s.held(ctx, m.OrderID)
	}
	return f, err
}

// held reads an order's early messages, oldest first.
func (s *Store) held(ctx context.Context, orderID string) ([]workflow.Message, error) {
	rows, err := s.heldStmt.QueryContext(ctx, orderID)
	if err != nil {
		return nil, s.fault("load held messages", err)
	}
	var held []workflow.Message
	err = s.read(rows, func(scan scan) error {
		e, err := scanEnvelope(scan, orderID)
		if err != nil {
			return err
		}
		m, err := e.Decode()
		held = append(held, m)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load held messages: %w", err)
	}
	return held, nil
}

// scanEnvelope reads a held message as it came.
func scanEnvelope(scan scan, orderID string) (workflow.Envelope, error) {
	e := workflow.Envelope{OrderID: orderID}
	err := scan(&e.ID, &e.Type, &e.Conversation, &e.ParentID, &e.OriginID, &e.Schema, &e.TraceParent, &e.Body)
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

// fault wraps an error of the database. Whatever it was, nothing was written,
// and another delivery may find the database well again.
func (s *Store) fault(what string, err error) error {
	if errors.Is(err, workflow.ErrTransient) {
		return err
	}
	return fmt.Errorf("%s: %w: %w", what, workflow.ErrTransient, err)
}
