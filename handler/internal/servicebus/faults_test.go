package servicebus

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/busserver"
	"orderflow/workflow"
	"orderflow/workflow/outbox"
	"orderflow/workflow/store"
)

// sendTimeout is that of the dispatcher here: what a lost answer costs.
const sendTimeout = 250 * time.Millisecond

// faults are what goes wrong, a few times, while an outbox is drained.
func faults() map[string]func(busserver.Event) busserver.Fault {
	always := func(f busserver.Fault) func() busserver.Fault { return func() busserver.Fault { return f } }
	cut := always(busserver.Fault{Cut: true})
	detach := always(busserver.Fault{Detach: amqp.Errorf(amqp.DetachForced, "upgrade")})
	disabled := always(busserver.Fault{Detach: amqp.Errorf("com.microsoft:entity-disabled", "maintenance")})
	busy := always(busserver.Fault{Refuse: busserver.ServerBusy()})
	mute := always(busserver.Fault{LoseAnswer: true})
	late := func() busserver.Fault {
		until := make(chan struct{})
		time.AfterFunc(sendTimeout*3/2, func() { close(until) })
		return busserver.Fault{Until: until}
	}
	refused := always(busserver.Fault{Refuse: amqp.Errorf("com.microsoft:argument-error", "no")})

	arrived, taken, attaching, requested := busserver.Arrived, busserver.Taken, busserver.Attaching, busserver.Requested
	return map[string]func(busserver.Event) busserver.Fault{
		"nothing":                         nil,
		"cut before the bus has it":       every(9, 8, arrived, cut),
		"cut when the bus has it":         every(9, 8, taken, cut),
		"cut on attaching":                every(1, 5, attaching, cut),
		"cut on a request":                every(3, 6, requested, cut),
		"detached on attaching":           every(1, 6, attaching, detach),
		"detached before the bus has it":  every(9, 8, arrived, detach),
		"detached when the bus has it":    every(9, 8, taken, detach),
		"detached on a request":           every(3, 6, requested, detach),
		"detached for good":               every(9, 8, arrived, disabled),
		"detached for good, done":         every(9, 8, taken, disabled),
		"detached for good, on a request": every(3, 6, requested, disabled),
		"busy on attaching":               every(1, 6, attaching, busy),
		"busy before the bus has it":      every(1, 10, arrived, busy),
		"busy when the bus has it":        every(3, 20, taken, busy),
		"busy on a request":               every(1, 10, requested, busy),
		"the answer is lost":              every(7, 10, taken, mute),
		"the message is lost":             every(7, 10, arrived, mute),
		"the request is lost":             every(3, 5, requested, mute),
		"the answer is late":              every(20, 3, taken, late),
		"the message is late":             every(20, 3, arrived, late),
		"the link is late":                every(1, 2, attaching, late),
		"the request is late":             every(6, 2, requested, late),
		"refused":                         every(5, 12, arrived, refused),
		"refused, though it is done":      every(5, 12, taken, refused),
	}
}

// rows is an outbox that a test can look into.
type rows interface {
	outbox.Rows
	add(messages ...workflow.Outgoing)
	// unsent lists what is not marked as sent, and why.
	unsent() []string
	// pass lets time pass.
	pass(d time.Duration)
}

const ordersInTable, commandsOfEach = 20, 5

func TestWhateverGoesWrongEachOrdersCommandsAreFirstAcceptedInOrderAndNoneIsMissing(t *testing.T) {
	t.Parallel()
	for _, kept := range []struct {
		name  string
		open  func(*testing.T) rows
		lines bool
	}{
		{"from the store", inStore, false},
		{"in whole lines", inMemory, true},
	} {
		for fault, on := range faults() {
			if kept.lines && !strings.Contains(fault, "the bus") && !strings.Contains(fault, "message") && !strings.Contains(fault, "refused") {
				continue // a line makes no difference to it
			}
			t.Run(kept.name+", "+fault, func(t *testing.T) {
				t.Parallel()
				drives(t, kept.open(t), on)
			})
		}
	}
}

// drives drains an outbox over a broker with a fault until everything is
// marked as sent, and looks at what the broker has then.
func drives(t *testing.T, r rows, on func(busserver.Event) busserver.Fault) {
	t.Helper()
	b := serve(t, on)
	want := map[string]workflow.Outgoing{} // by ID
	var lines [][]string
	due := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond)
	for n := range ordersInTable {
		order := fmt.Sprintf("order-%d", n)
		line := commands(order, commandsOfEach, n)
		lines = append(lines, names(line))
		for _, out := range append(line, deadline(order, due.Add(time.Duration(n)*time.Second))) {
			want[out.ID] = out
			r.add(out)
		}
	}

	var token atomic.Int64
	d := &outbox.Dispatcher{
		Rows: r, Sender: sender(t, b.connection()), Log: slog.New(slog.DiscardHandler),
		Token:  func() string { return fmt.Sprint(token.Add(1)) },
		Jitter: func() float64 { return 0 }, SendTimeout: sendTimeout, Lease: 10 * time.Second,
	}
	require.Eventually(t, func() bool {
		if _, _, err := d.Drain(t.Context()); err != nil {
			t.Error(err)
			return true
		}
		r.pass(10 * time.Minute) // and what failed may be tried again, if its topic is well
		return len(r.unsent()) == 0
	}, time.Minute, 110*time.Millisecond, "it does not come to an end")

	first := map[string][]string{}
	seen := map[string]bool{}
	for _, topic := range []string{topics.Commands, topics.Orders} {
		for _, m := range b.sent(topic) {
			out, known := want[m.MessageID]
			require.True(t, known, m.MessageID)
			require.Equal(t, out.Purpose != "", topic == topics.Orders, m.MessageID)
			require.Equal(t, asSent(out), asIt(m), "repeats are the same")
			if !seen[m.MessageID] && out.Purpose == "" {
				first[m.SessionID] = append(first[m.SessionID], m.MessageID)
			}
			seen[m.MessageID] = true
		}
	}
	require.Len(t, seen, len(want), "nothing is missing")
	received := map[string][]string{}
	for _, m := range b.active(topics.Commands) {
		received[m.SessionID] = append(received[m.SessionID], m.MessageID)
	}
	for _, line := range lines {
		order := want[line[0]].OrderID
		require.Equal(t, line, first[order], "in order of first acceptance")
		require.Equal(t, line, received[order], "once each, where repeats are looked for")
	}
	require.Len(t, b.scheduled(), ordersInTable)
	require.Equal(t, on != nil, b.struck > 0, "something went wrong on the way")
	for _, batch := range b.events() {
		for _, m := range batch.Messages {
			require.Equal(t, batch.Messages[0].SessionID, m.SessionID)
		}
	}
}

// stored is the real outbox table. Its clock is the test's.
type stored struct {
	*store.Store

	t     *testing.T
	db    *sql.DB
	ahead *atomic.Int64 // how far its clock is ahead
	next  int64
}

func inStore(t *testing.T) rows {
	t.Helper()
	var ahead atomic.Int64
	path := filepath.Join(t.TempDir(), "orders.db")
	s, err := store.Open(t.Context(), path, store.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	require.NoError(t, err)
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_pragma=busy_timeout(10000)&_pragma=synchronous(off)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(s.Close(), db.Close())) })
	return &stored{Store: s, t: t, db: db, ahead: &ahead}
}

func (s *stored) add(messages ...workflow.Outgoing) {
	const layout = "2006-01-02T15:04:05.000000Z"
	now := time.Now().UTC().Format(layout)
	for _, out := range messages {
		var purpose, due any
		if out.Purpose != "" {
			purpose, due = string(out.Purpose), out.DueAt.Format(layout)
		}
		s.next++
		_, err := s.db.ExecContext(s.t.Context(), `INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id,
  origin_id, traceparent, purpose, due_at, body, state, visible_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)`,
			out.OrderID, s.next, out.ID, string(out.Type), out.Conversation, out.ParentID, out.OriginID, out.TraceParent,
			purpose, due, out.Body, now, now)
		require.NoError(s.t, err)
	}
}

func (s *stored) unsent() (list []string) {
	found, err := s.db.QueryContext(s.t.Context(), `SELECT message_id || ' ' || state || ': ' || last_error FROM outbox
WHERE state <> 'sent' OR token IS NOT NULL OR (purpose IS NOT NULL AND broker_sequence IS NULL)`)
	require.NoError(s.t, err)
	defer found.Close()
	for found.Next() {
		var row string
		require.NoError(s.t, found.Scan(&row))
		list = append(list, row)
	}
	require.NoError(s.t, found.Err())
	return list
}

func (s *stored) pass(d time.Duration) { s.ahead.Add(int64(d)) }

// remembered is an outbox in memory that gives out all that waits of an order,
// as a store may.
type remembered struct {
	mu   sync.Mutex
	rows []*remember
}

type remember struct {
	workflow.Claimed

	token, why        string
	sent, rests, held bool
}

func inMemory(*testing.T) rows { return &remembered{} }

func (r *remembered) add(messages ...workflow.Outgoing) {
	for _, out := range messages {
		r.rows = append(r.rows, &remember{Claimed: workflow.Claimed{Outgoing: out, Seq: int64(len(r.rows))}})
	}
}

func (r *remembered) unsent() (list []string) {
	for _, row := range r.rows {
		if !row.sent {
			list = append(list, row.ID+": "+row.why)
		}
	}
	return list
}

func (r *remembered) pass(time.Duration) {
	for _, row := range r.rows {
		row.rests = false
	}
}

func (r *remembered) Claim(_ context.Context, token string, want workflow.Want, most int, _ time.Duration) (claimed []workflow.Claimed, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	blocked := map[string]bool{} // orders whose commands wait for an earlier one
	for _, row := range r.rows {
		if row.sent || len(claimed) == most {
			continue
		}
		command := row.Purpose == ""
		if command && !want.Commands || !command && !want.Deadlines {
			continue
		}
		if row.held || row.rests || command && blocked[row.OrderID] {
			blocked[row.OrderID] = blocked[row.OrderID] || command
			continue
		}
		row.token, row.held = token, true
		row.Attempt++
		claimed = append(claimed, row.Claimed)
	}
	slices.SortStableFunc(claimed, func(a, b workflow.Claimed) int { return cmp.Compare(a.OrderID, b.OrderID) })
	return claimed, nil
}

func (r *remembered) Renew(_ context.Context, token string, _ time.Duration) (held int, _ error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.rows {
		if row.held && row.token == token {
			held++
		}
	}
	return held, nil
}

func (*remembered) Bury(_ context.Context, _ string, c workflow.Claimed, reason string) error {
	return fmt.Errorf("%s is not to die: %s", c.ID, reason)
}

func (*remembered) Recalls(context.Context, int) ([]workflow.Recall, error) { return nil, nil }

func (*remembered) Recalled(context.Context, []workflow.Recall) error { return nil }

func (r *remembered) Mark(_ context.Context, token string, marks []workflow.Mark) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range marks {
		row := r.rows[m.Seq]
		if row.token != token || !row.held {
			return fmt.Errorf("%s is not the holder's", row.ID)
		}
		row.held, row.sent, row.rests, row.why = false, m.Sent, m.Error != "", m.Error
		if m.Refused {
			row.Refusals++
		}
	}
	return nil
}
