package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"orderflow/workflow"
)

// Story reads everything recorded about one order. The error wraps
// workflow.ErrNoOrder when nothing is.
func (s *Store) Story(ctx context.Context, orderID string) (workflow.Story, error) {
	if workflow.OrderIDFault(orderID) != "" {
		return workflow.Story{}, fmt.Errorf("read order %q: %w", orderID, workflow.ErrNoOrder)
	}
	for try := 1; ; try++ {
		story, err := s.story(ctx, orderID)
		if err == nil {
			return story, nil
		}
		if err := overtaken(ctx, err, try); err != nil {
			return workflow.Story{}, fmt.Errorf("read order %s: %w", orderID, err)
		}
	}
}

// story reads the parts of a story, one after the other. It returns errConflict
// when the order moved meanwhile, so that they may not belong together.
func (s *Store) story(ctx context.Context, orderID string) (story workflow.Story, err error) {
	var status, state string
	var version, revision int64
	var blockedBy sql.NullString
	about := []any{orderID}
	err = s.engine.read(ctx, question{text: s.text.story, args: about, row: func(r row) error {
		return r.Scan(&story.Revision, &version, &status, &state,
			moment{&story.CreatedAt}, moment{&story.Since}, moment{&story.UpdatedAt}, &blockedBy, moment{&story.DeadlineAt})
	}}, question{text: s.text.journal, args: about, row: func(r row) error {
		var e workflow.Entry
		var emitted, said []byte
		err := r.Scan(moment{&e.At}, &e.MessageID, &e.Type, &e.ParentID, &e.Outcome, &e.Reason, &e.From, &e.To, &e.Version, &emitted, &e.Function, &said)
		if err == nil {
			err = json.Unmarshal(emitted, &e.Emitted)
		}
		e.Said, e.Actor = saidIn(said, e.Function)
		story.Journal = append(story.Journal, e)
		return err
	}}, question{text: s.text.outbox, args: about, row: func(r row) error {
		var d workflow.Dispatch
		d.OrderID = orderID
		var purpose sql.NullString
		err := r.Scan(&d.ID, &d.Type, &d.Conversation, &d.ParentID, &d.OriginID, &d.TraceParent, &purpose, moment{&d.DueAt}, &d.Body,
			&d.State, &d.Attempts, &d.Refusals, &d.Deaths, moment{&d.NextAttemptAt}, moment{&d.SentAt}, moment{&d.ClosedAt}, &d.LastError)
		completeDeadline(&d.Outgoing, purpose)
		story.Outbox = append(story.Outbox, d)
		return err
	}}, question{text: s.text.held, args: []any{orderID, int64(1)}, row: func(r row) error {
		e, err := scanEnvelope(r, orderID)
		story.Held = append(story.Held, e)
		return err
	}}, question{text: s.text.inLine, args: about, row: func(r row) error {
		e, err := scanEnvelope(r, orderID)
		story.Line = append(story.Line, e)
		return err
	}}, question{text: s.text.rejected, args: about, row: func(r row) error {
		var refused workflow.Refusal
		err := r.Scan(moment{&refused.At}, &refused.MessageID, &refused.Type, &refused.Reason, &refused.Times)
		story.Rejected = append(story.Rejected, refused)
		return err
	}}, question{text: s.text.revision, args: about, row: func(r row) error { return r.Scan(&revision) }})
	switch {
	case err != nil:
		return story, err
	case revision != story.Revision:
		return story, errConflict
	case revision == 0:
		return story, workflow.ErrNoOrder
	}
	story.BlockedBy = blockedBy.String
	story.Order = readableState(orderID, status, version, state)
	return story, nil
}

// saidIn is why somebody asked for something, and which operator, by the body of
// the message that asked and the function it came through.
func saidIn(body []byte, function string) (why, who string) {
	var said struct{ Reason, Actor string }
	if json.Unmarshal(body, &said) != nil {
		return "", ""
	}
	if function != workflow.OperatorsFunction {
		said.Actor = ""
	}
	return said.Reason, said.Actor
}

// readableState is an order for people: one whose state cannot be read says so,
// and is shown all the same.
func readableState(orderID, status string, version int64, text string) workflow.Order {
	o, err := decodeState(orderID, status, version, text)
	if err != nil {
		return workflow.Order{ID: orderID, Status: workflow.Status(status), Version: version, Problem: err.Error()}
	}
	return o
}

// List reads how every order stands, by order ID.
func (s *Store) List(ctx context.Context) ([]workflow.Order, error) {
	var orders []workflow.Order
	err := s.engine.read(ctx, question{text: s.text.list, row: func(r row) error {
		var id, status, state string
		var version int64
		if err := r.Scan(&id, &status, &version, &state); err != nil {
			return err
		}
		orders = append(orders, readableState(id, status, version, state))
		return nil
	}})
	if err != nil {
		return nil, fmt.Errorf("list the orders: %w", err)
	}
	return orders, nil
}

// Pending counts what is to be sent now: commands, and deadlines whose time to
// be handed over has come. A deadline further ahead is no lag.
func (s *Store) Pending(ctx context.Context) (n int, err error) {
	err = s.engine.read(ctx, question{text: s.text.pending, args: []any{now}, row: func(r row) error { return r.Scan(&n) }})
	if err != nil {
		return 0, fmt.Errorf("count the outbox: %w", err)
	}
	return n, nil
}

// backlogAhead is how far ahead a row is tried again at most, and some.
const backlogAhead = 10 * time.Minute

// Backlog counts what is not done yet.
func (s *Store) Backlog(ctx context.Context) (workflow.Backlog, error) {
	var b backlog
	if err := s.engine.read(ctx, s.backlogOf(&b)); err != nil {
		return workflow.Backlog{}, fmt.Errorf("count what is not done: %w", err)
	}
	done, _ := s.backlogAt(&b)
	return done, nil
}

// backlog is what is not done, as it is read.
type backlog struct {
	workflow.Backlog

	oldest, at time.Time
}

func (s *Store) backlogOf(b *backlog) question {
	return question{
		text: s.text.backlog, args: []any{now, relative(backlogAhead), relative(-time.Minute)},
		row: func(r row) error {
			return r.Scan(&b.Waiting, moment{&b.oldest}, &b.Dead, &b.Blocked, &b.Early, &b.Overdue, moment{&b.at})
		},
	}
}

// backlogAt is what was read, and when.
func (s *Store) backlogAt(b *backlog) (workflow.Backlog, time.Time) {
	if b.at.IsZero() { // SQLite has no clock of its own
		b.at = s.options.Now().UTC()
	}
	if !b.oldest.IsZero() {
		b.Lag = max(0, b.at.Sub(b.oldest))
	}
	return b.Backlog, b.at
}
