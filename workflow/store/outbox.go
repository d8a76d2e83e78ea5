package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"orderflow/workflow"
)

// Claim takes up to most outbox rows that may be sent now, for one owner and
// until the lease ends: of each order's commands the first, and every deadline
// due to be handed over, as far as they are wanted. The token is the owner's and
// must be new each time.
func (s *Store) Claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) (claimed []workflow.Claimed, err error) {
	err = s.insist(ctx, func() (err error) {
		claimed, err = s.claim(ctx, token, want, most, lease)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim outbox rows: %w", err)
	}
	return claimed, nil
}

func (s *Store) claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) (claimed []workflow.Claimed, err error) {
	var unwanted []workflow.Mark // closed since; the next of its order need not wait for the lease
	taken := []any{token, relative(lease), now, int64(most), oneIf(want.Commands), oneIf(want.Deadlines)}
	err = s.engine.write(ctx, batch{{s.text.claim, taken, anyRows}}, question{
		text: s.text.claimed, args: []any{token},
		row: func(r row) error {
			var c workflow.Claimed
			var purpose sql.NullString
			var state string
			err := r.Scan(&c.OrderID, &c.Seq, &c.ID, &c.Type, &c.Conversation, &c.ParentID, &c.OriginID, &c.TraceParent,
				&purpose, moment{&c.DueAt}, &c.Body, &c.Attempt, &c.Refusals, &state)
			if state == workflow.DispatchClosed {
				unwanted = append(unwanted, workflow.Mark{OrderID: c.OrderID, Seq: c.Seq, GiveBack: true})
				return err
			}
			completeDeadline(&c.Outgoing, purpose)
			claimed = append(claimed, c)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	// They are this owner's now, even if it was told to stop meanwhile.
	return claimed, s.Mark(context.WithoutCancel(ctx), token, unwanted)
}

// completeDeadline makes the body of a deadline: its row says when it is due,
// so that is what its body says.
func completeDeadline(out *workflow.Outgoing, purpose sql.NullString) {
	if purpose.Valid {
		out.Purpose = workflow.Purpose(purpose.String)
		out.Body = workflow.DeadlineBody(out.OrderID, out.ID, out.DueAt)
	}
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// Renew makes the lease of all that a token still holds end that much later than
// now, and returns how many rows that is: fewer than it should be when a lease
// was over already.
func (s *Store) Renew(ctx context.Context, token string, lease time.Duration) (held int, err error) {
	err = s.insist(ctx, func() error {
		return s.engine.write(ctx, batch{{s.text.renew, []any{relative(lease), token, now}, anyRows}}, question{
			text: s.text.renewed, args: []any{token, now}, row: func(r row) error { return r.Scan(&held) },
		})
	})
	if err != nil {
		return 0, fmt.Errorf("renew the lease of outbox rows: %w", err)
	}
	return held, nil
}

// errorMost is how much of a row's last error is kept, in bytes.
const errorMost = 2000

// Mark records what became of claimed rows. A mark by an owner whose lease has
// ended changes nothing: the row is another's by then.
func (s *Store) Mark(ctx context.Context, token string, marks []workflow.Mark) error {
	var b batch
	for _, m := range marks {
		var text string
		var args []any
		switch {
		case m.Sent:
			text, args = s.text.markSent, []any{now, nil}
			if m.Sequence != 0 {
				args[1] = m.Sequence
			}
		case m.GiveBack:
			text, args = s.text.giveBack, []any{now}
		default:
			text, args = s.text.markFailed, []any{relative(m.RetryAfter), clipped(m.Error), oneIf(m.Refused)}
		}
		args = append(args, m.OrderID, m.Seq, token, now)
		if m.Sent {
			args = append(args, s.event())
		}
		b = append(b, statement{text, args, anyRows})
	}
	if len(b) == 0 {
		return nil
	}
	if err := s.insist(ctx, func() error { return s.engine.write(ctx, b) }); err != nil {
		return fmt.Errorf("mark outbox rows: %w", err)
	}
	return nil
}

func clipped(text string) string { return strings.ToValidUTF8(text[:min(len(text), errorMost)], "") }

// Bury makes a command dead that its owner gives up, since the broker refuses
// it, and tells its order so in the same transaction. The order goes on waiting
// until its deadline; a dead row is out of its way. If nobody wants the command
// any more it is only given out of hand, for what follows it; nothing happens
// once the owner's lease is over, or to a deadline.
func (s *Store) Bury(ctx context.Context, token string, c workflow.Claimed, reason string) error {
	err := s.insist(ctx, func() error { return s.bury(ctx, token, c, reason) })
	if err != nil {
		return fmt.Errorf("give up %s: %w", c.ID, err)
	}
	return nil
}

func (s *Store) bury(ctx context.Context, token string, c workflow.Claimed, reason string) error {
	deaths := -1
	err := s.engine.read(ctx, question{
		text: s.text.deaths, args: []any{c.OrderID, c.Seq, token, now},
		row: func(r row) error { return r.Scan(&deaths) },
	})
	switch {
	case err != nil, deaths < 0 && c.Purpose != "":
		return err
	case deaths < 0:
		return s.Mark(ctx, token, []workflow.Mark{{OrderID: c.OrderID, Seq: c.Seq, Error: reason, Refused: true}})
	}
	m, err := workflow.Envelope{
		ID: workflow.DeathID(c.ID, deaths+1), Type: workflow.DispatchFailed, OrderID: c.OrderID, Conversation: c.Conversation,
		ParentID: c.ID, OriginID: c.OriginID, TraceParent: c.TraceParent,
		Body: workflow.DeathBody(c.OrderID, c.ID, reason),
	}.Decode()
	if err != nil {
		return err
	}
	_, err = s.handle(ctx, m, statement{s.text.bury, []any{clipped(reason), now, s.event(), c.OrderID, c.Seq, token, now}, 1})
	return err
}

// Recalls lists deadlines that nobody wants any more and that the broker holds,
// those due first first.
func (s *Store) Recalls(ctx context.Context, most int) (all []workflow.Recall, err error) {
	err = s.engine.read(ctx, question{text: s.text.recalls, args: []any{now, int64(most)}, row: func(r row) error {
		var c workflow.Recall
		err := r.Scan(&c.OrderID, &c.Seq, &c.Sequence)
		all = append(all, c)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list deadlines to be cancelled at the broker: %w", err)
	}
	return all, nil
}

// Recalled records that deadlines were cancelled at the broker, or that it does
// not have them any more.
func (s *Store) Recalled(ctx context.Context, done []workflow.Recall) error {
	var b batch
	for _, c := range done {
		b = append(b, statement{s.text.recalled, []any{c.OrderID, c.Seq}, anyRows})
	}
	if len(b) == 0 {
		return nil
	}
	if err := s.insist(ctx, func() error { return s.engine.write(ctx, b) }); err != nil {
		return fmt.Errorf("mark deadlines as cancelled: %w", err)
	}
	return nil
}
