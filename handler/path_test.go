package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// path is the way of a message from the HTTP body to the commit, in one process
// and without a socket.
type path struct {
	handler http.Handler
	orders  int
}

func newPath(t testing.TB) *path {
	t.Helper()
	db, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "orders.db"), store.Options{Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return &path{handler: functions.App{Process: db, Orders: db, Now: time.Now, Concurrent: 128}.Handler()}
}

// place posts the next order's OrderPlaced.
func (p *path) request() *http.Request {
	p.orders++
	id := fmt.Sprintf("order-%d", p.orders)
	body := message("m1", workflow.OrderPlaced, id, map[string]any{
		"customerId": "c-7", "currency": "EUR", "amount": 12990, "lines": []map[string]any{{"sku": "A/1", "quantity": 2}},
	})
	return httptest.NewRequest(http.MethodPost, "/order-placed", bytes.NewReader(body))
}

func TestFromTheBodyToTheCommitAMessageAllocatesAtMost250Times(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too; the same test runs without it")
	}
	p := newPath(t)
	const runs = 100
	var requests []*http.Request
	for range runs + 1 {
		requests = append(requests, p.request())
	}
	next := 0
	allocations := testing.AllocsPerRun(runs, func() {
		answer := httptest.NewRecorder()
		p.handler.ServeHTTP(answer, requests[next])
		next++
		if answer.Code != http.StatusOK {
			t.Fatal(answer.Body)
		}
	})
	t.Logf("%.0f allocations", allocations)
	require.LessOrEqual(t, allocations, 250.0)
}

// BenchmarkFromTheBodyToTheCommit counts what one message costs.
func BenchmarkFromTheBodyToTheCommit(b *testing.B) {
	p := newPath(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		request := p.request()
		b.StartTimer()
		p.handler.ServeHTTP(httptest.NewRecorder(), request)
	}
}
