// Package outbox gives what orders decided to send to the broker: at least
// once, each order's commands in the order of their commits, one order never
// waiting for another, and commands and deadlines never for each other. What it
// does when sending fails is docs/adr/0012.
package outbox

import (
	"context"
	"log/slog"
	"time"

	"orderflow/workflow"
)

// Rows is the outbox table. Its leases are over by the table's own clock; what
// is done with a token whose lease is over changes nothing.
type Rows interface {
	// Claim takes rows that may be sent now and that are wanted, until the lease
	// ends; one order's in the order of their Seq.
	Claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) ([]workflow.Claimed, error)
	// Renew makes the lease of what a token still holds end that much later than
	// now; held is how many rows that is.
	Renew(ctx context.Context, token string, lease time.Duration) (held int, err error)
	// Mark records what became of them.
	Mark(ctx context.Context, token string, marks []workflow.Mark) error
	// Bury makes a command dead that the broker refuses for good, and tells its
	// order in the same transaction.
	Bury(ctx context.Context, token string, c workflow.Claimed, reason string) error

	// Recalls lists deadlines that nobody wants any more and that the broker
	// still holds; Recalled records that it does not any more.
	Recalls(ctx context.Context, most int) ([]workflow.Recall, error)
	Recalled(ctx context.Context, done []workflow.Recall) error
}

// Sender gives messages to the broker. Both methods return soon after ctx
// ended. An error of theirs wraps workflow.ErrMessageRefused if the broker
// refuses the message itself, workflow.ErrNeverAccepted if for good; any other
// is taken for trouble of the topic.
type Sender interface {
	// Send gives messages of one order and of one kind, commands or deadlines,
	// to the broker, in order. It returns the sequence number of each that was
	// accepted, 0 where there is none; the error is about the one after them.
	Send(ctx context.Context, messages []workflow.Outgoing) (sequences []int64, err error)
	// Cancel takes a deadline back that the broker was given. To find none
	// there is no error.
	Cancel(ctx context.Context, sequence int64) error
}

// Dispatcher drains the outbox. Several may run at once, in one process or
// many: rows are claimed. Drain and Run of one dispatcher share what it knows of
// the broker's health. The fields without a default are required; none may be
// changed once it runs.
type Dispatcher struct {
	Rows   Rows
	Sender Sender
	Log    *slog.Logger
	// Token makes a new claim's token; no two may be equal.
	Token func() string
	// Jitter returns a number in [0,1) by which delays are spread. It and Token
	// are called from many goroutines.
	Jitter func() float64
	// Budget bounds one run. Zero means 45 seconds.
	Budget time.Duration
	// Batch is how many rows are claimed at a time. Zero means 100.
	Batch int
	// Parallel is how many orders are sent for at once, to each of the two
	// topics. Zero means 16.
	Parallel int
	// Lease is how long a claim holds; the rows of a process that ended wait
	// that long. A claim is renewed every third of it while rows of it are
	// waiting or being sent. Nothing is begun to be sent when nine tenths have
	// passed since a claim or renewal that succeeded was asked for, nor of a
	// claim once a renewal of it failed or found rows lost: what is under way
	// then may be sent again by somebody else, under its own ID. Zero means one
	// minute.
	Lease time.Duration
	// SendTimeout bounds one send. It may be longer than the lease. Zero means
	// 10 seconds.
	SendTimeout time.Duration
	// MaxRefusals is how often the broker refuses a command before it is dead.
	// Zero means 10.
	MaxRefusals int

	topics        [2]health // by kind
	claims, marks health    // of the table
}

// Drain sends what waits, until nothing is left that may be sent now, the
// budget is spent, or a topic takes nothing; then it takes back some of the
// deadlines that nobody wants any more. It returns how many messages were sent
// and whether more may be sent already, the broker permitting; the error is
// about the outbox itself. A message that could not be sent is no error of
// Drain: its row says when it is tried again.
func (d *Dispatcher) Drain(ctx context.Context) (sent int, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.budget())
	defer cancel()
	r := d.run(ctx, nil)
	if !r.over(ctx) {
		d.recall(ctx, r)
	}
	return r.sent, r.more(), r.err
}

// Run drains whenever it is woken, until ctx ends. Wakes that come during a run
// make it look again. While a topic takes nothing, or the outbox is out of
// reach, it rests before it goes on, longer each time. Rows that are to be tried
// again later, and deadlines further ahead, wake nobody: they are for Drain on a
// timer.
func (d *Dispatcher) Run(ctx context.Context, wake <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		for more := true; more && ctx.Err() == nil; {
			bounded, cancel := context.WithTimeout(ctx, d.budget())
			r := d.run(bounded, wake)
			cancel()
			if more = r.more(); more && (r.sent == 0 || r.err != nil) {
				r.rest(ctx, wake)
			}
		}
	}
}

func (d *Dispatcher) budget() time.Duration      { return or(d.Budget, 45*time.Second) }
func (d *Dispatcher) lease() time.Duration       { return or(d.Lease, time.Minute) }
func (d *Dispatcher) sendTimeout() time.Duration { return or(d.SendTimeout, 10*time.Second) }

// or is v, or the default when v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}
