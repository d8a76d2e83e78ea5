package localbus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASessionsStateOutlivesItsHoldersAndTheBus(t *testing.T) {
	t.Parallel()
	topics := oneQueue()
	topics[0].Subscriptions = append(topics[0].Subscriptions, Subscription{Name: "other"})
	path := newFile(t)
	b := openBus(t, path, topics)
	session := func(subscription, id string) *Session {
		s, err := b.AcceptSession(t.Context(), orders, subscription, id)
		require.NoError(t, err)
		return s
	}
	requireState := func(want []byte, s *Session) {
		state, err := s.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, state)
	}
	s := session(billing, "s")
	requireState(nil, s)
	require.NoError(t, s.SetState(t.Context(), []byte("first")))
	require.NoError(t, s.SetState(t.Context(), []byte{0, 0xff}))
	require.NoError(t, s.Close())
	require.NoError(t, b.Close())

	b = openBus(t, path, topics)
	s = session(billing, "s")
	requireState([]byte{0, 0xff}, s)
	requireState(nil, session("other", "s"))
	requireState(nil, session(billing, "another"))
	require.NoError(t, s.SetState(t.Context(), []byte{}))
	requireState([]byte{}, s)
	require.ErrorIs(t, s.SetState(t.Context(), make([]byte, maxMessageBytes+1)), ErrMessageTooLarge)
	require.NoError(t, s.SetState(t.Context(), nil))
	requireState(nil, s)
	require.NoError(t, s.SetState(t.Context(), nil), "again")
}

func TestASessionsStateIsForItsHolderOnly(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		late, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		pass(time.Minute)
		require.ErrorIs(t, late.SetState(t.Context(), []byte("late")), ErrSessionLockLost)
		_, err = late.State(t.Context())
		require.ErrorIs(t, err, ErrSessionLockLost)

		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		state, err := s.State(t.Context())
		require.NoError(t, err)
		require.Nil(t, state)
	})
}
