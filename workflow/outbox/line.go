package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orderflow/workflow"
)

// line is claimed rows that have to be sent one after the other, and then what
// became of each.
type line struct {
	token string
	over  <-chan struct{} // closed when it is too late to begin to send
	rows  []workflow.Claimed
	marks []workflow.Mark
}

// sent is how many of a line's rows were sent.
func (l *line) sent() (n int) {
	for _, m := range l.marks {
		if m.Sent {
			n++
		}
	}
	return n
}

// lines makes one line of each order's commands. Deadlines go by themselves, so
// that a stuck command never holds back the deadline that will rescue it.
func lines(claimed []workflow.Claimed) []line {
	var all []line
	commands := make(map[string]int) // by order, the line of its commands
	for _, c := range claimed {
		i, begun := commands[c.OrderID]
		if c.Purpose == "" && begun {
			all[i].rows = append(all[i].rows, c)
			continue
		}
		if c.Purpose == "" {
			commands[c.OrderID] = len(all)
		}
		all = append(all, line{rows: []workflow.Claimed{c}})
	}
	return all
}

// gather adds the lines that are done by now to one that is.
func gather(l line, done <-chan line) []line {
	finished := []line{l}
	for {
		select {
		case l := <-done:
			finished = append(finished, l)
		default:
			return finished
		}
	}
}

// send sends one line and says what became of each row: sent, failed, or given
// back because it was not tried, or because the run ended first.
func (d *Dispatcher) send(ctx context.Context, l line) line {
	var sequences []int64
	var err error
	tooLate := ctx.Err() != nil
	select {
	case <-l.over:
		tooLate = true
	default:
	}
	if !tooLate {
		sequences, err = d.give(ctx, l.rows)
	}
	for i, c := range l.rows {
		m := workflow.Mark{OrderID: c.OrderID, Seq: c.Seq}
		switch {
		case i < len(sequences):
			m.Sent, m.Sequence = true, sequences[i]
		case i == len(sequences) && !tooLate && ctx.Err() == nil:
			m.Error, m.RetryAfter = err.Error(), d.delay(c.Attempt)
			d.Log.LogAttrs(ctx, slog.LevelWarn, "not sent", slog.String("messageId", c.ID), slog.String("orderId", c.OrderID),
				slog.Int("attempt", c.Attempt), slog.Duration("retryAfter", m.RetryAfter), slog.String("error", m.Error))
		default:
			m.GiveBack = true
		}
		l.marks = append(l.marks, m)
	}
	return l
}

// give has the sender send rows. A sender that panics has failed.
func (d *Dispatcher) give(ctx context.Context, rows []workflow.Claimed) (sequences []int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.sendTimeout())
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			sequences, err = nil, fmt.Errorf("the sender panicked: %v", p)
		}
	}()
	messages := make([]workflow.Outgoing, len(rows))
	for i, c := range rows {
		messages[i] = c.Outgoing
	}
	sequences, err = d.Sender.Send(ctx, messages)
	if err == nil && len(sequences) < len(rows) {
		err = errors.New("the sender did not say what became of it")
	}
	return sequences, err
}

// The limits of the delay before a row is tried again.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// delay grows with each attempt, up to a limit, and is spread over its upper
// half so that rows which failed together do not come back together.
func (d *Dispatcher) delay(attempt int) time.Duration {
	most := retryMost
	if attempt < 10 {
		most = min(retryFirst<<max(attempt-1, 0), retryMost)
	}
	return most/2 + time.Duration(d.Jitter()*float64(most/2))
}
