package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// oneAfterTheOther is an app that gives these answers; nil is none, for the
// connection is lost.
func oneAfterTheOther(answers ...*http.Response) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		a := answers[0]
		answers = answers[1:]
		if a == nil {
			return nil, errors.New("connection reset by peer")
		}
		return a, nil
	}
}

func TestALostAnswerIsAskedForAgainUnderTheSameKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unready := func(headers ...string) *http.Response { return reply(503, asProblem, `{"detail":"busy"}`, headers...) }
		for _, c := range []struct {
			name    string
			answers []*http.Response
			code    int
			took    time.Duration
		}{
			{"at once", []*http.Response{reply(202, asJSON, cancelled)}, exitDone, 0},
			{"the third time", []*http.Response{nil, nil, reply(200, asJSON, cancelled)}, exitDone, 1500 * time.Millisecond},
			{"it is not ready", []*http.Response{unready(), reply(502, "text/html", ""), reply(504, "", ""), reply(202, asJSON, cancelled)}, exitDone, 3500 * time.Millisecond},
			{"it says when", []*http.Response{unready("Retry-After", "5"), reply(429, "", "", "Retry-After", "3600"), reply(202, asJSON, cancelled)}, exitDone, 15 * time.Second},
			{"never", []*http.Response{nil, nil, nil, nil}, exitFailed, 3500 * time.Millisecond},
			{"never ready", []*http.Response{unready(), unready(), unready(), unready()}, exitFailed, 3500 * time.Millisecond},
			{"a decision ends it", []*http.Response{nil, reply(409, asProblem, `{"detail":"no"}`)}, exitRefused, 500 * time.Millisecond},
		} {
			d := sit(oneAfterTheOther(c.answers...))
			begun := time.Now()
			require.Equal(t, c.code, d.run(t, "orders", "cancel", "order-42", "-reason", "r", "-version", "2"), c.name)
			require.Equal(t, c.took, time.Since(begun), c.name)
			require.Len(t, d.asked, len(c.answers), c.name)
			require.Equal(t, len(c.answers)-1, strings.Count(d.err.String(), "; asking again in "), "whoever waits knows why")
			for i := range d.asked {
				require.Equal(t, d.headers[0], d.headers[i], c.name)
				require.Equal(t, d.bodies[0], d.bodies[i], c.name)
			}
			require.Equal(t, c.code == exitFailed, strings.Contains(d.err.String(), "the same command with -idempotency-key fresh-key does it once"), c.name)
		}
		d := sit(oneAfterTheOther(reply(202, asJSON, cancelled)))
		require.Zero(t, d.run(t, "orders", "cancel", "order-42", "-reason", "r", "-idempotency-key", "as before"))
		require.Equal(t, "as before", d.headers[0].Get("Idempotency-Key"))
	})
}

func TestARunThatBringsDeadLettersBackIsAskedForOnceSinceAnotherBringsBackMore(t *testing.T) {
	t.Parallel()
	for _, lost := range []*http.Response{nil, reply(504, "", "")} {
		d := sit(oneAfterTheOther(lost, reply(200, asJSON, `{"action":"redrive","handled":1,"outcomes":{},"failed":[],"more":true,"trouble":[]}`)))
		require.Equal(t, exitFailed, d.run(t, "dead-letters", "redrive", "-top", "1", "-reason", "r"))
		require.Len(t, d.asked, 1)
		require.Contains(t, d.err.String(), "the same command goes on with what is left")
		require.NotContains(t, d.err.String(), "-idempotency-key", "which a run does not heed")
	}
}

func TestWhatWasPerhapsDoneByALostTryIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := func() *http.Response {
			return reply(404, asProblem, `{"detail":"there is no rejected message of this ID"}`)
		}
		d := sit(oneAfterTheOther(nil, gone()))
		require.Equal(t, exitNotFound, d.run(t, "rejected", "discard", "abc", "-reason", "r"))
		require.Contains(t, d.err.String(), "an earlier try got no answer, and may have done it")
		d = sit(oneAfterTheOther(gone()))
		require.Equal(t, exitNotFound, d.run(t, "rejected", "discard", "abc", "-reason", "r"))
		require.NotContains(t, d.err.String(), "earlier try")
	})
}

func TestHealthIsAskedOnceAndABadAnswerIsOne(t *testing.T) {
	t.Parallel()
	d := sit(always(503, asJSON, `{"status":"unavailable","degraded":["the database cannot be worked with"]}`))
	require.Equal(t, exitFailed, d.run(t, "health"))
	require.Equal(t, "unavailable\n  - the database cannot be worked with\n", d.out.String())
	require.Len(t, d.asked, 1)
	d = sit(always(503, "text/html", "<h1>"))
	require.Equal(t, exitFailed, d.run(t, "health"))
	require.Len(t, d.asked, 1)
	require.Empty(t, d.out.String())
	require.Contains(t, d.err.String(), "503 Service Unavailable")

	d = sit(always(200, asJSON, `{"status":"degraded","degraded":["the broker refused commands for good"]}`))
	require.Zero(t, d.run(t, "health"))
	require.Equal(t, exitFound, d.run(t, "health", "-fail", "-o", "json"))
	require.Contains(t, d.out.String(), `{"status":"degraded"`)
	require.Zero(t, sit(always(200, asJSON, `{"status":"ready","degraded":[]}`)).run(t, "health", "-fail"))
}

// silent is an app that never answers; its body neither, if it has begun one.
func silent(begun bool) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if !begun {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		a := reply(202, asJSON, "")
		a.Body = io.NopCloser(waiting{r.Context()})
		return a, nil
	}
}

type waiting struct{ context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.Done()
	return 0, w.Err()
}

func TestAnAppThatHangsIsGivenUpAfterTheTimeoutAndNotAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, begun := range []bool{false, true} {
			d := sit(silent(begun))
			start := time.Now()
			require.Equal(t, exitFailed, d.run(t, "orders", "cancel", "order-42", "-reason", "r"))
			require.Equal(t, 90*time.Second, time.Since(start))
			require.Len(t, d.asked, 1)
			require.Contains(t, d.err.String(), "no answer within 1m30s")
			require.Contains(t, d.err.String(), "-idempotency-key fresh-key")
			start = time.Now()
			require.Equal(t, exitFailed, d.run(t, "orders", "show", "order-42", "-timeout", "2s"))
			require.Equal(t, 2*time.Second, time.Since(start))
			require.NotContains(t, d.err.String(), "-idempotency-key", "a look changes nothing")
		}
	})
}

func TestInterruptedItEndsAtOnceAndSaysThatItMayBeDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }
		for _, answers := range []func(*http.Request) (*http.Response, error){silent(false), silent(true), lost} {
			d := sit(answers)
			ctx, interrupt := context.WithCancelCause(t.Context())
			time.AfterFunc(200*time.Millisecond, func() { interrupt(errors.New("interrupted")) })
			start := time.Now()
			require.Equal(t, exitFailed, Run(ctx, []string{"orders", "cancel", "order-42", "-reason", "r"}, d.System))
			require.Equal(t, 200*time.Millisecond, time.Since(start))
			require.Contains(t, d.err.String(), "orderflow: interrupted\n")
			require.Contains(t, d.err.String(), "-idempotency-key fresh-key")
		}
	})
}

func TestAnAnswerThatNeverEndsIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	d := sit(func(*http.Request) (*http.Response, error) {
		a := reply(200, asJSON, "")
		a.Body = io.NopCloser(endless{})
		return a, nil
	})
	require.Equal(t, exitFailed, d.run(t, "health"))
	require.Contains(t, d.err.String(), "larger than 67108864 bytes")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	copy(p, slices.Repeat([]byte(" "), len(p)))
	return len(p), nil
}
