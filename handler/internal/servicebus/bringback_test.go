package servicebus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
	"orderflow/workflow"
)

// desk handles dead letters, and keeps which it was given.
type desk struct {
	fail func(workflow.DeadLetter) error // nil: all are handled

	mu      sync.Mutex
	handled []string
}

func (d *desk) handle(_ context.Context, letter workflow.DeadLetter) error {
	d.mu.Lock()
	d.handled = append(d.handled, letter.ID)
	d.mu.Unlock()
	if d.fail != nil {
		return d.fail(letter)
	}
	return nil
}

// failing fails for some messages.
func failing(ids ...string) func(workflow.DeadLetter) error {
	return func(letter workflow.DeadLetter) error {
		if slices.Contains(ids, letter.ID) {
			return errors.New("not now")
		}
		return nil
	}
}

// all asks for everything.
var all = workflow.BringBack{Subscription: "all", Top: 1000}

func bringBack(t *testing.T, d *DeadLetters, which workflow.BringBack, by *desk) (more bool) {
	t.Helper()
	more, err := d.BringBack(within(t, 30*time.Second), which, by.handle)
	require.NoError(t, err)
	return more
}

// names of the messages to an order, from one number to another.
func to(order string, from, until int) (names []string) {
	for n := from; n <= until; n++ {
		names = append(names, captured(order, n).MessageID)
	}
	return names
}

// mixed are messages to some orders, in turn.
func mixed(orders, each int) (messages []localbus.Message) {
	for n := range each {
		for o := range orders {
			messages = append(messages, captured(fmt.Sprintf("order-%d", o), n+1))
		}
	}
	return messages
}

// ofOrder is what of a list is to an order, in its order.
func ofOrder(list []string, order string) (own []string) {
	for _, id := range list {
		if len(id) > len("bank:"+order) && id[:len("bank:"+order)+1] == "bank:"+order+":" {
			own = append(own, id)
		}
	}
	return own
}

func TestDeadLettersAreHandledInEachOrdersOrderAndAreGoneThen(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(mixed(7, 15)...) // more than are taken at once
	by := &desk{}
	d := deadLetters(t, b.connection())
	require.False(t, bringBack(t, d, all, by))
	require.Len(t, by.handled, 7*15)
	for o := range 7 {
		order := fmt.Sprintf("order-%d", o)
		require.Equal(t, to(order, 1, 15), ofOrder(by.handled, order))
	}
	require.Empty(t, b.dead())
	require.False(t, bringBack(t, d, all, by), "nothing is left")
	require.Len(t, by.handled, 7*15)
}

func TestTheMessageThatIsHandledIsTheOneThatWasSent(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	m := captured("order-42", 1)
	m.Body = []byte("{\"orderId\":\"order-42\",\"name\":\"Zoë \x00 😀\"}\n")
	m.CorrelationID, m.Properties = "conv-7", map[string]any{"traceparent": trace, "Diagnostic-Id": "other", "ParentMessageId": "p"}
	sequence := b.giveUp(m)[0]
	more, err := deadLetters(t, b.connection()).BringBack(within(t, 10*time.Second), all, func(ctx context.Context, letter workflow.DeadLetter) error {
		require.Equal(t, workflow.Envelope{
			ID: m.MessageID, OrderID: "order-42", Type: workflow.PaymentCaptured, Conversation: "conv-7",
			ParentID: "p", TraceParent: trace, Body: m.Body,
		}, letter.Envelope)
		require.Equal(t, sequence, letter.Delivery.Sequence)
		require.Positive(t, letter.Delivery.Count)
		require.Equal(t, "all", letter.Subscription)
		until, bounded := ctx.Deadline()
		require.True(t, bounded, "not longer than it is locked")
		require.WithinDuration(t, time.Now().Add(10*time.Second), until, time.Second)
		return nil
	})
	require.NoError(t, err)
	require.False(t, more)
	require.Empty(t, b.dead())
}

func TestOneThatFailsStopsItsOrderAndNoOther(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(mixed(3, 20)...)
	by := &desk{fail: failing("bank:order-1:4")}
	d := deadLetters(t, b.connection())
	require.True(t, bringBack(t, d, all, by))
	require.Equal(t, to("order-0", 1, 20), ofOrder(by.handled, "order-0"))
	require.Equal(t, to("order-1", 1, 4), ofOrder(by.handled, "order-1"))
	require.Equal(t, to("order-2", 1, 20), ofOrder(by.handled, "order-2"))
	require.Equal(t, to("order-1", 4, 20), b.dead())

	by.fail = nil
	require.False(t, bringBack(t, d, all, by), "it was given back, and can be taken at once")
	require.Equal(t, append(to("order-1", 1, 4), to("order-1", 4, 20)...), ofOrder(by.handled, "order-1"))
	require.Empty(t, b.dead())
}

func TestWhatAnotherHasInItsHandsIsNeitherOvertakenNorWaitedFor(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(mixed(2, 3)...)
	other, err := b.bus.OpenDeadLetters(t.Context(), topics.Orders, "all")
	require.NoError(t, err)
	first, err := other.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, "bank:order-0:1", first.MessageID)

	by := &desk{}
	d := deadLetters(t, b.connection())
	require.True(t, bringBack(t, d, all, by))
	require.Equal(t, to("order-1", 1, 3), by.handled)
	require.Equal(t, to("order-0", 1, 3), b.dead())

	require.NoError(t, other.Release(t.Context(), first))
	require.NoError(t, other.Close())
	require.False(t, bringBack(t, d, all, by))
	require.Equal(t, to("order-0", 1, 3), ofOrder(by.handled, "order-0"))
}

func TestTwoRunsAtOnceKeepEachOrdersOrder(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	const orders, each = 8, 12
	b.giveUp(mixed(orders, each)...)
	by := &desk{fail: func(workflow.DeadLetter) error {
		<-time.After(time.Duration(rand.IntN(2)) * time.Millisecond)
		return nil
	}}
	var runs sync.WaitGroup
	for range 2 {
		d := deadLetters(t, b.connection())
		runs.Go(func() {
			for more := true; more; {
				var err error
				if more, err = d.BringBack(within(t, time.Minute), all, by.handle); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	runs.Wait()
	require.Empty(t, b.dead())
	require.Len(t, by.handled, orders*each)
	for o := range orders {
		order := fmt.Sprintf("order-%d", o)
		require.Equal(t, to(order, 1, each), ofOrder(by.handled, order))
	}
}

func TestOnlyWhatIsAskedForIsBroughtBack(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(mixed(3, 15)...)
	d := deadLetters(t, b.connection())
	by := &desk{}
	require.True(t, bringBack(t, d, workflow.BringBack{Subscription: "all", OrderID: "order-1", Top: 2}, by))
	require.Equal(t, to("order-1", 1, 2), by.handled)
	require.False(t, bringBack(t, d, workflow.BringBack{Subscription: "all", OrderID: "order-1", Top: 13}, by), "those of others were not asked for")
	require.Equal(t, to("order-1", 1, 15), by.handled)
	require.False(t, bringBack(t, d, workflow.BringBack{Subscription: "all", OrderID: "order-1", Top: 1}, by))
	require.True(t, bringBack(t, d, workflow.BringBack{Subscription: "all", Top: 4}, by))
	require.Equal(t, to("order-0", 1, 4), by.handled[15:])
	require.Len(t, b.dead(), 26)
}

func TestWhatIsBeyondTheFirstThousandIsSaidToBeLeft(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.expire("order-0", workflow.DeadLettersCounted, 0)
	b.giveUp(captured("order-1", 1))
	by := &desk{}
	d := deadLetters(t, b.connection())
	require.True(t, bringBack(t, d, workflow.BringBack{Subscription: "all", OrderID: "order-1", Top: 1}, by), "nobody has looked there")
	require.Empty(t, by.handled)
	require.True(t, bringBack(t, d, workflow.BringBack{Subscription: "all", Top: workflow.DeadLettersCounted}, by))
	require.Len(t, by.handled, workflow.DeadLettersCounted)
	require.False(t, bringBack(t, d, all, by))
	require.Empty(t, b.dead())
}

func TestNoMoreIsHeldAtATimeThanThereIsRoomFor(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	const size = 1 << 10
	d := deadLetters(t, b.connection())
	d.room = 100 * size
	b.expire("order-0", 100+2*takenAtOnce, size)
	b.giveUp(captured("order-1", 1))
	by := &desk{}
	require.True(t, bringBack(t, d, workflow.BringBack{Subscription: "all", OrderID: "order-1", Top: 1}, by))
	require.Empty(t, by.handled, "what lies before it is too much")
	require.False(t, bringBack(t, d, all, by), "what is handled is held no longer")
	require.Empty(t, b.dead())
}

func TestWhatIsLargerThanThereIsRoomForIsHandledAllTheSame(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	d := deadLetters(t, b.connection())
	d.room = 1
	b.giveUp(mixed(2, 3)...)
	by := &desk{}
	require.False(t, bringBack(t, d, all, by))
	require.Len(t, by.handled, 6)
}

func TestARunEndsWithItsContextAndGivesBackWhatItHas(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(mixed(5, 2)...)
	ctx, stop := context.WithCancel(within(t, 20*time.Second))
	by := &desk{}
	by.fail = func(letter workflow.DeadLetter) error {
		if letter.ID == "bank:order-2:1" {
			stop()
			return ctx.Err()
		}
		return nil
	}
	d := deadLetters(t, b.connection())
	more, err := d.BringBack(ctx, all, by.handle)
	require.NoError(t, err, "to end is what it was asked to")
	require.True(t, more)
	require.Equal(t, []string{"bank:order-0:1", "bank:order-0:2", "bank:order-1:1", "bank:order-1:2", "bank:order-2:1"}, by.handled)
	require.Len(t, b.dead(), 6)
	var settled []string
	for _, e := range b.events() {
		if e.Moment == busserver.Settled {
			settled = append(settled, ids(e.Messages)...)
		}
	}
	require.Len(t, settled, 10, "all were taken, and to go without a word would leave them locked")
	by.fail = nil
	require.False(t, bringBack(t, d, all, by), "nothing is locked any more")
	require.Empty(t, b.dead())
}

func TestOneThatWasHandledAndNotTakenOutIsHandledAgain(t *testing.T) {
	t.Parallel()
	second := func(e busserver.Event) bool { return e.Moment == busserver.Settling && has(e, "bank:order-0:2") }
	for name, f := range map[string]struct {
		fault  busserver.Fault
		goesOn bool
	}{
		"the lock is lost midway":   {busserver.Fault{LoseLock: true}, true},
		"the connection is cut off": {busserver.Fault{Cut: true}, false},
		"the answer is lost":        {busserver.Fault{LoseAnswer: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			b := serve(t, func(e busserver.Event) (fault busserver.Fault) {
				if second(e) {
					once.Do(func() { fault = f.fault })
				}
				return fault
			})
			b.giveUp(mixed(1, 4)...)
			d := deadLetters(t, b.connection())
			by := &desk{}
			more, err := d.BringBack(within(t, 30*time.Second), all, by.handle)
			if f.goesOn {
				require.NoError(t, err)
				require.True(t, more)
				require.Equal(t, []string{"bank:order-0:2"}, b.dead())
				require.Equal(t, to("order-0", 1, 4), by.handled)
				require.False(t, bringBack(t, d, all, by))
				require.Equal(t, append(to("order-0", 1, 4), "bank:order-0:2"), by.handled)
			} else {
				require.Equal(t, to("order-0", 1, len(by.handled)), by.handled, "in order")
				require.Eventually(t, func() bool { return !bringBack(t, d, all, by) }, 20*time.Second, 10*time.Millisecond)
				require.Subset(t, by.handled, to("order-0", 1, 4))
			}
			require.Empty(t, b.dead())
		})
	}
}

func TestNothingIsHandledOnceItsLockHasEnded(t *testing.T) {
	t.Parallel()
	// By this broker's clock, locks of a minute end soon.
	b := serveAt(t, func() time.Time { return time.Now().Add(-time.Minute + 2*time.Second) }, nil)
	b.giveUp(mixed(3, 2)...)
	by := &desk{}
	began := time.Now()
	more, err := deadLetters(t, b.connection()).BringBack(within(t, 20*time.Second), all, func(ctx context.Context, letter workflow.DeadLetter) error {
		require.NoError(t, ctx.Err())
		_ = by.handle(ctx, letter)
		<-ctx.Done()
		return ctx.Err()
	})
	require.NoError(t, err)
	require.True(t, more)
	require.Less(t, time.Since(began), 15*time.Second, "the run goes on longer than the locks")
	require.Equal(t, "bank:order-0:1", by.handled[0])
	require.NotContains(t, by.handled, "bank:order-0:2")
	require.Len(t, b.dead(), 6)
}

func TestOneThatIsSetAsideHoldsItsOrderBack(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(mixed(2, 2)...)
	other, err := b.bus.OpenDeadLetters(t.Context(), topics.Orders, "all")
	require.NoError(t, err)
	first, err := other.Receive(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.Defer(t.Context(), first))
	require.NoError(t, other.Close())
	by := &desk{}
	require.True(t, bringBack(t, deadLetters(t, b.connection()), all, by))
	require.Equal(t, to("order-1", 1, 2), by.handled)
	require.Equal(t, to("order-0", 1, 2), b.dead())
}
