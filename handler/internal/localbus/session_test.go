package localbus

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASessionHasOneHolder(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"))
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		require.Equal(t, "s", s.ID())

		_, err = b.AcceptSession(t.Context(), orders, billing, "s")
		require.ErrorIs(t, err, ErrSessionLocked)
		requireNoSession(t, b)

		require.NoError(t, s.Close())
		_, err = b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
	})
}

func TestTheSameSessionOfTwoSubscriptionsHasTwoHolders(t *testing.T) {
	topics := []Topic{{Name: orders, Subscriptions: []Subscription{{Name: billing}, {Name: "other"}}}}
	bubble(t, topics, func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"))
		s := accept(t, b)
		other, err := b.AcceptNextSession(t.Context(), orders, "other")
		require.NoError(t, err)
		require.NoError(t, s.Complete(t.Context(), receive(t, s)))
		require.Equal(t, "m", receive(t, other).MessageID)
	})
}

func TestAnEmptySessionCanBeAcceptedByName(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		_, err := b.AcceptSession(t.Context(), orders, billing, "")
		require.ErrorIs(t, err, ErrSessionRequired)
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		requireEmpty(t, s)
		send(t, b, message("s", "m"))
		require.Equal(t, "m", receive(t, s).MessageID)
	})
}

func TestTheSessionWithTheOldestMessageIsAcceptedFirst(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("a", "1"), message("b", "2"), message("c", "3"), message("a", "4"), message("b", "5"))
		a := accept(t, b)
		require.Equal(t, "a", a.ID())
		require.NoError(t, a.Complete(t.Context(), receive(t, a)))
		require.NoError(t, a.Close(), "its first message is now 4")
		var order []string
		for range 3 {
			order = append(order, accept(t, b).ID())
		}
		require.Equal(t, []string{"b", "c", "a"}, order)
		requireNoSession(t, b)
	})
}

func TestWhoHasWaitedLongestForASessionIsServedFirst(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		served := make(chan int, 3)
		for i := range 3 {
			go func() {
				s, err := b.AcceptNextSession(t.Context(), orders, billing)
				if err == nil && s != nil {
					served <- i
				}
			}()
			synctest.Wait()
		}
		for i, session := range []string{"a", "b", "c"} {
			send(t, b, message(session, session))
			require.Equal(t, i, <-served)
		}
	})
}

func TestWaitingForASessionEndsWithTheContext(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		requireNoSession(t, b)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		send(t, b, message("s", "m"))
		_, err := b.AcceptNextSession(ended, orders, billing)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, "s", accept(t, b).ID(), "who gave up holds nothing")
	})
}

func TestMessagesOfASessionAreReceivedInOrder(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 3)...)
		s := accept(t, b)
		for _, want := range []string{"s-1", "s-2", "s-3"} {
			m := receive(t, s)
			require.Equal(t, want, m.MessageID)
			require.True(t, s.LockedUntil().Equal(m.LockedUntil))
			require.NoError(t, s.Complete(t.Context(), m))
		}
		requireEmpty(t, s)
		require.Empty(t, peeked(t, b))
	})
}

func TestSeveralMessagesOfASessionAreInDeliveryAtOnceAndSettledInAnyOrder(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 4)...)
		s := accept(t, b)
		got := receiveAll(t, s, 4)
		require.Equal(t, []string{"s-1", "s-2", "s-3", "s-4"}, pointed(got))
		requireEmpty(t, s)
		for _, i := range []int{2, 0, 3, 1} {
			require.NoError(t, s.Complete(t.Context(), got[i]))
		}
		require.Empty(t, peeked(t, b))
	})
}

func TestReceiveWaitsForTheNextMessage(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		received := make(chan *Message)
		go func() {
			m, _ := s.Receive(t.Context())
			received <- m
		}()
		synctest.Wait()
		send(t, b, message("other", "x"), message("s", "m"))
		require.Equal(t, "m", (<-received).MessageID)
	})
}

func TestWhoHasWaitedLongestForAMessageIsServedFirst(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		served := make(chan string, 3)
		for i := range 3 {
			go func() {
				m, err := s.Receive(t.Context())
				if err == nil {
					served <- fmt.Sprint(i, m.MessageID)
				}
			}()
			synctest.Wait()
		}
		for i := range 3 {
			send(t, b, message("s", "m"))
			require.Equal(t, fmt.Sprint(i, "m"), <-served)
		}
	})
}

func TestAReceiveThatGaveUpHoldsNothing(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		requireEmpty(t, s)
		send(t, b, message("s", "m"))
		m := receive(t, s)
		require.Equal(t, 1, m.DeliveryCount)
		require.NoError(t, s.Complete(t.Context(), m))
	})
}

func TestAnExpiredLockGivesTheSessionToOthersAndCountsTheDelivery(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		start := time.Now()
		send(t, b, numbered("s", 2)...)
		late := accept(t, b)
		require.True(t, late.LockedUntil().Equal(start.Add(time.Minute)))
		m := receive(t, late)

		s := accept(t, b)
		require.Equal(t, time.Minute, time.Since(start), "woken as the lock expired")
		again := receive(t, s)
		require.Equal(t, "s-1", again.MessageID)
		require.Equal(t, 2, again.DeliveryCount)
		require.NotEqual(t, m.LockToken, again.LockToken)

		ctx := t.Context()
		require.ErrorIs(t, late.Complete(ctx, m), ErrSessionLockLost)
		require.ErrorIs(t, late.Complete(ctx, again), ErrSessionLockLost)
		require.ErrorIs(t, late.Abandon(ctx, m), ErrSessionLockLost)
		require.ErrorIs(t, late.DeadLetter(ctx, m, "", ""), ErrSessionLockLost)
		require.ErrorIs(t, late.Renew(ctx), ErrSessionLockLost)
		_, err := late.Receive(ctx)
		require.ErrorIs(t, err, ErrSessionLockLost)
		require.NoError(t, late.Close())
		require.NoError(t, s.Complete(ctx, again), "the late holder changed nothing")
	})
}

func TestALockIsLostAtTheMomentItExpiresWhoeverAsks(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"))
		s := accept(t, b)
		m := receive(t, s)
		pass(time.Minute - time.Nanosecond)
		require.NoError(t, s.Renew(t.Context()))
		pass(time.Minute)
		require.ErrorIs(t, s.Complete(t.Context(), m), ErrSessionLockLost)
		require.Equal(t, []string{"m"}, peeked(t, b))
	})
}

func TestALostLockCountsEveryMessageInDeliveryAndGivesThemBackInOrder(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 4)...)
		s := accept(t, b)
		got := receiveAll(t, s, 3)
		require.NoError(t, s.Complete(t.Context(), got[1]))

		again := receiveAll(t, accept(t, b), 3) // as soon as the lock has expired
		require.Equal(t, []string{"s-1", "s-3", "s-4"}, pointed(again))
		require.Equal(t, 2, again[0].DeliveryCount)
		require.Equal(t, 2, again[1].DeliveryCount)
		require.Equal(t, 1, again[2].DeliveryCount)
		require.ErrorIs(t, s.Complete(t.Context(), got[0]), ErrSessionLockLost)
	})
}

func TestWhoListensLearnsThatTheLockIsLost(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		accepted := func() *Session {
			s, err := b.AcceptSession(t.Context(), orders, billing, "s")
			require.NoError(t, err)
			pass(time.Minute - time.Nanosecond)
			select {
			case <-s.Lost():
				t.Fatal("it is held")
			default:
			}
			return s
		}
		expires := accepted()
		pass(time.Nanosecond)
		<-expires.Lost()

		closed := accepted()
		require.NoError(t, closed.Close())
		<-closed.Lost()
		require.NoError(t, closed.Close(), "again")

		last := accepted()
		require.NoError(t, b.Close())
		<-last.Lost()
	})
}

func TestAnExpiredLockWithoutAMessageCountsNothing(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"))
		accept(t, b)
		require.Equal(t, 1, receive(t, accept(t, b)).DeliveryCount)
	})
}

func TestWhoWaitsForAMessageLearnsThatTheLockIsLost(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		_, err = s.Receive(t.Context())
		require.ErrorIs(t, err, ErrSessionLockLost, "expired")

		s, err = b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		lost := make(chan error)
		go func() {
			_, err := s.Receive(t.Context())
			lost <- err
		}()
		synctest.Wait()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-lost, ErrSessionLockLost, "closed")
	})
}

func TestNothingOfAnEmptySessionStaysInMemory(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("completed", "1"), message("deferred", "2"), lasting(message("expires", "3"), time.Second))
		for _, settle := range []func(*Session, context.Context, *Message) error{(*Session).Complete, (*Session).Defer} {
			s := accept(t, b)
			require.NoError(t, settle(s, t.Context(), receive(t, s)))
			require.NoError(t, s.Close())
		}
		pass(time.Second)
		require.NoError(t, b.do(t.Context(), func() error {
			require.Empty(t, b.topics[orders].queues[billing].lanes)
			return nil
		}))
	})
}

func TestARenewedLockLasts(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"))
		s := accept(t, b)
		m := receive(t, s)
		for range 5 {
			pass(40 * time.Second)
			require.NoError(t, s.Renew(t.Context()))
			require.True(t, s.LockedUntil().Equal(time.Now().Add(time.Minute)))
		}
		require.NoError(t, s.Complete(t.Context(), m))
	})
}

func TestAClosedSessionGivesItsMessagesBackInOrderWithoutCountingThem(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, numbered("s", 3)...)
		closed := accept(t, b)
		m := receiveAll(t, closed, 2)[0]
		require.NoError(t, closed.Close())
		require.NoError(t, closed.Close())
		require.ErrorIs(t, closed.Complete(t.Context(), m), ErrSessionLockLost)

		again := receiveAll(t, accept(t, b), 3)
		require.Equal(t, []string{"s-1", "s-2", "s-3"}, pointed(again))
		for _, m := range again {
			require.Equal(t, 1, m.DeliveryCount)
		}
	})
}

func TestACloseWakesWhoeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := openBus(t, newFile(t), oneQueue())
		s, err := b.AcceptSession(t.Context(), orders, billing, "s")
		require.NoError(t, err)
		woken := make(chan error)
		go func() {
			_, err := s.Receive(t.Context())
			woken <- err
		}()
		go func() {
			_, err := b.AcceptNextSession(t.Context(), orders, billing)
			woken <- err
		}()
		synctest.Wait()
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-woken, ErrClosed)
		require.ErrorIs(t, <-woken, ErrClosed)

		_, err = b.Send(t.Context(), orders, message("s", "m"))
		require.ErrorIs(t, err, ErrClosed)
		_, err = b.Peek(t.Context(), orders, billing)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, s.Close(), ErrClosed)
		require.NoError(t, b.Close(), "again")
	})
}
