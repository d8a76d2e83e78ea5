package servicebus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/Azure/go-amqp"
	"github.com/stretchr/testify/require"

	busamqp "orderflow/handler/internal/amqp"
	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
	"orderflow/workflow"
)

// deadLetters looks at the dead letters of a broker, until the test's end.
func deadLetters(t *testing.T, connection string) *DeadLetters {
	t.Helper()
	d, err := NewDeadLetters(Connection{String: connection}, topics.Orders)
	require.NoError(t, err)
	d.patience = patience{answer: 2 * time.Second, empty: 500 * time.Millisecond}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		require.NoError(t, d.Close(ctx))
	})
	return d
}

// captured is the nth message to an order.
func captured(order string, n int) localbus.Message {
	return localbus.Message{
		MessageID: fmt.Sprintf("bank:%s:%d", order, n), SessionID: order, Subject: string(workflow.PaymentCaptured),
		Body: fmt.Appendf(nil, `{"orderId":%q,"paymentId":"p-%d"}`, order, n),
	}
}

// giveUp puts messages among the dead letters, in that order, and returns their
// sequence numbers.
func (b *broker) giveUp(messages ...localbus.Message) []int64 {
	b.t.Helper()
	sequences, err := b.bus.Send(b.t.Context(), topics.Orders, messages...)
	require.NoError(b.t, err)
	for _, m := range messages {
		s, err := b.bus.AcceptSession(b.t.Context(), topics.Orders, "all", m.SessionID)
		require.NoError(b.t, err)
		got, err := s.Receive(b.t.Context())
		require.NoError(b.t, err)
		require.NoError(b.t, s.DeadLetter(b.t.Context(), got, "MaxDeliveryCountExceeded", "delivered ten times"))
		require.NoError(b.t, s.Close())
	}
	return sequences
}

// expire puts so many messages to an order, each with so many bytes more, among
// the dead letters.
func (b *broker) expire(order string, n, size int) {
	b.t.Helper()
	all := len(b.dead()) + n
	for i := range n {
		m := captured(order, i+1)
		m.Body = append(m.Body, make([]byte, size)...)
		m.TimeToLive = time.Nanosecond
		_, err := b.bus.Send(b.t.Context(), topics.Orders, m)
		require.NoError(b.t, err)
	}
	require.Eventually(b.t, func() bool {
		counts, err := b.bus.Counts(b.t.Context())
		return err == nil && counts[topics.Orders].Subscriptions["all"].Dead == all
	}, 20*time.Second, 20*time.Millisecond)
}

// dead is the IDs of the dead letters.
func (b *broker) dead() []string {
	b.t.Helper()
	messages, err := b.bus.DeadLetters(b.t.Context(), topics.Orders, "all")
	require.NoError(b.t, err)
	return ids(messages)
}

func TestADeadLetterIsListedWithAllThatItSaysOfItselfAndWithoutItsBody(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	m := captured("order-42", 1)
	m.CorrelationID = "conv-7"
	m.Properties = map[string]any{"ParentMessageId": "parent", "OriginatingMessageId": "origin", "SchemaVersion": int64(1), "Diagnostic-Id": trace, "note": []byte{1}}
	sequence := b.giveUp(m)[0]
	d := deadLetters(t, b.connection())
	all, err := d.List(within(t, 10*time.Second), "all", 0, 10)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.WithinDuration(t, time.Now(), all[0].Delivery.EnqueuedAt, time.Minute)
	require.Equal(t, time.UTC, all[0].Delivery.EnqueuedAt.Location())
	all[0].Delivery.EnqueuedAt = time.Time{}
	all[0].Delivery.Count = 0
	require.Equal(t, workflow.DeadLetter{
		Subscription: "all", Reason: "MaxDeliveryCountExceeded", Description: "delivered ten times", Size: len(m.Body),
		Delivery: workflow.Delivery{Sequence: sequence},
		Envelope: workflow.Envelope{
			ID: m.MessageID, OrderID: "order-42", Type: workflow.PaymentCaptured, Conversation: "conv-7",
			ParentID: "parent", OriginID: "origin", Schema: "1", TraceParent: trace,
		},
	}, all[0])
	require.Equal(t, []string{m.MessageID}, b.dead(), "it stays where it is")
}

func TestDeadLettersAreListedFromASequenceNumberOnAndNoMoreThanAskedFor(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	var sequences []int64
	for n := range 5 {
		sequences = append(sequences, b.giveUp(captured(fmt.Sprintf("order-%d", n), 1))...)
	}
	d := deadLetters(t, b.connection())
	listed := func(from int64, most int) (got []int64) {
		all, err := d.List(within(t, 10*time.Second), "all", from, most)
		require.NoError(t, err)
		for _, letter := range all {
			got = append(got, letter.Delivery.Sequence)
		}
		return got
	}
	require.Equal(t, sequences, listed(0, 100))
	require.Equal(t, sequences[:2], listed(0, 2))
	require.Equal(t, sequences[2:4], listed(sequences[2], 2))
	require.Equal(t, sequences[4:], listed(sequences[3]+1, 2))
	require.Empty(t, listed(sequences[4]+1, 2))
}

func TestDeadLettersAreCountedUpToABoundHoweverMany(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	d := deadLetters(t, b.connection())
	count := func() int {
		n, err := d.Count(within(t, 20*time.Second), "all")
		require.NoError(t, err)
		return n
	}
	require.Zero(t, count())
	b.giveUp(captured("order-1", 1), captured("order-1", 2))
	require.Equal(t, 2, count())

	b.expire("order-2", workflow.DeadLettersCounted+100, 0)
	require.Equal(t, workflow.DeadLettersCounted, count())
}

func TestASubscriptionThatIsNotThereIsToldFromABrokerThatIsAway(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	there, away := deadLetters(t, b.connection()), deadLetters(t, connection("127.0.0.1:1", key))
	nothing := func(context.Context, workflow.DeadLetter) error { return nil }
	for name, ask := range map[string]func(*DeadLetters) error{
		"count": func(d *DeadLetters) error { _, err := d.Count(within(t, 20*time.Second), "other"); return err },
		"list":  func(d *DeadLetters) error { _, err := d.List(within(t, 20*time.Second), "other", 0, 1); return err },
		"bring back": func(d *DeadLetters) error {
			more, err := d.BringBack(within(t, 20*time.Second), workflow.BringBack{Subscription: "other", Top: 1}, nothing)
			require.True(t, more, "nobody knows")
			return err
		},
	} {
		err := ask(there)
		require.ErrorIs(t, err, workflow.ErrNoSubscription, name)
		require.NotErrorIs(t, err, workflow.ErrTransient, name)
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, "other")
		err = ask(away)
		require.ErrorIs(t, err, workflow.ErrTransient, name)
		require.NotErrorIs(t, err, workflow.ErrNoSubscription, name)
	}
}

func TestABrokerThatCutsOffOrClosesTheConnectionIsAskedAgainNextTime(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]busserver.Fault{
		"cut":      {Cut: true},
		"detached": {Detach: busamqp.Errorf("com.microsoft:entity-disabled", "maintenance")},
		"busy":     {Refuse: busserver.ServerBusy()},
	} {
		for _, moment := range []busserver.Moment{busserver.Attaching, busserver.Requested} {
			t.Run(fmt.Sprintf("%s when %s", name, moment), func(t *testing.T) {
				t.Parallel()
				b := serve(t, busserver.Times(6, moment, f))
				b.giveUp(captured("order-1", 1))
				d := deadLetters(t, b.connection())
				require.Eventually(t, func() bool {
					n, err := d.Count(within(t, 10*time.Second), "all")
					return err == nil && n == 1
				}, 20*time.Second, 10*time.Millisecond)
			})
		}
	}
}

func TestAConnectionThatTheBrokerClosesIsNoMissingSubscriptionAndAnotherIsMade(t *testing.T) {
	t.Parallel()
	for _, condition := range []string{
		"amqp:connection:forced", "amqp:internal-error", "amqp:not-allowed", "amqp:not-found", "com.microsoft:server-busy",
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			b := serve(t, nil)
			b.giveUp(captured("order-1", 1))
			way, end := closing(t, b.addr)
			d := deadLetters(t, connection(way, key))
			for range 3 {
				require.Eventually(t, func() bool {
					n, err := d.Count(within(t, 10*time.Second), "all")
					require.NotErrorIs(t, err, workflow.ErrNoSubscription)
					return err == nil && n == 1
				}, 20*time.Second, 10*time.Millisecond)
				end(condition)
			}
		})
	}
}

func TestABrokerThatIsStoppedAndStartedIsFoundAgain(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(captured("order-1", 1))
	d := deadLetters(t, b.connection())
	for range 2 {
		n, err := d.Count(within(t, 10*time.Second), "all")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		b.stop()
		_, err = d.Count(within(t, 10*time.Second), "all")
		require.ErrorIs(t, err, workflow.ErrTransient)
		b.start()
	}
}

func TestABrokerThatSaysNothingIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	b := serve(t, func(e busserver.Event) busserver.Fault {
		return busserver.Fault{LoseAnswer: e.Moment == busserver.Requested}
	})
	began := time.Now()
	_, err := deadLetters(t, b.connection()).Count(within(t, time.Minute), "all")
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.Less(t, time.Since(began), 10*time.Second)
}

func TestADeadLetterThatTheClientCannotReadIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	m := captured("order-1", 1)
	m.Properties = map[string]any{"DeadLetterReason": int64(7)}
	_, err := b.bus.Send(t.Context(), topics.Orders, m)
	require.NoError(t, err)
	s, err := b.bus.AcceptSession(t.Context(), topics.Orders, "all", "order-1")
	require.NoError(t, err)
	got, err := s.Receive(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.DeadLetter(t.Context(), got, "", ""))
	require.NoError(t, s.Close())

	d := deadLetters(t, b.connection())
	for range 2 {
		_, err = d.List(within(t, 10*time.Second), "all", 0, 1)
		require.ErrorContains(t, err, "a dead letter cannot be read")
	}
	require.Equal(t, []string{m.MessageID}, b.dead())
}

func TestWhateverItsIdentitiesAndPropertiesAreADeadLetterIsRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value any
		want  string
	}{
		{"text", "text"},
		{uint64(7), "7"},
		{int32(-7), "-7"},
		{1.0, "1"},
		{amqp.UUID{0xab}, "ab000000-0000-0000-0000-000000000000"},
		{[]byte{1}, ""},
		{true, ""},
		{time.Now(), ""},
		{nil, ""},
	} {
		require.Equal(t, tt.want, text(tt.value), "%T", tt.value)
	}
}

func TestManyLookAtOnceOverOneClient(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.giveUp(captured("order-1", 1))
	d := deadLetters(t, b.connection())
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if n, err := d.Count(within(t, 20*time.Second), "all"); err != nil || n != 1 {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	all.Wait()
}
