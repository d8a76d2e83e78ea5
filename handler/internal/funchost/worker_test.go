package funchost

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A handler that is killed again before it was ready must not strand whoever
// waited for that life of it.
func TestWhoWaitsForALifeThatIsNeverReadyGetsTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := make(chan struct{})
		w := &worker{
			base: "http://handler", patience: 1 << 40, stopped: make(chan struct{}), life: newLife(),
			transport: roundTripper(func(*http.Request) (*http.Response, error) {
				select {
				case <-up:
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
				default:
					return nil, errors.New("connection refused")
				}
			}),
		}
		go func() { _ = w.supervise(t.Context()) }() // looks at the first life
		synctest.Wait()
		w.exited() // the second is nobody's but the waiter's
		got := make(chan *life, 1)
		go func() {
			l, err := w.awaitReady(t.Context())
			if err == nil {
				got <- l
			}
		}()
		synctest.Wait()
		w.exited()
		close(up)
		require.Same(t, w.present(), <-got)
	})
}

// Between the end of the handler and the news of it a message must not use up
// its deliveries at a port that nobody listens on.
func TestAHandlerThatDiedCostsAMessageOneDeliveryHoweverLateTheNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var died time.Time
		handler := alive(func(w http.ResponseWriter, _ *http.Request, _ delivered) { succeed(w) })
		s := start(t, func(h *Host) {
			h.transport = roundTripper(func(r *http.Request) (*http.Response, error) {
				if !died.IsZero() && time.Since(died) < 10*time.Second {
					return nil, errors.New("connection refused")
				}
				return inProcess{handler}.RoundTrip(r)
			})
		})
		synctest.Wait() // it is ready
		died = time.Now()
		time.AfterFunc(500*time.Millisecond, s.host.HandlerExited)
		s.send(message("o-1", "m-1"))
		require.ErrorIs(t, s.next().Err, ErrKilled)
		again := s.next()
		require.NoError(t, again.Err)
		require.Equal(t, 2, again.DeliveryCount)
	})
}
