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

func (s *Store) fire(ctx context.Context, a workflow.Action) (workflow.Decision, error) {
	m := a.Message()
	found, err := s.load(ctx, &m)
	if err != nil {
		return workflow.Decision{}, err
	}
	if d, handled := s.before(found, m); handled || found.newer != nil {
		return d, found.newer
	}
	m.Conversation, m.OriginID = found.order.Conversation, found.order.Origin
	if m.ID == "" {
		m.ID = workflow.ActionID(a.OrderID, m.Type, found.revision)
	}
	refused := func(why string) (workflow.Decision, error) {
		return found.unmoved(m, workflow.Rejected, why), nil
	}
	switch {
	case found.blockedBy != "":
		return refused("the order is blocked by " + found.blockedBy + ": retry or skip that message first")
	case found.line:
		return refused("messages wait in the order's line, which are handled first")
	case found.unreadable != "":
		return refused(found.unreadable)
	}
	if fault := a.DeadlineFault(found.order); fault != "" {
		return refused(fault)
	}
	deadline, err := found.order.Fired(m, found.dueAt)
	if err != nil {
		return refused("the deadline cannot be made: " + err.Error())
	}
	result, poison := s.apply(found, deadline)
	if poison.is(deadline) {
		return refused("it cannot be handled: " + poison.why)
	}
	d := result.Decisions[0]
	if d.Outcome != workflow.Applied {
		return refused(d.Reason)
	}
	action := found.unmoved(m, workflow.Applied, a.Words())
	found.action = &action
	b, err := s.commit(found, result, poison)
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
