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
// due to be handed over. The token is the owner's and must be new each time.
func (s *Store) Claim(ctx context.Context, token string, most int, lease time.Duration) ([]workflow.Claimed, error) {
	for try := 1; ; try++ {
		claimed, err := s.claim(ctx, token, most, lease)
		if err == nil {
			return claimed, nil
		}
		if err := overtaken(ctx, err, try); err != nil {
			return nil, fmt.Errorf("claim outbox rows: %w", err)
		}
	}
}

func (s *Store) claim(ctx context.Context, token string, most int, lease time.Duration) (claimed []workflow.Claimed, err error) {
	var unwanted []workflow.Mark // closed since; the next of its order need not wait for the lease
	err = s.engine.write(ctx, batch{{s.text.claim, []any{token, relative(lease), now, int64(most)}, anyRows}}, question{
		text: s.text.claimed, args: []any{token},
		row: func(r row) error {
			var c workflow.Claimed
			var purpose sql.NullString
			var state string
			err := r.Scan(&c.OrderID, &c.Seq, &c.ID, &c.Type, &c.Conversation, &c.ParentID, &c.OriginID, &c.TraceParent,
				&purpose, moment{&c.DueAt}, &c.Body, &c.Attempt, &state)
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
			text, args = s.text.markFailed, []any{relative(m.RetryAfter), strings.ToValidUTF8(m.Error[:min(len(m.Error), errorMost)], "")}
		}
		b = append(b, statement{text, append(args, m.OrderID, m.Seq, token, now), anyRows})
	}
	if len(b) == 0 {
		return nil
	}
	for try := 1; ; try++ {
		err := s.engine.write(ctx, b)
		if err == nil {
			return nil
		}
		if err := overtaken(ctx, err, try); err != nil {
			return fmt.Errorf("mark outbox rows: %w", err)
		}
	}
}
