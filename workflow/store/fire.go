package store

import (
	"context"

	"orderflow/workflow"
)

// FireDeadline has the armed deadline of an order handled as if it were due: in
// the operator's commit, through the process, and in the journal as two
// messages, the action and then the deadline that it caused. The deadline's own
// MessageId is taken by that, so the broker's copy is a duplicate when it comes.
// The decision is what became of the order.
//
// It is refused when no deadline is armed, when another is than the action means,
// and while messages wait in the order's line: they come first.
func (s *Store) FireDeadline(ctx context.Context, a workflow.Action) (workflow.Decision, error) {
	a.Kind = workflow.FireDeadline
	return s.Act(ctx, a)
}

func (s *Store) fire(ctx context.Context, f *found, a workflow.Action, m workflow.Message) (workflow.Decision, error) {
	refused := func(why string) (workflow.Decision, error) {
		return f.unmoved(m, workflow.Rejected, why), nil
	}
	switch {
	case f.blockedBy != "":
		return refused("the order is blocked by " + f.blockedBy + ": retry or skip that message first")
	case f.line:
		return refused("messages wait in the order's line, which are handled first")
	case f.unreadable != "":
		return refused(f.unreadable)
	}
	if fault := a.DeadlineFault(f.order); fault != "" {
		return refused(fault)
	}
	deadline, err := f.order.Fired(m, f.dueAt)
	if err != nil {
		return refused("the deadline cannot be made: " + err.Error())
	}
	result, poison := s.apply(f, deadline)
	if poison.is(deadline) {
		return refused("it cannot be handled: " + poison.why)
	}
	d := result.Decisions[0]
	if d.Outcome != workflow.Applied {
		return refused(d.Reason)
	}
	action := f.unmoved(m, workflow.Applied, a.Words())
	f.action = &action
	b, err := s.commit(f, result, poison)
	if err != nil {
		return workflow.Decision{}, err
	}
	// A copy that came before it was armed, as after the database was put back.
	b = append(batch{{s.text.giveUpID, []any{deadline.OrderID, deadline.ID}, anyRows}}, b...)
	if err := s.engine.write(ctx, b); err != nil {
		return workflow.Decision{}, err
	}
	if s.options.Wake != nil && len(result.Emissions()) > 0 {
		s.options.Wake()
	}
	d.Message, d.Reason = m, action.Reason+"; "+d.Reason
	if poison.id != "" {
		d.Trouble = poison.trouble()
	}
	return d, nil
}
