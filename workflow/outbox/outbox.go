// Package outbox gives what orders decided to send to the broker: at least
// once, each order's commands in the order of their commits, one order never
// waiting for another.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"orderflow/workflow"
)

// Rows is the outbox table.
type Rows interface {
	// Claim takes rows that may be sent now, until the lease ends; those of one
	// order in the order of their Seq.
	Claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) ([]workflow.Claimed, error)
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
	// itself. It returns soon after ctx ended.
	Send(ctx context.Context, messages []workflow.Outgoing) (sequences []int64, err error)
}

// Dispatcher drains the outbox. Several may run at once, in one process or
// many: rows are claimed. The fields without a default are required.
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
	// SendTimeout bounds one send, and so does half the lease. Zero means 10
	// seconds.
	SendTimeout time.Duration
}

// markTimeout bounds the recording of what became of rows, which goes on after
// a run was told to stop.
const markTimeout = 5 * time.Second

// Drain sends what waits until nothing is left that may be sent now, the budget
// is spent, or a whole batch in a row did not get through. It returns how many
// messages were sent and whether more may be sent already; the error is about
// the outbox itself. A message that could not be sent is no error of Drain: its
// row says when it is tried again.
func (d *Dispatcher) Drain(ctx context.Context) (sent int, more bool, err error) {
	return d.drain(ctx, nil)
}

// drain is Drain, and looks for new rows whenever it is woken. One goroutine
// keeps the books, claiming and marking; others send, one line each. So a line
// that is slow keeps nobody but itself waiting.
func (d *Dispatcher) drain(ctx context.Context, wake <-chan struct{}) (sent int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, or(d.Budget, 45*time.Second))
	defer cancel()
	var (
		batch, parallel = or(d.Batch, 100), or(d.Parallel, 16)

		queue  []line                      // claimed and not begun
		busy   int                         // lines that are being sent
		done   = make(chan line, parallel) // lines that were
		look   = true                      // there may be rows to claim
		failed int                         // lines in a row that did not get through
	)
	for {
		if look && len(queue) == 0 && busy < parallel && failed < batch && err == nil && ctx.Err() == nil {
			var n int
			if queue, n, err = d.claim(ctx, batch); err != nil && ctx.Err() != nil {
				err = nil // the run was told to stop, which is no fault of the outbox
			}
			look = n == batch
		}
		for ; len(queue) > 0 && busy < parallel; queue = queue[1:] {
			busy++
			go func(l line) { done <- d.send(ctx, l) }(queue[0])
		}
		if busy == 0 {
			return sent, err != nil || failed >= batch || ctx.Err() != nil, err
		}
		select {
		case l := <-done:
			finished := gather(l, done)
			busy -= len(finished)
			for _, l := range finished {
				n := l.sent()
				sent += n
				failed++
				if n > 0 {
					failed, look = 0, true // the next of its order may follow
				}
				look = look || l.marks[0].GiveBack // it was too late for this claim
			}
			if markErr := d.mark(ctx, finished); markErr != nil {
				err, queue = errors.Join(err, markErr), nil // their leases run out
			}
		case <-wake:
			look = true
		}
	}
}

// claim takes rows and arranges them in lines. It returns how many rows.
func (d *Dispatcher) claim(ctx context.Context, most int) ([]line, int, error) {
	token, lease := d.Token(), d.lease()
	// Counted from before it asks, and with a margin for the mark.
	over := make(chan struct{})
	time.AfterFunc(lease-d.sendTimeout()-lease/10, func() { close(over) })
	claimed, err := d.Rows.Claim(ctx, token, workflow.Want{Commands: true, Deadlines: true}, most, lease)
	if err != nil {
		return nil, 0, fmt.Errorf("drain the outbox: %w", err)
	}
	all := lines(claimed)
	for i := range all {
		all[i].token, all[i].over = token, over
	}
	return all, len(claimed), nil
}

// mark records what became of lines. What was sent is marked even if the run
// has to end: else it is sent again.
func (d *Dispatcher) mark(ctx context.Context, finished []line) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), markTimeout)
	defer cancel()
	marks := make(map[string][]workflow.Mark)
	for _, l := range finished {
		marks[l.token] = append(marks[l.token], l.marks...)
	}
	var all error
	for token, marks := range marks {
		if err := d.Rows.Mark(ctx, token, marks); err != nil {
			all = errors.Join(all, fmt.Errorf("drain the outbox: %w", err))
		}
	}
	return all
}

// restMost is the attempt whose delay Run rests at most.
const restMost = 5

// Run drains whenever it is woken, until ctx ends. Wakes that come during a run
// make it look again. In an outage, of the broker or of the outbox, it rests
// before it goes on, longer each time. Rows that are to be tried again later,
// and deadlines further ahead, wake nobody: they are for Drain on a timer.
func (d *Dispatcher) Run(ctx context.Context, wake <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		for idle, more := 0, true; more && ctx.Err() == nil; {
			var sent int
			var err error
			sent, more, err = d.drain(ctx, wake)
			if err != nil {
				d.Log.LogAttrs(ctx, slog.LevelError, "the outbox could not be drained", slog.String("error", err.Error()))
			}
			if idle++; sent > 0 {
				idle = 0
			} else if more {
				d.rest(ctx, d.delay(min(idle, restMost)))
			}
		}
	}
}

func (d *Dispatcher) rest(ctx context.Context, delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (d *Dispatcher) lease() time.Duration { return or(d.Lease, time.Minute) }

func (d *Dispatcher) sendTimeout() time.Duration {
	return min(or(d.SendTimeout, 10*time.Second), d.lease()/2)
}

// or is v, or the default when v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
