package outbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"orderflow/workflow"
)

// markTimeout bounds what is told to the table, which goes on after a run was
// told to stop.
const markTimeout = 5 * time.Second

// claim is rows of which no other dispatcher has any, as long as its lease can
// be shown to hold.
type claim struct {
	token string
	out   int             // rows of which it is not recorded what became of them
	lost  bool            // a renewal failed, or showed that others have rows of it
	over  <-chan struct{} // closed when the lease cannot be shown to hold any more
}

// holds reports whether something of the claim may be begun.
func (c *claim) holds() bool {
	select {
	case <-c.over:
		return false
	default:
		return !c.lost
	}
}

// lapse is closed a little before a lease ends that is asked for after this.
func (d *Dispatcher) lapse() <-chan struct{} {
	over := make(chan struct{})
	time.AfterFunc(d.lease()*9/10, func() { close(over) })
	return over
}

// renew makes all leases longer. It is done where rows are marked as well, so
// how many a claim has to have is known exactly. A claim that was lost is
// renewed too, for what is still under way.
func (r *run) renew(ctx context.Context) {
	for c := range r.held {
		over := r.lapse() // counted from before it asks
		var held int
		err := told(ctx, min(markTimeout, r.lease()/3), func(ctx context.Context) (err error) {
			held, err = r.Rows.Renew(ctx, c.token, r.lease())
			return err
		})
		switch {
		case err == nil && held >= c.out:
			c.over = over
		case c.lost:
		case err != nil:
			c.lost = true
			r.Log.LogAttrs(ctx, slog.LevelWarn, "a lease was not renewed", slog.Int("rows", c.out), slog.String("error", err.Error()))
		default:
			c.lost = true
			r.Log.LogAttrs(ctx, slog.LevelWarn, "a lease was lost", slog.Int("rows", c.out), slog.Int("held", held))
		}
	}
}

// mark records what became of rows. What was sent is marked even if the run has
// to end: else it is sent again.
func (r *run) mark(ctx context.Context, marks map[*claim][]workflow.Mark) {
	for c, marks := range marks {
		if len(marks) == 0 {
			continue
		}
		err := r.insist(ctx, c, func(ctx context.Context) error { return r.Rows.Mark(ctx, c.token, marks) })
		r.marked(c, len(marks))
		if err != nil {
			r.fail(ctx, &r.marks, "outbox rows cannot be marked", err)
			continue
		}
		r.well(ctx, &r.marks, r.marks.now(), "outbox rows can be marked again")
	}
}

// insist tells the table something about a claim, again while the lease lasts if
// the table is away: what was sent and is not marked stays claimed until then,
// and is sent again.
func (r *run) insist(ctx context.Context, c *claim, tell func(context.Context) error) error {
	for {
		err := told(ctx, markTimeout, tell)
		if !errors.Is(err, workflow.ErrTransient) {
			return err
		}
		r.ill(ctx, &r.marks, r.marks.now(), "outbox rows cannot be marked", err)
		pause := time.NewTimer(restFirst)
		select {
		case <-pause.C:
			continue
		case <-c.over:
		case <-ctx.Done():
		}
		pause.Stop()
		return err
	}
}

// bury makes a command dead and tells its order. If that cannot be done now, it
// was refused once more.
func (r *run) bury(ctx context.Context, l line, c workflow.Claimed) {
	attrs := []slog.Attr{
		slog.String("messageId", c.ID), slog.String("orderId", c.OrderID),
		slog.Int("refusals", c.Refusals+1), slog.String("error", l.err.Error()),
	}
	err := told(ctx, markTimeout, func(ctx context.Context) error { return r.Rows.Bury(ctx, l.claim.token, c, l.err.Error()) })
	if err != nil {
		r.Log.LogAttrs(ctx, slog.LevelError, "a command that the broker refuses for good could not be made dead",
			append(attrs, slog.String("because", err.Error()))...)
		r.mark(ctx, map[*claim][]workflow.Mark{l.claim: {r.refusal(ctx, c, l.err)}})
		return
	}
	r.marked(l.claim, 1)
	r.Log.LogAttrs(ctx, slog.LevelError, "a command is dead: the broker refuses it for good", attrs...)
}

// marked counts rows off a claim.
func (r *run) marked(c *claim, rows int) {
	if c.out -= rows; c.out <= 0 {
		delete(r.held, c)
	}
}

// told tells the table something, in bounded time, even if ctx ended.
func told(ctx context.Context, most time.Duration, tell func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer cancel()
	return tell(ctx)
}
