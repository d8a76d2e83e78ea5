package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orderflow/workflow"
)

// line is claimed rows that have to be sent one after the other, and then how
// far that got.
type line struct {
	kind  kind
	claim *claim
	pass  pass
	rows  []workflow.Claimed

	sequences []int64 // the numbers of those that were sent
	err       error   // why the one after them was not
}

// Why a row was not sent, besides what the sender says.
var (
	errStopped  = errors.New("the run ended first")
	errPanicked = fmt.Errorf("%w: the sender panicked", workflow.ErrMessageRefused)
)

// lines makes one line of each order's commands. Deadlines go by themselves, so
// that a stuck command never holds back the deadline that will rescue it.
func lines(claimed []workflow.Claimed) []line {
	var all []line
	commandsOf := make(map[string]int) // by order, the line of its commands
	for _, c := range claimed {
		k := kindOf(&c)
		if i, begun := commandsOf[c.OrderID]; begun && k == commands {
			all[i].rows = append(all[i].rows, c)
			continue
		}
		if k == commands {
			commandsOf[c.OrderID] = len(all)
		}
		all = append(all, line{kind: k, rows: []workflow.Claimed{c}})
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

// send sends a line, and learns from it how its topic is: a refusal of the
// message itself is an answer too. Of a run that ended nothing is learnt.
func (d *Dispatcher) send(ctx context.Context, l line) line {
	l.sequences, l.err = d.give(ctx, l.rows)
	switch {
	case errors.Is(l.err, errPanicked):
		d.topics[l.kind].dropped(l.pass)
	case l.err == nil || refused(l.err):
		d.topicWell(ctx, l.kind, l.pass)
	case ctx.Err() != nil:
		l.err = errStopped
		d.topics[l.kind].dropped(l.pass)
	default:
		d.topicIll(ctx, l.kind, l.pass, l.err)
	}
	return l
}

// give has the sender send rows. A sender that panics refuses the message: else
// one that makes it panic would look like trouble of the topic, for ever.
func (d *Dispatcher) give(ctx context.Context, rows []workflow.Claimed) (sequences []int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.sendTimeout())
	defer cancel()
	defer recovered(&err)
	messages := make([]workflow.Outgoing, len(rows))
	for i, c := range rows {
		messages[i] = c.Outgoing
	}
	sequences, err = d.Sender.Send(ctx, messages)
	if err == nil && len(sequences) < len(rows) {
		err = errors.New("the sender did not say what became of it")
	}
	return sequences[:min(len(sequences), len(rows))], err
}

// recovered makes an error of a panic.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w: %v", errPanicked, p)
	}
}

func refused(err error) bool { return errors.Is(err, workflow.ErrMessageRefused) }

// judge says what becomes of the rows of a line: sent, to be tried again, dead,
// or given back because they were not tried.
func (d *Dispatcher) judge(ctx context.Context, l line) (marks []workflow.Mark, dead *workflow.Claimed) {
	for i, c := range l.rows {
		m := workflow.Mark{OrderID: c.OrderID, Seq: c.Seq}
		switch {
		case i < len(l.sequences):
			m.Sent, m.Sequence = true, l.sequences[i]
		case i > len(l.sequences) || errors.Is(l.err, errStopped):
			m.GiveBack = true
		case l.kind == commands && d.final(l.err, c.Refusals+1):
			dead = &c
			continue
		case refused(l.err):
			m = d.refusal(ctx, c, l.err)
		default:
			m.Error, m.RetryAfter = l.err.Error(), d.delay(c.Attempt, restMost)
		}
		marks = append(marks, m)
	}
	return marks, dead
}

// final reports whether the broker's nth refusal of a message is its last.
func (d *Dispatcher) final(err error, refusals int) bool {
	return errors.Is(err, workflow.ErrNeverAccepted) || refused(err) && refusals >= or(d.MaxRefusals, 10)
}

// refusal is the mark of a message that was refused and is tried again.
func (d *Dispatcher) refusal(ctx context.Context, c workflow.Claimed, err error) workflow.Mark {
	m := workflow.Mark{
		OrderID: c.OrderID, Seq: c.Seq,
		Error: err.Error(), Refused: true, RetryAfter: d.delay(c.Refusals+1, retryMost),
	}
	d.Log.LogAttrs(ctx, slog.LevelWarn, "the broker refuses a message", slog.String("messageId", c.ID), slog.String("orderId", c.OrderID),
		slog.Int("refusals", c.Refusals+1), slog.Duration("retryAfter", m.RetryAfter), slog.String("error", m.Error))
	return m
}

// The limits of the delay before a row is tried again. One that failed by its
// topic's trouble waits no longer than the topic may rest.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// delay grows with each attempt, up to a limit, and is spread over its upper
// half so that rows which failed together do not come back together.
func (d *Dispatcher) delay(attempt int, most time.Duration) time.Duration {
	most = grown(retryFirst, most, attempt)
	return most/2 + time.Duration(d.Jitter()*float64(most/2))
}
