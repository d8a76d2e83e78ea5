// Package outbox gives what orders decided to send to the broker: at least
// once, each order's commands in the order of their commits, one order never
// waiting for another.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"orderflow/workflow"
)

// Rows is the outbox table.
type Rows interface {
	// Claim takes rows that may be sent now, until the lease ends.
	Claim(ctx context.Context, token string, most int, lease time.Duration) ([]workflow.Claimed, error)
	// Mark records what became of them; it changes nothing once the lease is
	// over.
	Mark(ctx context.Context, token string, marks []workflow.Mark) error
}

// Sender gives messages to the broker.
type Sender interface {
	// Send gives messages of one order and of one kind, commands or deadlines,
	// to the broker, in order. It returns the sequence number of each that was
	// accepted, 0 where there is none; the error is about the one after them
	// and wraps workflow.ErrMessageRefused if the broker refuses the message
	// itself.
	Send(ctx context.Context, messages []workflow.Outgoing) (sequences []int64, err error)
}

// Dispatcher drains the outbox. Several may run at once, in one process or
// many: rows are claimed.
type Dispatcher struct {
	Rows   Rows
	Sender Sender
	Log    *slog.Logger
	// Token makes a new claim's token; no two may be equal.
	Token func() string
	// Jitter returns a number in [0,1) by which delays are spread.
	Jitter func() float64
	// Budget bounds one run. Zero means 45 seconds.
	Budget time.Duration
	// Batch is how many rows are claimed at a time. Zero means 100.
	Batch int
	// Parallel is how many orders are sent for at once. Zero means 16.
	Parallel int
	// Lease is how long a claim holds. Zero means one minute.
	Lease time.Duration
	// SendTimeout bounds one send. Zero means 10 seconds.
	SendTimeout time.Duration
}

// The limits of the delay before a row is tried again.
const (
	retryFirst = time.Second
	retryMost  = 5 * time.Minute
)

// Drain sends what waits until nothing is left, the budget is spent, or the
// broker does not answer. It returns how many messages were sent and whether
// more may be waiting; the error is about the outbox itself. A message that
// could not be sent is no error of Drain: its row says when it is tried again.
func (d *Dispatcher) Drain(ctx context.Context) (sent int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, or(d.Budget, 45*time.Second))
	defer cancel()
	for {
		n, ok, err := d.round(ctx)
		sent += n.sent
		switch {
		case err != nil && ctx.Err() != nil:
			return sent, true, nil // the budget is spent
		case err != nil:
			return sent, true, fmt.Errorf("drain the outbox: %w", err)
		case n.claimed == 0:
			return sent, false, nil
		case !ok || ctx.Err() != nil:
			return sent, true, nil
		}
	}
}

// count is what a round did.
type count struct{ claimed, sent int }

// round claims, sends and marks once. It is not ok when nothing got through:
// then the broker is given a rest until the next run.
func (d *Dispatcher) round(ctx context.Context) (n count, ok bool, err error) {
	token := d.Token()
	claimed, err := d.Rows.Claim(ctx, token, or(d.Batch, 100), or(d.Lease, time.Minute))
	if err != nil || len(claimed) == 0 {
		return n, true, err
	}
	n.claimed = len(claimed)

	var (
		mu      sync.Mutex
		marks   []workflow.Mark
		wg      sync.WaitGroup
		workers = make(chan struct{}, or(d.Parallel, 16))
	)
	for _, line := range lines(claimed) {
		workers <- struct{}{}
		wg.Go(func() {
			defer func() { <-workers }()
			done := d.send(ctx, line)
			mu.Lock()
			defer mu.Unlock()
			marks = append(marks, done...)
		})
	}
	wg.Wait()
	for _, m := range marks {
		if m.Sent {
			n.sent++
		}
	}
	// What was sent is marked even if the run has to end: else it is sent again.
	err = d.Rows.Mark(context.WithoutCancel(ctx), token, marks)
	return n, n.sent > 0, err
}

// lines splits claimed rows, which come ordered, into what has to be sent one
// after the other: an order's commands. Deadlines go by themselves, so that a
// stuck command never holds back the deadline that will rescue it.
func lines(claimed []workflow.Claimed) [][]workflow.Claimed {
	var all [][]workflow.Claimed
	for i, c := range claimed {
		last := len(all) - 1
		if i > 0 && c.Purpose == "" && all[last][0].Purpose == "" && all[last][0].OrderID == c.OrderID {
			all[last] = append(all[last], c)
			continue
		}
		all = append(all, []workflow.Claimed{c})
	}
	return all
}

// send sends one line and says what became of each row: sent, failed, or not
// tried because one before it failed.
func (d *Dispatcher) send(ctx context.Context, line []workflow.Claimed) []workflow.Mark {
	ctx, cancel := context.WithTimeout(ctx, or(d.SendTimeout, 10*time.Second))
	defer cancel()
	messages := make([]workflow.Outgoing, len(line))
	for i, c := range line {
		messages[i] = c.Outgoing
	}
	sequences, err := d.Sender.Send(ctx, messages)
	if err == nil && len(sequences) < len(line) {
		err = errors.New("the sender did not say what became of it")
	}
	marks := make([]workflow.Mark, len(line))
	for i, c := range line {
		m := workflow.Mark{OrderID: c.OrderID, Seq: c.Seq}
		switch {
		case i < len(sequences):
			m.Sent, m.Sequence = true, sequences[i]
		case i == len(sequences):
			m.Error, m.RetryAfter = err.Error(), d.delay(c.Attempt)
			d.Log.LogAttrs(ctx, slog.LevelWarn, "not sent", slog.String("messageId", c.ID), slog.String("orderId", c.OrderID),
				slog.Int("attempt", c.Attempt), slog.Duration("retryAfter", m.RetryAfter), slog.String("error", m.Error))
		default:
			m.GiveBack = true
		}
		marks[i] = m
	}
	return marks
}

// delay grows with each attempt, up to a limit, and is spread over its upper
// half so that rows which failed together do not come back together.
func (d *Dispatcher) delay(attempt int) time.Duration {
	most := retryMost
	if attempt < 10 {
		most = min(retryFirst<<(attempt-1), retryMost)
	}
	return most/2 + time.Duration(d.Jitter()*float64(most/2))
}

// Run drains whenever it is woken, until ctx ends. Wakes that come during a run
// are one.
func (d *Dispatcher) Run(ctx context.Context, wake <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		if _, _, err := d.Drain(ctx); err != nil && ctx.Err() == nil {
			d.Log.LogAttrs(ctx, slog.LevelError, "the outbox could not be drained", slog.String("error", err.Error()))
		}
	}
}

// or is v, or the default when v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
