package localbus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADeferredMessageIsReceivedByItsNumberOnly(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		sequences := send(t, b, numbered("s", 2)...)
		s := accept(t, b)
		require.NoError(t, s.Defer(ctx, receive(t, s)))
		require.Equal(t, "s-2", receive(t, s).MessageID, "the session goes on")
		requireEmpty(t, s)

		got, err := s.ReceiveDeferred(ctx, sequences[0])
		require.NoError(t, err)
		require.Equal(t, []string{"s-1"}, pointed(got))
		require.Equal(t, StateDeferred, got[0].State)
		require.Equal(t, 1, got[0].DeliveryCount, "a deferral is no failure")
		require.NoError(t, s.Complete(ctx, got[0]))
		require.Equal(t, []string{"s-2"}, peeked(t, b))
	})
}

func TestADeferredMessageThatIsNotThereIsNotFoundAndNoneIsTaken(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		sequences := send(t, b, message("s", "deferred"), message("s", "held"), message("s", "active"), message("other", "foreign"))
		s := accept(t, b)
		require.NoError(t, s.Defer(ctx, receive(t, s)))
		require.NoError(t, s.Defer(ctx, receive(t, s)))
		held, err := s.ReceiveDeferred(ctx, sequences[1])
		require.NoError(t, err)
		other := accept(t, b)
		require.NoError(t, other.Defer(ctx, receive(t, other)))

		for name, wanted := range map[string][]int64{
			"unknown":               {sequences[0], 1_000},
			"in delivery already":   {sequences[0], sequences[1]},
			"active":                {sequences[0], sequences[2]},
			"of another session":    {sequences[0], sequences[3]},
			"the same number twice": {sequences[0], sequences[0]},
		} {
			_, err := s.ReceiveDeferred(ctx, wanted...)
			require.ErrorIs(t, err, ErrNotFound, name)
		}
		require.NoError(t, s.Complete(ctx, held[0]))
		got, err := s.ReceiveDeferred(ctx, sequences[0])
		require.NoError(t, err)
		require.Equal(t, []string{"deferred"}, pointed(got))
		none, err := s.ReceiveDeferred(ctx)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

func TestADeferredMessageStaysDeferredHoweverItsDeliveryEnds(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		sequence := send(t, b, message("s", "m"))[0]
		s := accept(t, b)
		require.NoError(t, s.Defer(ctx, receive(t, s)))
		requireNoSession(t, b)
		take := func(count int) *Message {
			select {
			case <-s.Lost():
				var err error
				s, err = b.AcceptSession(t.Context(), orders, billing, "s")
				require.NoError(t, err)
			default:
			}
			requireEmpty(t, s)
			got, err := s.ReceiveDeferred(t.Context(), sequence)
			require.NoError(t, err)
			require.Equal(t, count, got[0].DeliveryCount)
			return got[0]
		}
		require.NoError(t, s.Release(ctx, take(1)))
		require.NoError(t, s.Defer(ctx, take(1)))
		take(1)
		require.NoError(t, s.Close())
		require.NoError(t, s.Abandon(ctx, take(1)))
		take(2)
		pass(time.Minute) // the lock is lost
		require.NoError(t, s.Abandon(ctx, take(3)))

		require.Equal(t, "m", receiveDead(t, openDead(t, b)).MessageID, "the third failure")
		_, err := s.ReceiveDeferred(ctx, sequence)
		require.ErrorIs(t, err, ErrNotFound)
	})
}

func TestADeferredMessageIsDeferredInTheNextRun(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	b := openBus(t, path, oneQueue())
	sequence := send(t, b, message("s", "m"))[0]
	s := accept(t, b)
	require.NoError(t, s.Defer(t.Context(), receive(t, s)))
	require.NoError(t, b.Close())

	b = openBus(t, path, oneQueue())
	require.Equal(t, []string{"m"}, peeked(t, b))
	s, err := b.AcceptSession(t.Context(), orders, billing, "s")
	require.NoError(t, err)
	got, err := s.ReceiveDeferred(t.Context(), sequence)
	require.NoError(t, err)
	require.NoError(t, s.DeadLetter(t.Context(), got[0], "r", "d"))
	require.Equal(t, StateActive, receiveDead(t, openDead(t, b)).State)
}
