package localbus

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnAbandonedMessageIsAtOnceTheFirstAgain(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 2)...)
		s := accept(t, b)
		first := receive(t, s)
		require.NoError(t, s.Abandon(t.Context(), first))
		again := receive(t, s)
		require.Equal(t, "s-1", again.MessageID)
		require.Equal(t, 2, again.DeliveryCount)
		require.Equal(t, first.SequenceNumber, again.SequenceNumber)
		require.ErrorIs(t, s.Complete(t.Context(), first), ErrMessageLockLost, "the token of an earlier delivery")
		require.NoError(t, s.Complete(t.Context(), again))
		require.Equal(t, "s-2", receive(t, s).MessageID)
	})
}

func TestAMessageThatFailsTooOftenIsDeadAndTheSessionGoesOn(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		sequences := send(t, b, numbered("s", 2)...)
		s := accept(t, b)
		require.NoError(t, s.Abandon(t.Context(), receive(t, s)))
		receive(t, s)
		s = accept(t, b) // once the lock is lost: the second failure
		require.NoError(t, s.Abandon(t.Context(), receive(t, s)))
		require.Equal(t, "s-2", receive(t, s).MessageID)

		dead, err := b.DeadLetters(t.Context(), orders, billing)
		require.NoError(t, err)
		require.Len(t, dead, 1)
		require.Equal(t, "s-1", dead[0].MessageID)
		require.Equal(t, sequences[0], dead[0].SequenceNumber)
		require.Equal(t, 3, dead[0].DeliveryCount)
		require.Equal(t, "MaxDeliveryCountExceeded", dead[0].DeadLetterReason)
		require.Equal(t, "Message could not be consumed after 3 delivery attempts.", dead[0].DeadLetterDescription)
	})
}

func TestAMessageWhoseLocksExpireTooOftenIsDead(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 2)...)
		for range 3 {
			require.Equal(t, "s-1", receive(t, accept(t, b)).MessageID)
		}
		require.Equal(t, "s-2", receive(t, accept(t, b)).MessageID)
		dead, err := b.DeadLetters(t.Context(), orders, billing)
		require.NoError(t, err)
		require.Equal(t, []string{"s-1"}, ids(dead))
	})
}

func TestTenDeliveriesAreTheDefault(t *testing.T) {
	topics := []Topic{{Name: orders, Subscriptions: []Subscription{{Name: billing}}}}
	bubble(t, topics, func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"))
		s := accept(t, b)
		for i := range 10 {
			m := receive(t, s)
			require.Equal(t, i+1, m.DeliveryCount)
			require.NoError(t, s.Abandon(t.Context(), m))
		}
		requireEmpty(t, s)
	})
}

func TestADeadLetterKeepsItsReasonAndTheSessionGoesOn(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 2)...)
		s := accept(t, b)
		require.NoError(t, s.DeadLetter(t.Context(), receive(t, s), "poison", "cannot be read"))
		require.Equal(t, "s-2", receive(t, s).MessageID)
		dead, err := b.DeadLetters(t.Context(), orders, billing)
		require.NoError(t, err)
		require.Len(t, dead, 1)
		require.Equal(t, []byte("s-1"), dead[0].Body)
		require.Equal(t, "poison", dead[0].DeadLetterReason)
		require.Equal(t, "cannot be read", dead[0].DeadLetterDescription)
		require.Equal(t, []string{"s-2"}, peeked(t, b))
	})
}

func TestAMessageIsSettledOnceByItsToken(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 2)...)
		s := accept(t, b)
		m := receive(t, s)
		require.ErrorIs(t, s.Complete(t.Context(), &Message{}), ErrMessageLockLost)
		require.ErrorIs(t, s.Complete(t.Context(), &Message{LockToken: "another"}), ErrMessageLockLost)
		require.NoError(t, s.Complete(t.Context(), &Message{LockToken: m.LockToken}))
		require.ErrorIs(t, s.Complete(t.Context(), m), ErrMessageLockLost)
		require.ErrorIs(t, s.Abandon(t.Context(), m), ErrMessageLockLost)
		require.Equal(t, []string{"s-2"}, peeked(t, b))
	})
}

func TestOfConcurrentSettlementsOneSucceeds(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		for range 50 {
			send(t, b, message("s", "m"))
			m := receive(t, s)
			outcomes := make(chan error, 6)
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() { outcomes <- s.Complete(t.Context(), m) })
				wg.Go(func() { outcomes <- s.Abandon(t.Context(), m) })
				wg.Go(func() { outcomes <- s.DeadLetter(t.Context(), m, "r", "d") })
			}
			wg.Wait()
			close(outcomes)
			succeeded := 0
			for err := range outcomes {
				if err == nil {
					succeeded++
				} else {
					require.ErrorIs(t, err, ErrMessageLockLost)
				}
			}
			require.Equal(t, 1, succeeded)

			if len(peeked(t, b)) > 0 {
				require.NoError(t, s.Complete(t.Context(), receive(t, s)))
			}
			requireEmpty(t, s)
		}
	})
}

func TestRequestsOfOneTransactionSettleAMessageOnce(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		complete := func(x *tx, o *outstanding) (fate, bool) { return removed, x.complete(o.by.line.queue, o.sequence) }
		abandon := func(x *tx, o *outstanding) (fate, bool) { return o.by.fail(x, o) }
		aside := func(x *tx, o *outstanding) (fate, bool) { return setAside, x.setAside(o.by.line.queue, o.sequence) }
		for name, ways := range map[string][2]settlement{
			"complete twice":    {complete, complete},
			"abandon twice":     {abandon, abandon},
			"defer twice":       {aside, aside},
			"complete, abandon": {complete, abandon},
			"abandon, complete": {abandon, complete},
			"defer, complete":   {aside, complete},
		} {
			send(t, b, message(name, name))
			s := accept(t, b)
			token := receive(t, s).LockToken
			first, second := s.settling(token, ways[0]), s.settling(token, ways[1])
			require.NoError(t, b.do(t.Context(), func() error { return b.commit([]*request{first, second}) }))
			require.NoError(t, <-first.done, name)
			require.ErrorIs(t, <-second.done, ErrMessageLockLost, name)
		}
	})
}

func TestAReleasedMessageKeepsItsCountAndItsPlace(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 3)...)
		s := accept(t, b)
		for range 5 { // more often than it may fail
			got := receiveAll(t, s, 2)
			require.Equal(t, []string{"s-1", "s-2"}, pointed(got))
			require.Equal(t, 1, got[0].DeliveryCount)
			require.NoError(t, s.Release(t.Context(), got[1]))
			require.NoError(t, s.Release(t.Context(), got[0]))
			require.ErrorIs(t, s.Release(t.Context(), got[0]), ErrMessageLockLost, "again")
			require.ErrorIs(t, s.Complete(t.Context(), got[0]), ErrMessageLockLost)
		}
		require.Equal(t, []string{"s-1", "s-2", "s-3"}, pointed(receiveAll(t, s, 3)))
	})
}

func TestAMessageGivenBackIsReceivedBeforeLaterOnes(t *testing.T) {
	for name, giveBack := range map[string]func(*Session, context.Context, *Message) error{
		"abandoned": (*Session).Abandon,
		"released":  (*Session).Release,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
				send(t, b, numbered("s", 4)...)
				s := accept(t, b)
				got := receiveAll(t, s, 3)
				require.NoError(t, giveBack(s, t.Context(), got[2]))
				require.NoError(t, giveBack(s, t.Context(), got[0]))
				require.Equal(t, []string{"s-1", "s-3", "s-4"}, pointed(receiveAll(t, s, 3)))
			})
		})
	}
}

func TestAMessageGivenBackWakesWhoWaitsInTheSession(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"))
		s := accept(t, b)
		m := receive(t, s)
		again := make(chan *Message)
		ways := []func(*Session, context.Context, *Message) error{(*Session).Release, (*Session).Abandon}
		for i, giveBack := range ways {
			go func() {
				m, _ := s.Receive(t.Context())
				again <- m
			}()
			synctest.Wait()
			require.NoError(t, giveBack(s, t.Context(), m))
			m = <-again
			require.Equal(t, i+1, m.DeliveryCount)
		}
	})
}

func TestCountsTellWhatTheBusHolds(t *testing.T) {
	topics := append(oneQueue(), Topic{Name: "idle", Subscriptions: []Subscription{{Name: "none"}}})
	bubble(t, topics, func(t *testing.T, b *Bus) {
		send(t, b, scheduledAt(message("s", "late"), time.Now().Add(time.Hour)))
		send(t, b, numbered("s", 4)...)
		s := accept(t, b)
		require.NoError(t, s.DeadLetter(t.Context(), receive(t, s), "r", "d"))
		require.NoError(t, s.Defer(t.Context(), receive(t, s)))
		receive(t, s)

		counts, err := b.Counts(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]TopicCounts{
			orders: {Scheduled: 1, Subscriptions: map[string]SubscriptionCounts{billing: {Active: 2, Deferred: 1, Dead: 1}}},
			"idle": {Subscriptions: map[string]SubscriptionCounts{"none": {}}},
		}, counts)
	})
}
