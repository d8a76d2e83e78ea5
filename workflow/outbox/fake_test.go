package outbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/outbox"
)

// table is the outbox in memory. It claims as the store does: of each order's
// commands the first, unless somebody is at work on them, and every deadline.
type table struct {
	mu     sync.Mutex
	rows   []*row
	claims int
	// failing makes claims and marks fail.
	failClaim, failMark error
}

type row struct {
	workflow.Claimed
	sent      bool
	visibleAt time.Time
	token     string
	lastError string
	marks     []workflow.Mark
}

func (r *row) leased() bool { return r.token != "" && r.visibleAt.After(time.Now()) }

// add puts commands of an order into the table: "A1", "A2".
func (t *table) add(ids ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		r := &row{visibleAt: time.Now()}
		r.ID, r.OrderID, r.Seq = id, id[:1], int64(len(t.rows)+1)
		t.rows = append(t.rows, r)
	}
}

func (t *table) addDeadline(id string) {
	t.add(id)
	t.find(id).Purpose = workflow.PaymentTimeout
}

func (t *table) find(id string) *row {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.ID == id })
	return t.rows[i]
}

// state says how a row stands, for people.
func (t *table) state(id string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r := t.find(id); {
	case r.sent:
		return "sent"
	case r.leased():
		return "claimed"
	default:
		return fmt.Sprintf("waiting after %d attempts", r.Attempt)
	}
}

func (t *table) Claim(_ context.Context, token string, _ workflow.Want, most int, lease time.Duration) ([]workflow.Claimed, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claims++
	if t.failClaim != nil {
		return nil, t.failClaim
	}
	var free []*row
	for _, r := range t.rows {
		if !r.sent && !r.visibleAt.After(time.Now()) && t.first(r) {
			free = append(free, r)
		}
	}
	slices.SortStableFunc(free, func(a, b *row) int { return a.visibleAt.Compare(b.visibleAt) })
	free = free[:min(most, len(free))]
	slices.SortStableFunc(free, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.OrderID, b.OrderID), cmp.Compare(a.Seq, b.Seq))
	})
	var claimed []workflow.Claimed
	for _, r := range free {
		r.token, r.visibleAt = token, time.Now().Add(lease)
		r.Attempt++
		claimed = append(claimed, r.Claimed)
	}
	return claimed, nil
}

func (t *table) first(r *row) bool {
	return r.Purpose != "" || !slices.ContainsFunc(t.rows, func(p *row) bool {
		return p.OrderID == r.OrderID && p.Purpose == "" && p != r && (!p.sent && p.Seq < r.Seq || p.leased())
	})
}

func (t *table) Mark(ctx context.Context, token string, marks []workflow.Mark) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.failMark != nil {
		return t.failMark
	}
	for _, m := range marks {
		i := slices.IndexFunc(t.rows, func(r *row) bool { return r.OrderID == m.OrderID && r.Seq == m.Seq })
		r := t.rows[i]
		if r.token != token || !r.leased() {
			continue
		}
		r.token = ""
		r.marks = append(r.marks, m)
		switch {
		case m.Sent:
			r.sent = true
		case m.GiveBack:
			r.visibleAt = time.Now()
			r.Attempt--
		default:
			r.visibleAt, r.lastError = time.Now().Add(m.RetryAfter), m.Error
		}
	}
	return nil
}

// broker takes messages one by one, and notes when each came.
type broker struct {
	mu  sync.Mutex
	got []string
	at  map[string]time.Time
	// refuse decides about a message; nil accepts all. It may wait.
	refuse func(ctx context.Context, id string) error
}

func (b *broker) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	var sequences []int64
	for _, m := range messages {
		if b.refuse != nil {
			if err := b.refuse(ctx, m.ID); err != nil {
				return sequences, err
			}
		}
		b.mu.Lock()
		b.got = append(b.got, m.ID)
		if b.at == nil {
			b.at = map[string]time.Time{}
		}
		b.at[m.ID] = time.Now()
		b.mu.Unlock()
		sequences = append(sequences, 0)
	}
	return sequences, nil
}

// of lists what came of one order.
func (b *broker) of(order string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, id := range b.got {
		if id[:1] == order {
			ids = append(ids, id)
		}
	}
	return ids
}

var errDown = errors.New("the broker is down")

// unable makes a broker refuse some messages.
func unable(ids ...string) func(context.Context, string) error {
	return func(_ context.Context, id string) error {
		if slices.Contains(ids, id) {
			return errDown
		}
		return nil
	}
}

// hanging makes a broker not answer about a message until its time is up.
func hanging(which string) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		if id != which {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

func dispatcher(t *table, s outbox.Sender) *outbox.Dispatcher {
	n := 0
	return &outbox.Dispatcher{
		Rows: t, Sender: s, Log: slog.New(slog.DiscardHandler),
		Token:  func() string { n++; return fmt.Sprintf("%p-%d", s, n) },
		Jitter: func() float64 { return 0.5 },
	}
}

// drained runs a drain that must not fail.
func drained(t *testing.T, d *outbox.Dispatcher) (sent int, more bool) {
	t.Helper()
	sent, more, err := d.Drain(t.Context())
	require.NoError(t, err)
	return sent, more
}
