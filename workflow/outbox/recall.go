package outbox

import (
	"context"
	"log/slog"

	"orderflow/workflow"
)

// recallMost is how many deadlines are taken back in one run.
const recallMost = 100

// recall takes deadlines back from the broker that nobody wants any more. They
// do no harm when they come, so this comes after all else and is not insisted
// on: what fails is left for the next run, and what the broker refuses to take
// back is let go.
func (d *Dispatcher) recall(ctx context.Context, r *run) {
	recalls, err := d.Rows.Recalls(ctx, recallMost)
	if err != nil && ctx.Err() == nil {
		r.fail(ctx, &d.claims, "outbox rows cannot be claimed", err)
	}
	if err != nil || len(recalls) == 0 {
		return
	}
	most, pass, _ := d.topics[deadlines].admit(len(recalls))
	if most == 0 {
		return
	}
	defer d.topics[deadlines].dropped(pass)
	var done []workflow.Recall
	for _, c := range recalls {
		if !d.topics[deadlines].lets(pass) {
			break
		}
		err := d.cancel(ctx, c.Sequence)
		if ctx.Err() != nil && err != nil {
			break // nothing is learnt of a run that ended
		}
		if err != nil && !refused(err) {
			d.topicIll(ctx, deadlines, pass, err)
			break
		}
		if err != nil {
			d.Log.LogAttrs(ctx, slog.LevelWarn, "the broker refuses to take a deadline back", slog.String("orderId", c.OrderID),
				slog.Int64("sequence", c.Sequence), slog.String("error", err.Error()))
		} else {
			d.topicWell(ctx, deadlines, pass)
		}
		done = append(done, c)
	}
	if len(done) == 0 {
		return
	}
	if err := told(ctx, markTimeout, func(ctx context.Context) error { return d.Rows.Recalled(ctx, done) }); err != nil {
		r.fail(ctx, &d.marks, "outbox rows cannot be marked", err)
	}
}

// cancel has the sender take one deadline back.
func (d *Dispatcher) cancel(ctx context.Context, sequence int64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, d.sendTimeout())
	defer cancel()
	defer recovered(&err)
	return d.Sender.Cancel(ctx, sequence)
}
