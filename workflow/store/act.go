package store

import (
	"context"
	"fmt"
	"time"

	"orderflow/workflow"
)

// Act does what an operator asks for about one message of an order: it is
// decided, journalled and done in one transaction, like a message. What is not
// allowed is Rejected with the reason, and leaves nothing behind; the same
// action again is a Duplicate.
//
// After a retry or a skip the messages that waited are handled, each in a
// transaction of its own. What the process does not live to handle the sweep
// does.
func (s *Store) Act(ctx context.Context, a workflow.Action) (d workflow.Decision, err error) {
	if fault := a.Fault(); fault != "" {
		return workflow.Decision{Outcome: workflow.Rejected, Reason: fault}, nil
	}
	err = s.insist(ctx, func() error {
		m := a.Message()
		found, err := s.load(ctx, &m)
		if err != nil {
			return err
		}
		var handled bool
		if d, handled = s.before(found, m); handled || found.newer != nil {
			return found.newer
		}
		m.Conversation, m.OriginID = found.order.Conversation, found.order.Origin
		if m.ID == "" {
			m.ID = workflow.ActionID(a.OrderID, m.Type, found.revision)
		}
		if a.Kind == workflow.FireDeadline {
			d, err = s.fire(ctx, found, a, m)
		} else {
			d, err = s.act(ctx, found, a, m)
		}
		return err
	})
	if err != nil {
		return workflow.Decision{}, fmt.Errorf("%s %s of order %s: %w", a.Kind, a.Target, a.OrderID, err)
	}
	if d.Outcome != workflow.Applied {
		return d, nil
	}
	switch a.Kind {
	case workflow.RetryMessage, workflow.SkipMessage:
		_, _, _ = s.replay(ctx, a.OrderID, replayMost) // the sweep goes on with it
	case workflow.SendAgain:
		if s.options.Wake != nil {
			s.options.Wake()
		}
	case workflow.DiscardCommand, workflow.FireDeadline:
	}
	return d, nil
}

func (s *Store) act(ctx context.Context, f *found, a workflow.Action, m workflow.Message) (_ workflow.Decision, err error) {
	var fault string
	var does []statement
	switch a.Kind {
	case workflow.RetryMessage, workflow.SkipMessage:
		fault, does = s.unblock(f, a)
	case workflow.SendAgain, workflow.DiscardCommand:
		if f.blockedBy != "" { // the answer, or the news of its death, may wait in the line
			return f.unmoved(m, workflow.Rejected, f.blocked()), nil
		}
		fault, does, err = s.resend(ctx, f, a)
	case workflow.FireDeadline: // is decided by the process
	}
	if err != nil || fault != "" {
		return f.unmoved(m, workflow.Rejected, fault), err
	}
	d := f.unmoved(m, workflow.Applied, a.Words())
	order := s.touch(f, a.OrderID)
	switch {
	case a.Kind == workflow.SendAgain && f.order.Problem != "":
		order, err = s.order(f, f.order.Forgiven(a.Target))
	case a.Kind == workflow.SkipMessage && f.order.Armed == a.Target:
		var rearmed workflow.Order
		rearmed, d.Deadline = f.order.Rearmed(m, a.Target)
		does = append(does, s.settle(a.OrderID, []string{a.Target}),
			s.emit(f.revision+1, []workflow.Emission{{Outgoing: *d.Deadline}}))
		order, err = s.order(f, rearmed)
	}
	if err != nil {
		return workflow.Decision{}, err
	}
	return d, s.engine.write(ctx, append(batch{order, s.journal(f.revision+1, &d)}, does...))
}

// unblock lets an order go on: with the message that blocks it, or without.
func (s *Store) unblock(f *found, a workflow.Action) (fault string, does []statement) {
	switch f.blockedBy {
	case "":
		return "no message blocks the order", nil
	case a.Target:
	default:
		return "the order is blocked by " + f.blockedBy + ", not by that message", nil
	}
	does = []statement{{s.text.block, []any{nil, a.OrderID}, 1}}
	if a.Kind == workflow.SkipMessage {
		skipped := f.unmoved(workflow.Message{Envelope: workflow.Envelope{ID: a.Target, OrderID: a.OrderID}}, workflow.Skipped, a.Words())
		does = append(does, s.takenUp(f.revision+1, 1, &skipped)) // after the action that did it
	}
	return "", does
}

// resend has a command sent again, or closes it.
func (s *Store) resend(ctx context.Context, f *found, a workflow.Action) (fault string, does []statement, err error) {
	var state string
	var sent time.Time
	err = s.engine.read(ctx, question{
		text: s.text.command, args: []any{a.OrderID, a.Target},
		row: func(r row) error { return r.Scan(&state, moment{&sent}) },
	})
	if err != nil {
		return "", nil, err
	}
	if a.Kind == workflow.SendAgain && f.unreadable != "" {
		return f.unreadable, nil, nil
	}
	if fault := a.CommandFault(f.order, state, f.now.Sub(sent), s.duplicateDetection()); fault != "" {
		return fault, nil, nil
	}
	if a.Kind == workflow.DiscardCommand {
		return "", []statement{{s.text.discard, []any{now, s.event(), a.OrderID, a.Target, state}, 1}}, nil
	}
	return "", []statement{{s.text.sendAgain, []any{(f.revision + 1) * seqStep, now, a.OrderID, a.Target, state}, 1}}, nil
}

func (s *Store) duplicateDetection() time.Duration {
	return or(s.options.DuplicateDetection, 10*time.Minute)
}
