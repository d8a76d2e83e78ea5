package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"orderflow/workflow"
)

// Dispatches lists rows of the outbox of all orders that are in a state: of the
// commands, or of the deadlines.
//
// Waiting ones come in the order in which they are to be sent next, deadlines
// that are at the broker (sent, recall) by when they are due, commands that are
// sent or dead by order and then as they were decided. Only deadlines are ever to
// be recalled, and only commands die. Deadlines in no state are all that are
// armed: those at the broker, and then those that wait, which are due later. A
// row that moves while the pages are read may be on two of them, or on none.
func (s *Store) Dispatches(ctx context.Context, state string, deadlines bool, top int, after string) (page workflow.Page[workflow.DispatchAt], err error) {
	list := fmt.Sprintf("dispatches %q %t", state, deadlines)
	page, err = s.dispatches(ctx, list, state, deadlines, top, after)
	if err != nil {
		return workflow.Page[workflow.DispatchAt]{}, fmt.Errorf("list the outbox: %w", err)
	}
	return page, nil
}

func (s *Store) dispatches(ctx context.Context, list, state string, deadlines bool, top int, after string) (page workflow.Page[workflow.DispatchAt], err error) {
	if top, err = topOf(top); err != nil {
		return page, err
	}
	begin, err := cursorOf(list, after, cursor{At: longAgo})
	if err != nil {
		return page, err
	}
	p := filling[workflow.DispatchAt]{list: list, top: top}
	// by is a list by a time, and then order and place. part tells apart the lists
	// that one is made of.
	by := func(text string, part int64, at func(*workflow.DispatchAt) time.Time, more ...any) question {
		from := begin
		if part > begin.Place {
			from = cursor{At: longAgo}
		}
		return question{text: text, args: append([]any{from.At, from.ID, from.Seq, int64(top + 1)}, more...), row: func(r row) error {
			d, seq, err := scanDispatch(r)
			p.add(d, cursor{At: at(&d), ID: d.OrderID, Seq: seq, Place: part})
			return err
		}}
	}
	next := func(d *workflow.DispatchAt) time.Time { return d.NextAttemptAt }
	due := func(d *workflow.DispatchAt) time.Time { return d.DueAt }
	byOrder := func(text string) question {
		return question{text: text, args: []any{begin.ID, begin.Seq, int64(top + 1)}, row: func(r row) error {
			d, seq, err := scanDispatch(r)
			p.add(d, cursor{ID: d.OrderID, Seq: seq})
			return err
		}}
	}
	var asked []question
	switch {
	case state == "" && deadlines:
		if begin.Place == 0 {
			asked = append(asked, by(s.text.handedOver, 0, due))
		}
		asked = append(asked, by(s.text.ahead, 1, next))
	case state == workflow.DispatchWaiting && deadlines:
		asked = append(asked, by(s.text.ahead, 0, next))
	case state == workflow.DispatchWaiting:
		asked = append(asked, by(s.text.unsent, 0, next, relative(backlogAhead)))
	case state == workflow.DispatchSent && deadlines:
		asked = append(asked, by(s.text.handedOver, 0, due))
	case state == workflow.DispatchSent:
		asked = append(asked, byOrder(s.text.sent))
	case state == workflow.DispatchRecall:
		asked = append(asked, by(s.text.toRecall, 0, due))
	case state == workflow.DispatchDead && deadlines:
		return page, nil
	case state == workflow.DispatchDead:
		asked = append(asked, byOrder(s.text.dead))
	default:
		return page, fmt.Errorf("%w: rows in state %.40q are not listed; %s, %s, %s and %s are", workflow.ErrBadInput, state,
			workflow.DispatchWaiting, workflow.DispatchSent, workflow.DispatchRecall, workflow.DispatchDead)
	}
	err = s.engine.read(ctx, asked...)
	return p.page, err
}

func scanDispatch(r row) (d workflow.DispatchAt, seq int64, err error) {
	var purpose sql.NullString
	err = r.Scan(&d.OrderID, &seq, &d.ID, &d.Type, &d.Conversation, &d.ParentID, &d.OriginID, &d.TraceParent, &purpose, moment{&d.DueAt},
		&d.State, &d.Attempts, &d.Refusals, &d.Deaths, moment{&d.NextAttemptAt}, moment{&d.SentAt}, moment{&d.ClosedAt}, &d.LastError)
	d.Outgoing.OrderID = d.OrderID
	completeDeadline(&d.Outgoing, purpose)
	return d, seq, err
}

// Kept lists messages of all orders that wait, by order and then as they are to
// be handled: those that came too early (Held), or those in the lines of orders
// that a message blocks (Blocked).
func (s *Store) Kept(ctx context.Context, outcome workflow.Outcome, top int, after string) (page workflow.Page[workflow.Kept], err error) {
	page, err = s.kept(ctx, outcome, top, after)
	if err != nil {
		return workflow.Page[workflow.Kept]{}, fmt.Errorf("list messages that wait: %w", err)
	}
	return page, nil
}

func (s *Store) kept(ctx context.Context, outcome workflow.Outcome, top int, after string) (page workflow.Page[workflow.Kept], err error) {
	var text string
	switch outcome {
	case workflow.Held:
		text = s.text.keptEarly
	case workflow.Blocked:
		text = s.text.keptInLine
	default:
		return page, fmt.Errorf("%w: of messages that wait the outcome is %s or %s, not %.40q", workflow.ErrBadInput, workflow.Held, workflow.Blocked, outcome)
	}
	if top, err = topOf(top); err != nil {
		return page, err
	}
	p := filling[workflow.Kept]{list: "kept " + string(outcome), top: top}
	begin, err := cursorOf(p.list, after, cursor{})
	if err != nil {
		return page, err
	}
	err = s.engine.read(ctx, question{text: text, args: []any{begin.ID, begin.Seq, begin.Place, int64(top + 1)}, row: func(r row) (err error) {
		var k workflow.Kept
		var c cursor
		err = r.Scan(&k.OrderID, &c.Seq, &c.Place, &k.Outcome, &k.Reason, moment{&k.ReceivedAt}, &k.Delivery.Function, &k.Delivery.Count,
			&k.ID, &k.Type, &k.Conversation, &k.ParentID, &k.OriginID, &k.Schema, &k.TraceParent, &k.Size)
		k.Envelope.OrderID, c.ID = k.OrderID, k.OrderID
		p.add(k, c)
		return err
	}})
	return p.page, err
}
