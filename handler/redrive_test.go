package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow/store/storetest"
)

// ask is a request to an instance, as its host passes it on.
func (i *instance) ask(ctx context.Context, method, path, body string) (status int, answer map[string]any) {
	request := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	got := httptest.NewRecorder()
	i.host.ServeHTTP(got, request)
	_ = json.Unmarshal(got.Body.Bytes(), &answer)
	return got.Code, answer
}

// TestAfterAnOutageLongerThanTenDeliveriesWhatTheBrokerGaveUpIsBroughtBack takes
// the database away until messages of orders that are under way have become dead
// letters.
func TestAfterAnOutageLongerThanTenDeliveriesWhatTheBrokerGaveUpIsBroughtBack(t *testing.T) {
	t.Parallel()
	const orders = 60
	executable, err := binary()
	require.NoError(t, err)
	r := raise(t, rigging{
		instances: 1, executable: executable, window: 10 * time.Minute, idle: 200 * time.Millisecond,
		environ: map[string]string{"HandlerDeadline": "1s", "OutboxLease": "2s"},
	})
	world, end := befriend(t, r)
	defer end()
	place := func(from, until int) {
		for n := from; n < until; n++ {
			order := fmt.Sprintf("order-%03d", n)
			require.NoError(t, world.mail(t.Context(), order, "shop:"+order, orderBody(order, 12990)))
		}
	}
	place(0, orders/2)
	db := r.sql()
	require.Eventually(t, func() bool { return number(t.Context(), db, `SELECT COUNT(*) FROM orders`) > orders/4 },
		30*time.Second, 5*time.Millisecond, "orders are under way")

	taken, err := db.Conn(t.Context())
	require.NoError(t, err)
	_, err = taken.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)
	place(orders/2, orders)
	require.Eventually(t, func() bool { return len(r.deadLetters(t.Context())) >= orders/2 && r.onTheBus(t.Context()) == 0 },
		time.Minute, 100*time.Millisecond, "the broker gives them up")
	before := r.deadLetters(t.Context())
	_, answer := r.instances[0].ask(t.Context(), http.MethodPost, "/api/operations/dead-letters/redrive", `{"reason":"too early"}`)
	require.NotEqual(t, false, answer["more"])
	require.Len(t, r.deadLetters(t.Context()), len(before), "while the database is away nothing is lost by trying")
	_, err = taken.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, taken.Close())

	dead := r.deadLetters(t.Context())
	t.Logf("%d messages were given up, such as %s", len(dead), dead[0])
	require.Eventually(t, func() bool {
		_, answer := r.instances[0].ask(t.Context(), http.MethodGet, "/api/health/ready", "")
		return answer["status"] == "degraded" && strings.Contains(fmt.Sprint(answer["degraded"]), "the broker gave up messages")
	}, 30*time.Second, 100*time.Millisecond, "health says so")
	// A second is little on a machine that is busy: what it is not enough for is
	// asked for again.
	require.Eventually(t, func() bool {
		status, answer := r.instances[0].ask(t.Context(), http.MethodGet, "/api/operations/dead-letters?top=1000", "")
		letters, _ := answer["deadLetters"].([]any)
		return status == http.StatusOK && len(letters) == len(dead)
	}, 30*time.Second, 100*time.Millisecond, "they are listed")
	handled := 0
	require.Eventually(t, func() bool {
		status, answer := r.instances[0].ask(t.Context(), http.MethodPost, "/api/operations/dead-letters/redrive", `{"reason":"the database is back"}`)
		if status != http.StatusOK {
			return false
		}
		handled += int(answer["handled"].(float64))
		return answer["more"] == false
	}, time.Minute, 10*time.Millisecond, "they are brought back")
	require.GreaterOrEqual(t, handled, len(dead))
	require.Empty(t, r.deadLetters(t.Context()))
	require.Eventually(t, func() bool {
		return number(t.Context(), db, `SELECT COUNT(*) FROM orders WHERE status = 'Completed'`) == orders && r.onTheBus(t.Context()) == 0
	}, 60*time.Second, 50*time.Millisecond, "every order goes on and ends well")
	r.stop()
	require.Empty(t, r.deadLetters(t.Context()))
	record := storetest.Sound(t.Context(), t, r.sql())
	require.Empty(t, record.Unrest(time.Now()))
	wrong, belated := record.Misheard(world.heard)
	require.Empty(t, wrong)
	require.Empty(t, belated)
	require.Empty(t, record.Unheard(world.heard))
}
