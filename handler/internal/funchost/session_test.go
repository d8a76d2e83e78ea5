package funchost

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/localbus"
)

func TestFailedMessageComesAgainAtOnceAndFirstInItsSessionUntilTheDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, d delivered) {
			if d.MessageID == "poison" {
				answer(w, 500, "application/json", success)
				return
			}
			succeed(w)
		}), nil)
		s.send(message("o-1", "before"), message("o-1", "poison"), message("o-1", "after"))
		begin := time.Now()
		want := []string{"before 1"}
		for n := range 10 {
			want = append(want, fmt.Sprint("poison ", n+1))
		}
		want = append(want, "after 1")
		var got []string
		for range want {
			inv := s.next()
			require.NoError(t, inv.SettleErr)
			got = append(got, fmt.Sprint(inv.MessageID, " ", inv.DeliveryCount))
		}
		require.Equal(t, want, got)
		require.Less(t, time.Since(begin), 50*time.Millisecond)
		dead, err := s.bus.DeadLetters(t.Context(), "orders", "order-placed")
		require.NoError(t, err)
		require.Len(t, dead, 1)
		require.Equal(t, "MaxDeliveryCountExceeded", dead[0].DeadLetterReason)
		require.Zero(t, s.active())
	})
}

func TestSessionsRunBesideEachOtherAndEachInItsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) {
			<-time.After(time.Second)
			succeed(w)
		}), nil)
		<-time.After(time.Second) // ready
		begin := time.Now()
		for n := range 5 {
			for session := range 4 {
				s.send(message(fmt.Sprint("o-", session), fmt.Sprint("m-", session, "-", n)))
			}
		}
		seen := map[string]int{}
		for range 20 {
			inv := s.next()
			require.Equal(t, fmt.Sprint("m-", inv.SessionID[2:], "-", seen[inv.SessionID]), inv.MessageID)
			seen[inv.SessionID]++
		}
		require.Equal(t, 5*time.Second, time.Since(begin)) // and not twenty
	})
}

func TestSlowHandlerInOneSessionDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, d delivered) {
			if d.SessionID == "slow" {
				<-time.After(time.Minute)
			}
			succeed(w)
		}), nil)
		s.send(message("slow", "m-slow"))
		for n := range 3 {
			s.send(message("quick", fmt.Sprint("m-", n)), message(fmt.Sprint("other-", n), fmt.Sprint("n-", n)))
		}
		for range 6 {
			require.NotEqual(t, "slow", s.next().SessionID)
		}
		last := s.next()
		require.Equal(t, "m-slow", last.MessageID)
		require.Equal(t, time.Minute, last.Duration)
	})
}

func TestNoMoreSessionsAreHeldThanAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			succeed(w)
		}), func(h *Host) { h.App.ServiceBus.MaxConcurrentSessions = 3 })
		for n := range 7 {
			s.send(message(fmt.Sprint("o-", n), fmt.Sprint("m-", n)))
		}
		for range 7 {
			require.NoError(t, s.next().Err)
		}
		require.Equal(t, 3, most)
	})
}

func TestIdleSessionIsLetGoAfterTheIdleTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) { succeed(w) }),
			func(h *Host) { h.App.ServiceBus.MaxConcurrentSessions = 1 })
		s.send(message("o-1", "m-1"))
		require.Equal(t, "m-1", s.next().MessageID)
		begin := time.Now()
		s.send(message("o-2", "m-2"))
		<-time.After(1900 * time.Millisecond)
		s.send(message("o-1", "m-3")) // the session that is held goes first, and its idle time starts again
		require.Equal(t, "m-3", s.next().MessageID)
		require.Equal(t, "m-2", s.next().MessageID)
		require.Equal(t, 3900*time.Millisecond, time.Since(begin))
	})
}

func TestRenewalKeepsASessionBeyondItsLockDuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) {
			<-time.After(4*time.Minute + 30*time.Second) // the lock lasts one
			succeed(w)
		}), nil)
		s.send(message("o-1", "m-1"))
		inv := s.next()
		require.NoError(t, inv.Err)
		require.NoError(t, inv.SettleErr)
		require.Zero(t, s.active())
	})
}

func TestRenewalEndsAndTheMessageComesAgainThoughItSucceeded(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]time.Duration{"never renewed": 0, "renewed for 90 s": 90 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, d delivered) {
					if d.DeliveryCount == 1 {
						<-time.After(4 * time.Minute)
					}
					succeed(w)
				}), func(h *Host) { h.App.ServiceBus.MaxAutoLockRenewalDuration = limit })
				s.send(message("o-1", "m-1"))
				// The session is free once its lock has run out: the second
				// delivery overtakes the first, which is still running.
				second := s.next()
				require.Equal(t, 2, second.DeliveryCount)
				require.NoError(t, second.SettleErr)
				first := s.next()
				require.Equal(t, 1, first.DeliveryCount)
				require.NoError(t, first.Err)
				require.ErrorIs(t, first.SettleErr, localbus.ErrSessionLockLost)
			})
		})
	}
}

func TestRenewalCountsFromTheSessionsAcceptanceAndNotPerMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) {
			<-time.After(50 * time.Second)
			succeed(w)
		}), func(h *Host) { h.App.ServiceBus.MaxAutoLockRenewalDuration = time.Minute })
		s.send(message("o-1", "m-1"), message("o-1", "m-2"), message("o-1", "m-3"))
		require.NoError(t, s.next().SettleErr)
		require.NoError(t, s.next().SettleErr)
		third := s.next() // begun at 100 s; the last renewal at 50 s held until 110 s
		require.ErrorIs(t, third.SettleErr, localbus.ErrSessionLockLost)
	})
}

func TestStopLetsInvocationsFinishUndisturbed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan context.Context, 1)
		s := enact(t, alive(func(w http.ResponseWriter, r *http.Request, _ delivered) {
			begun <- r.Context()
			select {
			case <-time.After(time.Minute):
				succeed(w)
			case <-r.Context().Done():
			}
		}), nil)
		s.send(message("o-1", "m-1"), message("o-1", "m-2"), message("o-2", "m-3"))
		<-begun
		<-begun
		s.stop()
		require.NoError(t, s.stopped())
		require.NoError(t, s.next().Err)
		require.NoError(t, s.next().Err)
		require.Empty(t, s.ended, "nothing new is begun")
		require.Equal(t, 1, s.active())
		session, err := s.bus.AcceptSession(t.Context(), "orders", "order-placed", "o-1")
		require.NoError(t, err, "sessions are given back")
		require.NoError(t, session.Close())
	})
}

func TestStopCutsInvocationsOffAfterTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan bool, 1)
		s := enact(t, alive(func(_ http.ResponseWriter, r *http.Request, _ delivered) {
			begun <- true
			<-r.Context().Done()
		}), func(h *Host) { h.StopGrace = 5 * time.Second })
		s.send(message("o-1", "m-1"))
		<-begun
		begin := time.Now()
		s.stop()
		require.NoError(t, s.stopped())
		require.Equal(t, 5*time.Second, time.Since(begin))
		inv := s.next()
		require.ErrorIs(t, inv.Err, ErrStopped)
		require.NoError(t, inv.SettleErr)
		require.Equal(t, 1, s.active())
	})
}

func TestSubscriptionThatTheBusDoesNotHaveEndsTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(nil), func(h *Host) {
			bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), nil, time.Now)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, bus.Close()) })
			h.Bus = bus
		})
		err := s.stopped()
		require.ErrorIs(t, err, localbus.ErrNotFound)
		require.ErrorContains(t, err, "listening for order-placed")
	})
}

func TestDisabledFunctionIsNotListenedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(nil), func(h *Host) {
			for i := range h.App.Functions {
				h.App.Functions[i].Disabled = true
			}
		})
		s.send(message("o-1", "m-1"))
		<-time.After(time.Hour)
		require.Equal(t, 1, s.active())
		require.Empty(t, s.ended)
	})
}
