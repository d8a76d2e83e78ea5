package localbus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// kill makes dead letters of new messages.
func kill(t *testing.T, b *Bus, messages ...Message) []int64 {
	t.Helper()
	sequences := send(t, b, messages...)
	for range messages {
		s := accept(t, b)
		require.NoError(t, s.DeadLetter(t.Context(), receive(t, s), "reason", "description"))
		require.NoError(t, s.Close())
	}
	return sequences
}

func openDead(t *testing.T, b *Bus) *DeadLetterReceiver {
	t.Helper()
	r, err := b.OpenDeadLetters(t.Context(), orders, billing)
	require.NoError(t, err)
	return r
}

func receiveDead(t *testing.T, r *DeadLetterReceiver) *Message {
	t.Helper()
	m, err := r.Receive(t.Context())
	require.NoError(t, err)
	return m
}

func requireNoneDead(t *testing.T, r *DeadLetterReceiver) {
	t.Helper()
	_, err := r.Receive(soon(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestDeadLettersAreReceivedWithoutSessionsAndCompleted(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		sequences := kill(t, b, message("a", "1"), message("b", "2"), message("a", "3"))
		r := openDead(t, b)
		for i, want := range []string{"1", "2", "3"} {
			m := receiveDead(t, r)
			require.Equal(t, want, m.MessageID)
			require.Equal(t, sequences[i], m.SequenceNumber)
			require.Equal(t, "reason", m.DeadLetterReason)
			require.Equal(t, "description", m.DeadLetterDescription)
			require.Equal(t, 1, m.DeliveryCount)
			require.Equal(t, StateActive, m.State)
			require.True(t, time.Now().Add(time.Minute).Equal(m.LockedUntil))
			require.NoError(t, r.Complete(t.Context(), m))
			require.ErrorIs(t, r.Complete(t.Context(), m), ErrMessageLockLost)
		}
		require.Empty(t, dead(t, b))
		requireNoneDead(t, r)
	})
}

func TestWhoWaitsForADeadLetterIsWokenByADeath(t *testing.T) {
	deaths := map[string]func(t *testing.T, b *Bus){
		"dead-lettered": func(t *testing.T, b *Bus) { kill(t, b, message("s", "m")) },
		"failed too often": func(t *testing.T, b *Bus) {
			send(t, b, message("s", "m"))
			s := accept(t, b)
			for range 3 {
				require.NoError(t, s.Abandon(t.Context(), receive(t, s)))
			}
		},
		"lost too often": func(t *testing.T, b *Bus) {
			send(t, b, message("s", "m"))
			for range 3 {
				receive(t, accept(t, b))
			}
		},
		"expired": func(t *testing.T, b *Bus) { send(t, b, lasting(message("s", "m"), time.Hour)) },
	}
	for name, die := range deaths {
		t.Run(name, func(t *testing.T) {
			bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
				r := openDead(t, b)
				woken := make(chan *Message, 1)
				go func() {
					m, _ := r.Receive(t.Context())
					woken <- m
				}()
				synctest.Wait()
				die(t, b)
				require.Equal(t, "m", (<-woken).MessageID)
			})
		})
	}
}

func TestReceiversOfDeadLettersCompete(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		kill(t, b, message("s", "1"), message("s", "2"))
		one, two := openDead(t, b), openDead(t, b)
		first, second := receiveDead(t, one), receiveDead(t, two)
		require.Equal(t, []string{"1", "2"}, pointed([]*Message{first, second}))
		requireNoneDead(t, one)
		require.ErrorIs(t, one.Complete(ctx, second), ErrMessageLockLost, "it is the other's")
		require.NoError(t, two.Release(ctx, second))
		require.Equal(t, "2", receiveDead(t, one).MessageID)
	})
}

func TestADeadLetterNeverDiesAgainHoweverOftenItFails(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		kill(t, b, message("s", "m"))
		r := openDead(t, b)
		for i := range 10 {
			m := receiveDead(t, r)
			require.Equal(t, i+1, m.DeliveryCount)
			require.NoError(t, r.Abandon(t.Context(), m))
		}
		m := receiveDead(t, r)
		require.NoError(t, r.Release(t.Context(), m))
		require.Equal(t, 11, receiveDead(t, r).DeliveryCount, "released, so not counted")
	})
}

func TestALostDeadLetterIsCountedAndReceivedAgain(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		start := time.Now()
		kill(t, b, message("s", "1"), message("s", "2"))
		r := openDead(t, b)
		lost, kept := receiveDead(t, r), receiveDead(t, r)
		pass(40 * time.Second)
		until, err := r.Renew(ctx, kept)
		require.NoError(t, err)
		require.True(t, time.Now().Add(time.Minute).Equal(until))

		again := receiveDead(t, r)
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, "1", again.MessageID)
		require.Equal(t, 2, again.DeliveryCount)
		require.ErrorIs(t, r.Complete(ctx, lost), ErrMessageLockLost)
		require.ErrorIs(t, r.Abandon(ctx, lost), ErrMessageLockLost)
		require.ErrorIs(t, r.Release(ctx, lost), ErrMessageLockLost)
		require.ErrorIs(t, r.Defer(ctx, lost), ErrMessageLockLost)
		_, err = r.Renew(ctx, lost)
		require.ErrorIs(t, err, ErrMessageLockLost)
		require.NoError(t, r.Complete(ctx, kept), "it was renewed")
		require.NoError(t, r.Complete(ctx, again))
		require.Empty(t, dead(t, b))
	})
}

func TestADeferredDeadLetterIsReceivedByItsNumberOnly(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		sequence := kill(t, b, lasting(message("s", "m"), time.Hour))[0]
		r, other := openDead(t, b), openDead(t, b)
		require.NoError(t, r.Defer(ctx, receiveDead(t, r)))
		require.Equal(t, StateDeferred, dead(t, b)[0].State)
		requireNoneDead(t, r)
		pass(2 * time.Hour) // time to live ends with death

		got, err := other.ReceiveDeferred(ctx, sequence)
		require.NoError(t, err)
		_, err = r.ReceiveDeferred(ctx, sequence)
		require.ErrorIs(t, err, ErrNotFound, "the other has it")
		require.NoError(t, other.Abandon(ctx, got[0]))
		requireNoneDead(t, r)

		got, err = r.ReceiveDeferred(ctx, sequence)
		require.NoError(t, err)
		require.Equal(t, 2, got[0].DeliveryCount)
		pass(time.Minute) // its lock is lost
		requireNoneDead(t, r)
		got, err = r.ReceiveDeferred(ctx, sequence)
		require.NoError(t, err)
		require.Equal(t, 3, got[0].DeliveryCount)
		require.NoError(t, r.Complete(ctx, got[0]))
		_, err = r.ReceiveDeferred(ctx, sequence)
		require.ErrorIs(t, err, ErrNotFound)

		s, err := b.AcceptSession(ctx, orders, billing, "s")
		require.NoError(t, err)
		_, err = s.ReceiveDeferred(ctx, sequence)
		require.ErrorIs(t, err, ErrNotFound, "nor is it the session's")
	})
}

func TestAClosedReceiverGivesItsDeadLettersToOthersUncounted(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		kill(t, b, message("s", "1"), message("s", "2"), message("s", "3"))
		closed, other := openDead(t, b), openDead(t, b)
		m := receiveDead(t, closed)
		receiveDead(t, closed)
		kept := receiveDead(t, other)
		ended := make(chan error)
		go func() {
			_, err := closed.Receive(ctx)
			ended <- err
		}()
		synctest.Wait()
		require.NoError(t, closed.Close())
		require.NoError(t, closed.Close(), "again")
		require.ErrorIs(t, <-ended, ErrClosed)
		_, err := closed.Receive(ctx)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, closed.Complete(ctx, m), ErrClosed)

		again := receiveDead(t, other)
		require.Equal(t, "1", again.MessageID)
		require.Equal(t, 1, again.DeliveryCount)
		require.Equal(t, "2", receiveDead(t, other).MessageID)
		requireNoneDead(t, other)
		require.NoError(t, other.Complete(ctx, kept))
	})
}

func TestTheNextRunFindsDeadLettersAsTheyWere(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	b := openBus(t, path, oneQueue())
	sequences := kill(t, b, message("s", "1"), message("s", "2"), message("s", "3"))
	r := openDead(t, b)
	require.NoError(t, r.Abandon(t.Context(), receiveDead(t, r)))
	receiveDead(t, r)
	require.NoError(t, r.Defer(t.Context(), receiveDead(t, r)))
	require.NoError(t, b.Close())
	_, err := r.Receive(t.Context())
	require.ErrorIs(t, err, ErrClosed)

	b = openBus(t, path, oneQueue())
	r = openDead(t, b)
	first := receiveDead(t, r)
	require.Equal(t, "1", first.MessageID)
	require.Equal(t, 2, first.DeliveryCount)
	require.Equal(t, "3", receiveDead(t, r).MessageID)
	got, err := r.ReceiveDeferred(t.Context(), sequences[1])
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, pointed(got))
}
