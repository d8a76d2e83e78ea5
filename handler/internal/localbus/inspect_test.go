package localbus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPeekingShowsAChoiceOfMessagesInAnyState(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		sequences := send(t, b, message("a", "1"), message("b", "2"), message("a", "3"), message("a", "4"), message("b", "5"))
		a := accept(t, b)
		require.NoError(t, a.Defer(ctx, receive(t, a)))
		require.NoError(t, a.DeadLetter(ctx, receive(t, a), "reason", "description"))
		receive(t, a)

		for name, test := range map[string]struct {
			options PeekOptions
			want    []string
		}{
			"everything":       {PeekOptions{}, []string{"1", "2", "4", "5"}},
			"from a number on": {PeekOptions{From: sequences[1]}, []string{"2", "4", "5"}},
			"at most":          {PeekOptions{From: sequences[1], Most: 2}, []string{"2", "4"}},
			"of a session":     {PeekOptions{SessionID: "a"}, []string{"1", "4"}},
			"all of that":      {PeekOptions{From: sequences[2], Most: 1, SessionID: "b"}, []string{"5"}},
			"dead letters":     {PeekOptions{DeadLetters: true}, []string{"3"}},
			"nothing":          {PeekOptions{DeadLetters: true, SessionID: "b"}, nil},
		} {
			got, err := b.PeekFrom(ctx, orders, billing, test.options)
			require.NoError(t, err)
			require.Equal(t, test.want, ids(got), name)
		}
		got, err := b.Peek(ctx, orders, billing)
		require.NoError(t, err)
		require.Equal(t, StateDeferred, got[0].State)
		require.Equal(t, StateActive, got[2].State, "in delivery")
	})
}

func TestTheSessionsAreThoseWithActiveMessagesOrState(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		kill(t, b, message("dead", "1"))
		send(t, b, message("deferred", "2"))
		s := accept(t, b)
		require.NoError(t, s.Defer(ctx, receive(t, s)))
		s, err := b.AcceptSession(ctx, orders, billing, "state")
		require.NoError(t, err)
		require.NoError(t, s.SetState(ctx, []byte("x")))
		send(t, b, message("waiting", "3"), message("held", "4"), message("held", "5"))
		s, err = b.AcceptSession(ctx, orders, billing, "held")
		require.NoError(t, err)
		receiveAll(t, s, 2)

		sessions, err := b.Sessions(ctx, orders, billing)
		require.NoError(t, err)
		require.Equal(t, []string{"held", "state", "waiting"}, sessions)
	})
}

func TestTheTopicsAreThoseDeclaredWhateverBecomesOfTheDeclaration(t *testing.T) {
	topics := func() []Topic {
		return []Topic{{Name: orders, Subscriptions: []Subscription{{Name: billing, Subjects: []string{"A"}}}}, {Name: "idle"}}
	}
	declaration := topics()
	bubble(t, declaration, func(t *testing.T, b *Bus) {
		for range 2 {
			require.Equal(t, topics(), b.Topics())
			declaration[0].Subscriptions[0].Subjects[0] = "changed"
			declaration = b.Topics()
		}
	})
}
