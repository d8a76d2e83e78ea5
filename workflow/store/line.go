package store

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"orderflow/workflow"
)

// An order's line is what became of the broker's session when a message of it
// could not be handled: that message blocks the order, and those that come after
// it wait behind it, in order, until a person has it retried or skipped. Then
// they are handled first in, first out; what comes meanwhile goes to the end.

// poison is a message that cannot be handled, and why; zero for none. stack is
// where it panicked, if it did.
type poison struct{ id, why, stack string }

// trouble tells that an early message blocks its order.
func (p poison) trouble() string {
	return "the order is blocked by " + p.id + ": " + p.why + "\n" + p.stack
}

func (p poison) is(m workflow.Message) bool { return p.id != "" && p.id == m.ID }

// inLine reports whether the message that was loaded for waits in the line.
func (f *found) inLine() bool { return f.outcome == workflow.Blocked }

// attempt has the process decide. If it panics, failed is a poison without an
// ID; else it is nil.
func (s *Store) attempt(o workflow.Order, m workflow.Message, held []workflow.Message) (r workflow.Result, failed *poison) {
	defer func() {
		if p := recover(); p != nil {
			failed = &poison{why: fmt.Sprintf("panic: %v", p), stack: string(debug.Stack())}
		}
	}()
	if s.options.Apply != nil {
		return s.options.Apply(o, m, held), nil
	}
	return workflow.Apply(o, m, held), nil
}

// of is the poison that a message is.
func (p *poison) of(m workflow.Message) poison { return poison{m.ID, p.why, p.stack} }

// apply has the process decide about a message and the early ones that it makes
// acceptable. One that cannot be decided about is returned: the message itself,
// and nothing is decided; or an early one, and what was decided up to it is.
func (s *Store) apply(f *found, m workflow.Message) (workflow.Result, poison) {
	if f.unreadable != "" {
		return workflow.Result{}, poison{id: m.ID, why: f.unreadable}
	}
	result, failed := s.attempt(f.order, m, f.held)
	switch {
	case failed != nil && len(f.held) == 0:
		return result, failed.of(m)
	case failed != nil:
		return s.applySingly(f, m)
	case result.Decisions[0].Outcome == workflow.Applied:
		return result, f.unread
	}
	return result, poison{}
}

// applySingly is workflow.Apply one message at a time (rule 11 of
// docs/process.md), to see which it is that fails: an early one may only do so
// once a younger one was taken up.
func (s *Store) applySingly(f *found, m workflow.Message) (workflow.Result, poison) {
	result, failed := s.attempt(f.order, m, nil)
	if failed != nil {
		return workflow.Result{}, failed.of(m)
	}
	if result.Decisions[0].Outcome != workflow.Applied {
		return result, poison{}
	}
	held := slices.Clone(f.held)
	for i := 0; i < len(held); {
		next, failed := s.attempt(result.Order, held[i], nil)
		if failed != nil {
			return result, failed.of(held[i])
		}
		d := next.Decisions[0]
		if d.Outcome == workflow.Held {
			i++
			continue
		}
		result.Order, result.Decisions = next.Order, append(result.Decisions, d)
		held = slices.Delete(held, i, i+1)
		if d.Outcome == workflow.Applied {
			i = 0
		}
	}
	return result, f.unread
}

// block writes that an early message blocks its order. It and those after it
// are put in the line; those before it were looked at and go on being early.
func (s *Store) block(orderID string, p poison) batch {
	return batch{
		{s.text.line, []any{"it waits behind " + p.id + ", which blocks the order", orderID, p.id, now, s.event()}, anyRows},
		s.blame(clipped(p.why), orderID, p.id),
		{s.text.block, []any{p.id, orderID}, 1},
	}
}

// Hold keeps a message that could not be handled, with why, and has its order
// wait behind it. Of the message its identity, bytes and delivery are enough. It
// is a duplicate if it was handled meanwhile.
func (s *Store) Hold(ctx context.Context, m workflow.Message, why string) (d workflow.Decision, err error) {
	err = s.insist(ctx, func() error {
		found, err := s.load(ctx, &m)
		if err != nil {
			return err
		}
		if found.outcome != "" && !found.strayed(m) {
			d = found.unmoved(m, workflow.Duplicate, "it was handled before: "+string(found.outcome))
			return nil
		}
		d, err = s.hold(ctx, found, m, poison{id: m.ID, why: why}, nil)
		return err
	})
	if err != nil {
		return workflow.Decision{}, fmt.Errorf("hold %s %s of order %s: %w", m.Type, m.ID, m.OrderID, err)
	}
	return d, nil
}

// hold has a message block its order, or wait behind the one that does.
func (s *Store) hold(ctx context.Context, f *found, m workflow.Message, p poison, also []statement) (workflow.Decision, error) {
	if f.line && !f.inLine() {
		return s.enqueue(ctx, f, m, also)
	}
	d := f.unmoved(m, workflow.Blocked, clipped(p.why))
	d.Trouble = "the order is blocked by it"
	if p.stack != "" {
		d.Trouble = p.stack
	}
	b := append(s.waits(f, &d), statement{s.text.block, []any{m.ID, m.OrderID}, 1})
	return d, s.engine.write(ctx, append(b, also...))
}

// replayMost is how many messages of a line are handled at a time.
const replayMost = 100

// enqueue puts a message at the end of its order's line. Unless a message blocks
// it, the line is handled at once.
func (s *Store) enqueue(ctx context.Context, f *found, m workflow.Message, also []statement) (workflow.Decision, error) {
	if f.blockedBy != "" && m.Type.Action() {
		d := f.unmoved(m, workflow.Rejected, f.blocked())
		return d, s.engine.write(ctx, s.reject(rejection(m, d.Reason)))
	}
	reason := "it waits behind messages that are handled first"
	if f.blockedBy != "" {
		reason = "it waits behind " + f.blockedBy + ", which blocks the order"
	}
	d := f.unmoved(m, workflow.Blocked, reason)
	if err := s.engine.write(ctx, append(s.waits(f, &d), also...)); err != nil {
		return d, err
	}
	if f.blockedBy == "" {
		_, _, _ = s.replay(ctx, m.OrderID, replayMost) // the sweep goes on with it
	}
	return d, nil
}

// blocked says why nothing else can be done with an order, and what to do.
func (f *found) blocked() string {
	return "the order is blocked by " + f.blockedBy + ": retry or skip that message first"
}

// waits writes that a message waits in its order's line: the order's row at the
// revision that was loaded, and the journal.
func (s *Store) waits(f *found, d *workflow.Decision) batch {
	m := &d.Message
	switch {
	case f.inLine(): // it keeps its place
		return batch{s.touch(f, m.OrderID), s.blame(d.Reason, m.OrderID, m.ID)}
	case f.revision == 0:
		return batch{
			{s.text.insertOrder, []any{m.OrderID, int64(0), string(workflow.NotStarted), emptyState, now, now, now}, 1},
			s.journal(1, d),
		}
	}
	b := batch{s.touch(f, m.OrderID)}
	if f.strayed(*m) {
		b = append(b, s.giveUpID(m))
	}
	return append(b, s.journal(f.revision+1, d))
}

// blame writes why a message waits in its order's line.
func (s *Store) blame(why, orderID, messageID string) statement {
	return statement{s.text.blame, []any{why, now, s.event(), orderID, messageID}, 1}
}

// emptyState is the state of an order of which nothing is known.
const emptyState = `{"schema":1,"order":{}}`

// touch moves the revision of an order whose state stays as it is, even if it
// cannot be read.
func (s *Store) touch(f *found, orderID string) statement {
	return statement{s.text.touchOrder, []any{now, orderID, f.revision}, 1}
}

// replay handles messages of an order's line, the first first, unless one blocks
// it: each in a transaction of its own. It returns how many were handled, and
// whether more wait that may be.
func (s *Store) replay(ctx context.Context, orderID string, most int) (n int, more bool, err error) {
	for ; n < most; n++ {
		var handled bool
		err := s.insist(ctx, func() (err error) {
			handled, err = s.replayFirst(ctx, orderID)
			return err
		})
		if err != nil {
			return n, true, fmt.Errorf("handle the line of order %s: %w", orderID, err)
		}
		if !handled {
			return n, false, nil
		}
	}
	return n, true, nil
}

// replayFirst handles the first message of an order's line. It reports false
// when there is none, or none may be: what failed blocks the order again.
func (s *Store) replayFirst(ctx context.Context, orderID string) (handled bool, err error) {
	var first workflow.Envelope
	var revision int64
	err = s.engine.read(ctx, question{text: s.text.first, args: []any{orderID}, row: func(r row) (err error) {
		first, err = scanEnvelope(r, orderID, &revision)
		return err
	}})
	if err != nil || first.ID == "" {
		return false, err
	}
	m, unread := first.Decode()
	if unread != nil {
		m = workflow.Message{Envelope: first}
	}
	found, err := s.load(ctx, &m)
	if err != nil {
		return false, err
	}
	if found.revision != revision || !found.inLine() {
		return false, errConflict
	}
	var d workflow.Decision
	if unread != nil {
		d, err = s.hold(ctx, found, m, unreadable(m.Envelope, unread), nil)
	} else {
		d, err = s.decide(ctx, found, m, nil)
	}
	return err == nil && d.Outcome != workflow.Blocked, err
}

// unreadable is the poison that a kept message is when it cannot be read, sound
// as it was when it came.
func unreadable(e workflow.Envelope, err error) poison {
	return poison{id: e.ID, why: "what was kept of it cannot be read: " + err.Error()}
}

// unwritten is the poison that a message is when the database refuses what was
// decided about it.
func unwritten(m workflow.Message, err error) poison {
	return poison{id: m.ID, why: "what was decided could not be written: " + err.Error()}
}
