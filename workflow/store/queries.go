package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"orderflow/workflow"
)

// Story reads everything recorded about one order. The error wraps
// workflow.ErrNoOrder when nothing is.
func (s *Store) Story(ctx context.Context, orderID string) (workflow.Story, error) {
	story, err := s.story(ctx, orderID)
	if err != nil {
		return workflow.Story{}, fmt.Errorf("read order %s: %w", orderID, err)
	}
	return story, nil
}

// story reads in one transaction, so that its parts belong together.
func (s *Store) story(ctx context.Context, orderID string) (story workflow.Story, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return story, s.fault("begin", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()

	var status, state string
	var version int64
	err = tx.QueryRowContext(ctx, s.text.story, orderID).Scan(&story.Revision, &version, &status, &state,
		moment{&story.CreatedAt}, moment{&story.Since}, moment{&story.UpdatedAt}, moment{&story.DeadlineAt})
	if errors.Is(err, sql.ErrNoRows) {
		return story, workflow.ErrNoOrder
	}
	if err != nil {
		return story, s.fault("read the order", err)
	}
	if story.Order, err = decodeState(orderID, status, version, state); err != nil {
		return story, err
	}
	err = s.each(ctx, tx, s.text.journal, orderID, func(scan scan) error {
		var e workflow.Entry
		var emitted []byte
		err := scan(moment{&e.At}, &e.MessageID, &e.Type, &e.ParentID, &e.Outcome, &e.Reason, &e.From, &e.To, &e.Version, &emitted)
		if err == nil {
			err = json.Unmarshal(emitted, &e.Emitted)
		}
		story.Journal = append(story.Journal, e)
		return err
	})
	if err != nil {
		return story, err
	}
	err = s.each(ctx, tx, s.text.outbox, orderID, func(scan scan) error {
		var d workflow.Dispatch
		d.OrderID = orderID
		var purpose sql.NullString
		err := scan(&d.ID, &d.Type, &d.Conversation, &d.ParentID, &d.OriginID, &d.TraceParent, &purpose, moment{&d.DueAt}, &d.Body,
			&d.State, &d.Attempts, moment{&d.NextAttemptAt}, moment{&d.SentAt}, &d.LastError)
		completeDeadline(&d.Outgoing, purpose)
		story.Outbox = append(story.Outbox, d)
		return err
	})
	if err != nil {
		return story, err
	}
	err = s.each(ctx, tx, s.text.held, orderID, func(scan scan) error {
		e, err := scanEnvelope(scan, orderID)
		story.Held = append(story.Held, e)
		return err
	})
	if err != nil {
		return story, err
	}
	err = s.each(ctx, tx, s.text.rejected, orderID, func(scan scan) error {
		var r workflow.Refusal
		err := scan(moment{&r.At}, &r.MessageID, &r.Type, &r.Reason, &r.Times)
		story.Rejected = append(story.Rejected, r)
		return err
	})
	return story, err
}

// List reads how every order stands, by order ID.
func (s *Store) List(ctx context.Context) ([]workflow.Order, error) {
	var orders []workflow.Order
	err := s.each(ctx, s.db, s.text.list, nil, func(scan scan) error {
		var id, status, state string
		var version int64
		if err := scan(&id, &status, &version, &state); err != nil {
			return err
		}
		o, err := decodeState(id, status, version, state)
		orders = append(orders, o)
		return err
	})
	return orders, err
}

// Pending counts what is to be sent now: commands, and deadlines whose time to
// be handed over has come. A deadline further ahead is no lag.
func (s *Store) Pending(ctx context.Context) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, s.text.pending, formatTime(s.options.Now())).Scan(&n); err != nil {
		return 0, s.fault("count the outbox", err)
	}
	return n, nil
}

// scan reads the columns of a row.
type scan func(dest ...any) error

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// each runs a query of at most one argument and reads it to its end.
func (s *Store) each(ctx context.Context, db querier, query string, arg any, row func(scan) error) error {
	var args []any
	if arg != nil {
		args = append(args, arg)
	}
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return s.fault("query", err)
	}
	return s.read(rows, row)
}

// read reads rows to their end and closes them.
func (s *Store) read(rows *sql.Rows, row func(scan) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return fmt.Errorf("read a row: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return s.fault("read rows", err)
	}
	return nil
}
