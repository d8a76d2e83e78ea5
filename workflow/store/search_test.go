package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// TestListsBesideManyOrdersReadNoMoreThanTheyShow holds the lists of operators to
// bounds that a scan of so many orders would break by far.
func TestListsBesideManyOrdersReadNoMoreThanTheyShow(t *testing.T) {
	t.Parallel()
	many := 200_000 // takes some seconds to fill in
	if testing.Short() || raceEnabled {
		many = 5_000
	}
	s := opened(t, Options{})
	fill(t, s, many)
	for _, look := range looks {
		begun := time.Now()
		rows, err := look.at(t.Context(), s)
		took := time.Since(begun)
		require.NoError(t, err, look.what)
		t.Logf("%s: %d rows in %s", look.what, rows, took.Round(10*time.Microsecond))
		require.Less(t, took, 2*time.Second, look.what)
	}
	var ids []string
	q := workflow.Search{Top: 1000, Statuses: []workflow.Status{workflow.AwaitingPayment, workflow.NeedsAttention}}
	for begun, after := time.Now(), ""; ; {
		q.After = after
		p, err := s.Orders(t.Context(), q)
		require.NoError(t, err)
		for _, l := range p.Items {
			ids = append(ids, l.Order.ID)
		}
		if after = p.Next; after == "" {
			t.Logf("all pages of two statuses: %d rows in %s", len(ids), time.Since(begun).Round(time.Millisecond))
			break
		}
	}
	require.Len(t, ids, many/25)
	require.True(t, slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }), "the last first")
	sum, err := s.Summary(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[workflow.Status]int{
		workflow.Completed: many / 10 * 9, workflow.Cancelled: many / 50 * 3, workflow.AwaitingPayment: many / 100 * 3, workflow.NeedsAttention: many / 100,
	}, sum.ByStatus)
}

func TestAnOrderThatMovesWhileAPageIsReadIsOnItOnceAtMost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after string // what of the read it moves behind
		q     workflow.Search
		want  []string
	}{
		{"newest", workflow.Search{}, []string{"order-1", "order-0"}},
		{"details", workflow.Search{}, []string{"order-1", "order-0"}},
		{"details", workflow.Search{Statuses: []workflow.Status{workflow.AwaitingInventory}}, []string{"order-0"}},
	} {
		s, spy := watched(t, Options{})
		for _, order := range []string{"order-0", "order-1"} {
			_, err := s.Handle(t.Context(), placed(t, order))
			require.NoError(t, err)
		}
		text := map[string]string{"newest": s.text.newest, "details": s.text.listed(2)}[c.after]
		reads := 0
		before := func() error {
			if reads++; c.after == "newest" && reads != 2 || c.after == "details" && reads != 1 {
				return nil // it is read as it was, and then in its other status
			}
			_, err := s.Handle(t.Context(), reserved(t, "order-1"))
			return err
		}
		spy.step(text, before, nil)
		p, err := s.Orders(t.Context(), c.q)
		require.NoError(t, err)
		var ids []string
		for _, l := range p.Items {
			ids = append(ids, l.Order.ID)
		}
		require.Equal(t, c.want, ids)
	}
}

func TestARejectedMessageThatComesAgainWhileItIsToBeForgottenStays(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	s, spy := watched(t, Options{Now: func() time.Time { return clock }})
	r := workflow.Rejection{Envelope: workflow.Envelope{ID: "m-1", Body: []byte("{]")}, Reason: "malformed"}
	require.NoError(t, s.Reject(t.Context(), r))
	p, err := s.Rejections(t.Context(), 1, "")
	require.NoError(t, err)
	id := p.Items[0].ID
	require.NoError(t, s.Discard(t.Context(), id, "ada", "why"))
	clock = clock.Add(31 * 24 * time.Hour)
	once := true
	spy.step(s.text.settledLong, nil, func() error {
		if once {
			once = false
			return s.Reject(t.Context(), r)
		}
		return nil
	})
	_, err = s.Sweep(t.Context())
	require.NoError(t, err)
	m, err := s.Rejection(t.Context(), id)
	require.NoError(t, err)
	require.True(t, m.Open)
	require.Equal(t, 2, m.Times)
	require.NoError(t, s.Discard(t.Context(), id, "ada", "why"))
	_, err = s.Sweep(t.Context())
	require.NoError(t, err)
	_, err = s.Rejection(t.Context(), id)
	require.NoError(t, err, "it was settled just now")
}

func TestOnSQLServerAPageOfOrdersIsTwoRoundTripsHoweverManyStatuses(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{})
	var sets []tdsRows
	for range workflow.Table() {
		sets = append(sets, tdsRows{like: []any{"", someday}})
	}
	sets[2].rows = [][]any{{"order-42", someday}}
	const state = `{"schema":1,"order":{"amount":5}}`
	l.instead = func(r tdsRequest) (tdsAnswer, bool) {
		switch {
		case strings.Contains(r.text, "order_id, updated_at FROM dbo.orders"):
			return tdsAnswer{sets: sets}, true
		case strings.Contains(r.text, "o.order_id IN (CAST(@p1 AS nvarchar(96)));"):
			row := []any{"order-42", int64(3), int64(2), "AwaitingPayment", state, someday, someday, someday, "m", someday, int64(1), someday, int64(2), someday}
			return tdsAnswer{sets: []tdsRows{rowsOf(row)}}, true
		}
		return tdsAnswer{}, false
	}
	messages, _ := server.during(func() {
		page, err := s.Orders(t.Context(), workflow.Search{})
		require.NoError(t, err)
		require.Equal(t, workflow.Page[workflow.Listed]{Items: []workflow.Listed{{
			Order: workflow.Order{ID: "order-42", Status: workflow.AwaitingPayment, Version: 2, Amount: 5}, Revision: 3,
			CreatedAt: someday, Since: someday, UpdatedAt: someday, BlockedBy: "m", DeadlineAt: someday, Dead: 1, Waiting: someday, Held: 2, HeldSince: someday,
		}}}, page)
	})
	require.Equal(t, map[byte]int{tdsCall: 2}, messages)
}
