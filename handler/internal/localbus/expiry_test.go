package localbus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func lasting(m Message, timeToLive time.Duration) Message {
	m.TimeToLive = timeToLive
	return m
}

func TestAMessageThatOutlivesItsTimeToLiveIsDead(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, lasting(message("s", "short"), time.Hour), message("s", "long"))
		pass(time.Hour - time.Nanosecond)
		require.Equal(t, []string{"short", "long"}, peeked(t, b))
		pass(time.Nanosecond)
		require.Equal(t, []string{"long"}, peeked(t, b))
		dead := dead(t, b)
		require.Equal(t, []string{"short"}, ids(dead))
		require.Equal(t, "TTLExpiredException", dead[0].DeadLetterReason)
		require.Equal(t, "The message expired and was dead lettered.", dead[0].DeadLetterDescription)
		require.Equal(t, "long", receive(t, accept(t, b)).MessageID)
	})
}

func TestTheSessionWithTheOldestMessageLeftIsAcceptedFirst(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, lasting(message("a", "1"), time.Hour), message("b", "2"), message("a", "3"), lasting(message("c", "4"), time.Hour))
		pass(time.Hour)
		require.Equal(t, "b", accept(t, b).ID())
		require.Equal(t, "a", accept(t, b).ID())
		requireNoSession(t, b)
	})
}

func TestAMessageInDeliveryExpiresWhenThatEnds(t *testing.T) {
	ends := map[string]func(t *testing.T, s *Session, m *Message){
		"abandoned": func(t *testing.T, s *Session, m *Message) { require.NoError(t, s.Abandon(t.Context(), m)) },
		"released":  func(t *testing.T, s *Session, m *Message) { require.NoError(t, s.Release(t.Context(), m)) },
		"closed":    func(t *testing.T, s *Session, _ *Message) { require.NoError(t, s.Close()) },
		"lost":      func(_ *testing.T, s *Session, _ *Message) { <-s.Lost() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
				send(t, b, lasting(message("s", "m"), time.Second))
				s := accept(t, b)
				m := receive(t, s)
				pass(2 * time.Second)
				require.Equal(t, []string{"m"}, peeked(t, b))
				end(t, s, m)
				synctest.Wait()
				require.Empty(t, peeked(t, b))
				require.Equal(t, "TTLExpiredException", dead(t, b)[0].DeadLetterReason)
				requireNoSession(t, b)
			})
		})
	}
}

func TestAnExpiredMessageGivenBackIsNotForWhoWaits(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, lasting(message("s", "m"), time.Second))
		s := accept(t, b)
		m := receive(t, s)
		next := make(chan string)
		go func() {
			m, err := s.Receive(t.Context())
			if err == nil {
				next <- m.MessageID
			}
		}()
		pass(2 * time.Second)
		require.NoError(t, s.Release(t.Context(), m))
		send(t, b, message("s", "n"))
		require.Equal(t, "n", <-next)
		require.Equal(t, []string{"m"}, ids(dead(t, b)))
	})
}

func TestAMessageCompletedInTimeDoesNotExpire(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, lasting(message("s", "m"), time.Second))
		s := accept(t, b)
		m := receive(t, s)
		pass(2 * time.Second)
		require.NoError(t, s.Complete(t.Context(), m))
		require.Empty(t, peeked(t, b))
		require.Empty(t, dead(t, b))
	})
}

func TestADeferredMessageExpiresWhenItIsAskedFor(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		sequences := send(t, b, lasting(message("s", "m"), time.Second), message("s", "n"))
		s := accept(t, b)
		require.NoError(t, s.Defer(ctx, receive(t, s)))
		require.NoError(t, s.Defer(ctx, receive(t, s)))
		pass(2 * time.Second)
		require.Equal(t, []string{"m", "n"}, peeked(t, b))
		_, err := s.ReceiveDeferred(ctx, sequences...)
		require.ErrorIs(t, err, ErrNotFound)
		require.Equal(t, []string{"m"}, ids(dead(t, b)))
		_, err = s.ReceiveDeferred(ctx, sequences[1])
		require.NoError(t, err)
	})
}

func TestAScheduledMessageLivesFromWhenItIsDue(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, scheduledAt(lasting(message("s", "m"), time.Hour), time.Now().Add(24*time.Hour)))
		pass(25*time.Hour - time.Nanosecond)
		require.Equal(t, []string{"m"}, peeked(t, b))
		pass(time.Nanosecond)
		require.Empty(t, peeked(t, b))
	})
}

func TestAMessageThatExpiredBetweenTwoRunsIsDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := newFile(t)
		b := openBus(t, path, oneQueue())
		send(t, b, lasting(message("s", "m"), time.Hour), lasting(message("s", "n"), 3*time.Hour))
		require.NoError(t, b.Close())
		pass(2 * time.Hour)
		b = openBus(t, path, oneQueue())
		require.Equal(t, "n", receive(t, accept(t, b)).MessageID)
		require.Equal(t, []string{"m"}, ids(dead(t, b)))
	})
}

func TestMoreExpiredMessagesThanOneTransactionTakesAllDie(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		messages := numbered("s", 2*maxActivated+1)
		for i := range messages {
			messages[i].TimeToLive = time.Hour
		}
		send(t, b, messages...)
		pass(time.Hour)
		require.Empty(t, peeked(t, b))
		require.Equal(t, ids(messages), ids(dead(t, b)))
	})
}
