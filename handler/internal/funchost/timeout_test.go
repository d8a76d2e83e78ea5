package funchost

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEmptyOrNullAnswerHangsUntilTheFunctionTimeoutAndKillsTheHandler(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]func(http.ResponseWriter){
		"empty 200":           func(w http.ResponseWriter) { answer(w, 200, "application/json", "") },
		"empty 200 as text":   func(w http.ResponseWriter) { answer(w, 200, "text/plain", "") },
		"202 without a body":  func(w http.ResponseWriter) { w.WriteHeader(202) },
		"204":                 func(w http.ResponseWriter) { w.WriteHeader(204) },
		"null":                func(w http.ResponseWriter) { answer(w, 200, "application/json", "null") },
		"null in white space": func(w http.ResponseWriter) { answer(w, 200, "application/json", " null\n") },
		"white space":         func(w http.ResponseWriter) { answer(w, 200, "application/json", "\n") },
		"nothing written":     func(http.ResponseWriter) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var killed []string
				s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, d delivered) {
					if d.DeliveryCount == 1 {
						reply(w)
						return
					}
					succeed(w)
				}), func(h *Host) { h.OnTimeout = func(function string) { killed = append(killed, function) } })
				s.send(message("o-1", "m-1"))
				inv := s.next()
				require.ErrorIs(t, inv.Err, ErrTimeout)
				require.ErrorContains(t, inv.Err, "timeout value of 00:05:00 exceeded by function order-placed")
				require.ErrorContains(t, inv.Err, "empty or null")
				require.Equal(t, 5*time.Minute, inv.Duration)
				require.Equal(t, []string{"order-placed"}, killed)
				again := s.next()
				require.NoError(t, again.Err)
				require.Equal(t, 2, again.DeliveryCount)
			})
		})
	}
}

func TestSlowInvocationIsEndedByTheFunctionTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, r *http.Request, d delivered) {
			if d.DeliveryCount == 1 {
				<-r.Context().Done()
			}
			succeed(w)
		}), nil)
		s.send(message("o-1", "m-1"))
		inv := s.next()
		require.ErrorIs(t, inv.Err, ErrTimeout)
		require.Equal(t, 5*time.Minute, inv.Duration)
		require.NoError(t, s.next().Err)
	})
}

func TestWithoutAFunctionTimeoutAnInvocationMayTakeADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := enact(t, alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) {
			<-time.After(24 * time.Hour)
			succeed(w)
		}), func(h *Host) {
			h.App.FunctionTimeout = 0
			h.App.ServiceBus.MaxAutoLockRenewalDuration = -time.Millisecond // without end
		})
		s.send(message("o-1", "m-1"))
		inv := s.next()
		require.NoError(t, inv.Err)
		require.NoError(t, inv.SettleErr)
		require.Equal(t, 24*time.Hour, inv.Duration)
	})
}

func TestKillTakesEveryRunningInvocationAndLaterOnesWaitUntilTheHandlerIsReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var readyAgain atomic.Pointer[time.Time]
		readyAgain.Store(&begin)
		handler := alive(func(w http.ResponseWriter, r *http.Request, d delivered) {
			if d.DeliveryCount == 1 {
				<-r.Context().Done()
				return
			}
			succeed(w)
		})
		s := start(t, func(h *Host) {
			h.OnTimeout = func(string) {
				at := time.Now().Add(10 * time.Second)
				readyAgain.Store(&at)
			}
			h.transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if time.Now().Before(*readyAgain.Load()) {
					return nil, errors.New("connection refused")
				}
				return inProcess{handler}.RoundTrip(r)
			})
		})
		s.send(message("hangs", "m-1"))
		<-time.After(time.Minute)
		s.send(message("bystander", "m-2"))
		failures := map[string]error{}
		for range 2 {
			inv := s.next()
			failures[inv.MessageID] = inv.Err
			require.Equal(t, 5*time.Minute, time.Since(begin).Truncate(time.Second))
		}
		require.ErrorIs(t, failures["m-1"], ErrTimeout)
		require.ErrorIs(t, failures["m-2"], ErrKilled)
		for range 2 {
			require.NoError(t, s.next().Err)
			require.Equal(t, 5*time.Minute+10*time.Second, time.Since(begin).Truncate(time.Second))
		}
	})
}

func TestHandlerThatDoesNotComeBackAfterAKillEndsTheHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var killed atomic.Bool
		s := start(t, func(h *Host) {
			h.OnTimeout = func(string) { killed.Store(true) }
			h.transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if killed.Load() {
					return nil, errors.New("connection refused")
				}
				return inProcess{alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) { w.WriteHeader(204) })}.RoundTrip(r)
			})
		})
		s.send(message("o-1", "m-1"))
		require.ErrorIs(t, s.stopped(), ErrNotReady)
	})
}

func TestHostWaitsForALateHandlerBeforeItListens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin, probes, first := time.Now(), 0, ""
		handler := alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) { succeed(w) })
		s := start(t, func(h *Host) {
			h.transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				if probes++; probes == 1 {
					first = r.Method + " " + r.URL.String()
				}
				if time.Since(begin) < 10*time.Second {
					return nil, errors.New("connection refused")
				}
				return inProcess{handler}.RoundTrip(r)
			})
		})
		s.send(message("o-1", "m-1"))
		require.NoError(t, s.next().Err)
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.Equal(t, "GET http://127.0.0.1:0/", first)
		require.Equal(t, 10*40+2, probes) // every 25 ms, then GET / answered, then the message
	})
}

func TestHostGivesUpAHandlerThatIsNeverReady(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]roundTrip{
		"refused": func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
		"silent": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				s := start(t, func(h *Host) { h.transport = transport })
				err := s.stopped()
				require.ErrorIs(t, err, ErrNotReady)
				require.ErrorContains(t, err, "within 00:00:30")
				require.Equal(t, 30*time.Second, time.Since(begin))
			})
		})
	}
}

func TestHostThatIsStoppedBeforeTheHandlerIsReadyJustEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := start(t, func(h *Host) {
			h.transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") })
		})
		<-time.After(time.Second)
		s.stop()
		require.NoError(t, s.stopped())
	})
}
