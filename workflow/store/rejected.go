package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"orderflow/workflow"
)

// Rejections lists rejected messages that nobody settled since they last came,
// those that came last for the first time first. They are without their bodies.
func (s *Store) Rejections(ctx context.Context, top int, after string) (page workflow.Page[workflow.Refused], err error) {
	p := filling[workflow.Refused]{list: "rejections"}
	if p.top, err = topOf(top); err != nil {
		return page, fmt.Errorf("list rejected messages: %w", err)
	}
	begin, err := cursorOf(p.list, after, cursor{At: farOff})
	if err != nil {
		return page, fmt.Errorf("list rejected messages: %w", err)
	}
	err = s.engine.read(ctx, question{text: s.text.rejections, args: []any{begin.At, begin.ID, int64(p.top + 1)}, row: func(r row) error {
		m, err := scanRefused(r)
		p.add(m, cursor{At: m.FirstAt, ID: m.ID})
		return err
	}})
	if err != nil {
		return page, fmt.Errorf("list rejected messages: %w", err)
	}
	return p.page, nil
}

// Rejection reads a rejected message with its body, settled or not. The error
// wraps workflow.ErrNoMessage when none is kept under this ID.
func (s *Store) Rejection(ctx context.Context, id string) (m workflow.Refused, err error) {
	if len(id) != rejectionIDLength { // SQL Server would not look at the rest
		return m, fmt.Errorf("read the rejected message %.80q: %w", id, workflow.ErrNoMessage)
	}
	err = s.engine.read(ctx, question{text: s.text.rejection, args: []any{id}, row: func(r row) (err error) {
		var body []byte
		m, err = scanRefused(r, &body)
		m.Body = body
		return err
	}})
	if err == nil && m.ID == "" {
		err = workflow.ErrNoMessage
	}
	if err != nil {
		return workflow.Refused{}, fmt.Errorf("read the rejected message %.80q: %w", id, err)
	}
	return m, nil
}

// scanRefused reads a rejected message, and the columns behind it.
func scanRefused(r row, behind ...any) (m workflow.Refused, err error) {
	var how, by, reason sql.NullString
	var settled bool
	err = r.Scan(append([]any{
		&m.ID, &m.OrderID, &m.Envelope.ID, &m.Type, &m.Conversation, &m.ParentID, &m.OriginID, &m.Schema, &m.TraceParent,
		&m.Fingerprint, &m.Size, &m.Reason, &m.Delivery.Function, &m.Delivery.Count, moment{&m.FirstAt}, moment{&m.LastAt}, &m.Times,
		&settled, &how, moment{&m.Settled.At}, &by, &reason,
	}, behind...)...)
	m.Open, m.Settled.How, m.Settled.By, m.Settled.Reason = !settled, how.String, by.String, reason.String
	return m, err
}

// Discard gives up a rejected message: a person looked at it, and it is not
// listed any more, unless it comes again. It is deleted by a sweep when the
// retention has passed.
//
// The same asked twice, also by someone else, is done once, by who was first.
// The error wraps workflow.ErrNoMessage when no such message is kept, and
// workflow.ErrSettled when it was resubmitted.
func (s *Store) Discard(ctx context.Context, id, actor, reason string) error {
	return s.settleRejected(ctx, id, workflow.Settlement{How: workflow.SettledByDiscard, By: actor, Reason: reason})
}

// Resubmitted records that a rejected message was handled after all: whoever has
// it handled, by Handle, says so here once it was not rejected again. In all else
// it is like Discard, whose errors it returns.
func (s *Store) Resubmitted(ctx context.Context, id, actor, reason string) error {
	return s.settleRejected(ctx, id, workflow.Settlement{How: workflow.SettledByResubmit, By: actor, Reason: reason})
}

func (s *Store) settleRejected(ctx context.Context, id string, as workflow.Settlement) error {
	err := s.insist(ctx, func() error { return s.settleOnce(ctx, id, as) })
	if err != nil {
		return fmt.Errorf("the rejected message %.80q is to be %s: %w", id, as.How, err)
	}
	return nil
}

// settleOnce returns errConflict when the message was settled, or came again,
// just now.
func (s *Store) settleOnce(ctx context.Context, id string, as workflow.Settlement) error {
	if as.Reason == "" {
		return fmt.Errorf("%w: the reason is missing", workflow.ErrBadInput)
	}
	m, err := s.Rejection(ctx, id)
	switch {
	case err != nil:
		return err
	case m.Open:
		return s.engine.write(ctx, batch{{s.text.settleRejected, []any{id, as.How, now, as.By, as.Reason, s.event()}, 1}})
	case m.Settled.How != as.How:
		return fmt.Errorf("%w: it was %s", workflow.ErrSettled, m.Settled.Words())
	}
	return nil
}

// forgetSettled deletes rejected messages that were settled long ago.
func (s *Store) forgetSettled(ctx context.Context, done *workflow.Swept) error {
	before := relative(-s.retention())
	var b batch
	err := s.engine.read(ctx, question{
		text: s.text.settledLong, args: []any{before, int64(sweepRows), oneIf(s.options.Audit)},
		row: func(r row) error {
			var id string
			err := r.Scan(&id)
			b = append(b, statement{s.text.forget, []any{id, before}, anyRows})
			return err
		},
	})
	if err != nil || len(b) == 0 {
		return err
	}
	if err := s.insist(ctx, func() error { return s.engine.write(ctx, b) }); err != nil {
		return err
	}
	done.Settled = len(b)
	done.More = done.More || len(b) == sweepRows
	return nil
}

func (s *Store) retention() time.Duration { return or(s.options.Retention, 30*24*time.Hour) }
