package functions_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

func TestWhateverIsWrongTheProcessIsAlive(t *testing.T) {
	t.Parallel()
	h := functions.App{}.Handler()
	answer := send(h, newRequest(t, http.MethodGet, "/api/health/live", http.NoBody))
	require.Equal(t, 200, answer.Code)
	require.JSONEq(t, `{"status":"alive","degraded":[]}`, answer.Body.String())
	answer = send(h, newRequest(t, http.MethodHead, "/api/health/live", http.NoBody))
	require.Equal(t, 200, answer.Code)
	require.Empty(t, answer.Body.Bytes())
}

func TestReadyIsWhoCanWorkOnOrdersAndDegradedWhoNeedsAPerson(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		backlog workflow.Backlog
		want    string
		level   string
	}{
		"nothing to do": {workflow.Backlog{}, `{"status":"ready","degraded":[]}`, "INFO"},
		"a lot to do":   {workflow.Backlog{Waiting: 1000, Lag: 5 * time.Minute, Early: 50}, `{"status":"ready","degraded":[]}`, "INFO"},
		"a lag":         {workflow.Backlog{Lag: 5*time.Minute + 1}, `{"status":"degraded","degraded":["messages have waited more than 5 minutes to be sent"]}`, "WARN"},
		"all of it": {workflow.Backlog{Dead: 1, Blocked: 1, Overdue: 1}, `{"status":"degraded","degraded":["orders are blocked by messages that could not be handled",
			"the broker refused commands for good","deadlines have passed and have not come back from the broker"]}`, "WARN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{count: func(context.Context) (workflow.Backlog, error) { return tt.backlog, nil }}
			answer := w.get(t, "/api/health/ready")
			require.Equal(t, 200, answer.Code)
			require.JSONEq(t, tt.want, answer.Body.String())
			require.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
			require.Equal(t, tt.level, w.logged(t)["level"])
		})
	}
}

func TestWithoutItsDatabaseTheAppIsNotReadyAndDoesNotSayWhyToEverybody(t *testing.T) {
	t.Parallel()
	secret := errors.New("sqlserver://sa:s3cret@db.example.com: login failed")
	for name, w := range map[string]*world{
		"it cannot be reached or has another schema": {office: office{isReady: func(context.Context) error { return secret }}},
		"it cannot be read":                          {count: func(context.Context) (workflow.Backlog, error) { return workflow.Backlog{}, secret }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				w.log.Reset()
				answer := ask(t, w.app(), method, "/api/health/ready", "")
				require.Equal(t, 503, answer.Code)
				require.Equal(t, "5", answer.Header().Get("Retry-After"))
				require.NotContains(t, answer.Body.String(), "s3cret")
				require.NotContains(t, answer.Body.String(), "db.example.com")
				if method == http.MethodGet {
					require.JSONEq(t, `{"status":"unavailable","degraded":["the database cannot be worked with"]}`, answer.Body.String())
				}
				require.Equal(t, "ERROR", w.logged(t)["level"])
			}
		})
	}
}

func TestReadinessIsFoundOutInBoundedTimeHoweverManyAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{office: office{isReady: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}}
		began := time.Now()
		statuses := postMany(t, w.app().Handler(), 20, func(int) *http.Request {
			return newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody)
		})
		require.Equal(t, map[int]int{503: 20}, statuses())
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestTheDatabaseIsLookedAtOnceASecondHoweverOftenReadinessIsAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		var trouble error
		w := world{office: office{isReady: func(context.Context) error {
			looks++
			time.Sleep(10 * time.Millisecond)
			return trouble
		}}}
		a := w.app()
		a.Now = time.Now
		h := a.Handler()
		many := func() map[int]int {
			return postMany(t, h, 30, func(int) *http.Request { return newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody) })()
		}
		require.Equal(t, map[int]int{200: 30}, many())
		require.Equal(t, 1, looks)
		time.Sleep(time.Second)
		trouble = errors.New("away")
		require.Equal(t, map[int]int{503: 30}, many(), "that it is away is shared as well")
		require.Equal(t, 2, looks)
		time.Sleep(time.Second)
		trouble = nil
		require.Equal(t, map[int]int{200: 30}, many())
		require.Equal(t, 3, looks)
	})
}

func TestAPanicInALookAtTheDatabaseLetsTheNextOneLook(t *testing.T) {
	t.Parallel()
	looks := 0
	w := world{office: office{isReady: func(context.Context) error {
		if looks++; looks == 1 {
			panic("a fault")
		}
		return nil
	}}}
	h := w.app().Handler()
	require.Equal(t, 500, send(h, newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody)).Code)
	require.Equal(t, 200, send(h, newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody)).Code)
}
