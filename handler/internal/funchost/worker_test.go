package funchost

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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
