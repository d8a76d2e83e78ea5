package outbox_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/outbox"
)

// table is the outbox in memory. It claims as the store does: of each order's
// commands the first, unless somebody is at work on them, and every deadline.
// Leases and tokens are those of the real one.
type table struct {
	mu     sync.Mutex
	rows   []*row
	orders map[string][]*row
	// ahead is how many commands of an order a claim takes, in a line.
	ahead int
	// What fails. before is asked as a call comes in, after when it was carried
	// out; both by the name of the method, and both may wait.
	before, after func(method string) error

	claims, renewals int
	wants            []workflow.Want
	recalls          []workflow.Recall
}

type row struct {
	workflow.Claimed
	sent, dead bool
	visibleAt  time.Time
	token      string
	lastError  string
	marks      []workflow.Mark
}

func (r *row) leased() bool { return r.token != "" && r.visibleAt.After(time.Now()) }

func (r *row) ended() bool { return r.sent || r.dead }

// add puts commands of an order into the table: "A1", "A2".
func (t *table) add(ids ...string) {
	for _, id := range ids {
		t.put(workflow.Outgoing{ID: id, OrderID: id[:1]})
	}
}

func (t *table) addDeadline(ids ...string) {
	for _, id := range ids {
		t.put(workflow.Outgoing{ID: id, OrderID: id[:1], Purpose: workflow.PaymentTimeout})
	}
}

func (t *table) put(out workflow.Outgoing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &row{Claimed: workflow.Claimed{Outgoing: out, Seq: int64(len(t.rows) + 1)}, visibleAt: time.Now()}
	t.rows = append(t.rows, r)
	if t.orders == nil {
		t.orders = make(map[string][]*row)
	}
	t.orders[r.OrderID] = append(t.orders[r.OrderID], r)
}

// alphabet adds the first command of each of 26 orders.
func (t *table) alphabet() {
	for i := range 26 {
		t.add(fmt.Sprintf("%c1", 'A'+i))
	}
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
	case r.dead:
		return "dead"
	case r.sent:
		return "sent"
	case r.leased():
		return "claimed"
	default:
		return fmt.Sprintf("waiting after %d attempts", r.Attempt)
	}
}

// attempts is how often rows were tried, all together.
func (t *table) attempts() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		n += r.Attempt
	}
	return n
}

// asked is how often rows were claimed.
func (t *table) asked() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claims
}

// call carries a method out, between what fails before and after.
func (t *table) call(ctx context.Context, method string, do func()) error {
	t.mu.Lock()
	before := t.before
	t.mu.Unlock()
	if before != nil {
		if err := before(method); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	do()
	after := t.after
	t.mu.Unlock()
	if after != nil {
		return after(method)
	}
	return nil
}

// set changes what fails while others use the table.
func (t *table) set(before, after func(string) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before, t.after = before, after
}

func (t *table) Claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) (claimed []workflow.Claimed, err error) {
	err = t.call(ctx, "claim", func() { claimed = t.claim(token, want, most, lease) })
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

func (t *table) claim(token string, want workflow.Want, most int, lease time.Duration) (claimed []workflow.Claimed) {
	t.claims++
	t.wants = append(t.wants, want)
	var free []*row
	taken := make(map[string]int)      // by order, commands
	since := make(map[*row]time.Time)  // when its turn came: not before those before it
	last := make(map[string]time.Time) // by order
	for _, r := range t.rows {
		command := r.Purpose == ""
		if command && !want.Commands || !command && !want.Deadlines {
			continue
		}
		if !r.ended() && !r.visibleAt.After(time.Now()) && (!command || t.next(r, taken[r.OrderID])) {
			free = append(free, r)
			since[r] = r.visibleAt
			if command {
				taken[r.OrderID]++
				if last[r.OrderID].After(r.visibleAt) {
					since[r] = last[r.OrderID]
				}
				last[r.OrderID] = since[r]
			}
		}
	}
	slices.SortStableFunc(free, func(a, b *row) int { return since[a].Compare(since[b]) })
	free = free[:min(most, len(free))]
	slices.SortStableFunc(free, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.OrderID, b.OrderID), cmp.Compare(a.Seq, b.Seq))
	})
	for i, r := range free {
		if r.Purpose == "" && slices.ContainsFunc(t.orders[r.OrderID], func(p *row) bool {
			return p.Purpose == "" && !p.ended() && p.Seq < r.Seq && !slices.Contains(free[:i], p)
		}) {
			continue // an earlier one did not find room
		}
		r.token, r.visibleAt = token, time.Now().Add(lease)
		r.Attempt++
		claimed = append(claimed, r.Claimed)
	}
	return claimed
}

// next reports whether a command may be claimed behind so many of its order.
func (t *table) next(r *row, behind int) bool {
	waiting := 0
	for _, p := range t.orders[r.OrderID] {
		if p.Purpose != "" || p == r {
			continue
		}
		if p.leased() {
			return false
		}
		if !p.ended() && p.Seq < r.Seq {
			waiting++
		}
	}
	return waiting == behind && behind < max(1, t.ahead)
}

// holds are the rows that a token holds.
func (t *table) holds(token string) (held []*row) {
	for _, r := range t.rows {
		if r.token == token && r.leased() {
			held = append(held, r)
		}
	}
	return held
}

func (t *table) Renew(ctx context.Context, token string, lease time.Duration) (held int, err error) {
	err = t.call(ctx, "renew", func() {
		t.renewals++
		for _, r := range t.holds(token) {
			r.visibleAt = time.Now().Add(lease)
			held++
		}
	})
	return held, err
}

func (t *table) Mark(ctx context.Context, token string, marks []workflow.Mark) error {
	return t.call(ctx, "mark", func() {
		held := t.holds(token)
		for _, m := range marks {
			i := slices.IndexFunc(held, func(r *row) bool { return r.OrderID == m.OrderID && r.Seq == m.Seq })
			if i < 0 {
				continue
			}
			r := held[i]
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
				if m.Refused {
					r.Refusals++
				}
			}
		}
	})
}

func (t *table) Bury(ctx context.Context, token string, c workflow.Claimed, reason string) error {
	return t.call(ctx, "bury", func() {
		for _, r := range t.holds(token) {
			if r.OrderID == c.OrderID && r.Seq == c.Seq {
				r.dead, r.token, r.lastError = true, "", reason
			}
		}
	})
}

func (t *table) Recalls(ctx context.Context, most int) (found []workflow.Recall, err error) {
	err = t.call(ctx, "recalls", func() { found = slices.Clone(t.recalls[:min(most, len(t.recalls))]) })
	return found, err
}

func (t *table) Recalled(ctx context.Context, done []workflow.Recall) error {
	return t.call(ctx, "recalled", func() {
		t.recalls = slices.DeleteFunc(t.recalls, func(r workflow.Recall) bool { return slices.Contains(done, r) })
	})
}

// only makes one method fail.
func only(which string, err error) func(string) error {
	return func(method string) error {
		if method == which {
			return err
		}
		return nil
	}
}

// broker takes messages one by one, and notes when each came.
type broker struct {
	mu       sync.Mutex
	got      []string
	at       map[string]time.Time
	tries    int // calls that reached it
	canceled []int64
	// refuse decides about a message; nil accepts all. It may wait.
	refuse func(ctx context.Context, id string) error
	// keep decides whether a deadline stays there; nil lets go of all.
	keep func(ctx context.Context, sequence int64) error
}

func (b *broker) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	b.mu.Lock()
	b.tries++
	b.mu.Unlock()
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

func (b *broker) Cancel(ctx context.Context, sequence int64) error {
	b.mu.Lock()
	b.tries++
	b.mu.Unlock()
	if b.keep != nil {
		if err := b.keep(ctx, sequence); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.canceled = append(b.canceled, sequence)
	return nil
}

// tried is how often somebody came to it.
func (b *broker) tried() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tries
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

var (
	errDown    = errors.New("the broker is down")
	errRefused = fmt.Errorf("%w: no", workflow.ErrMessageRefused)
	errNever   = fmt.Errorf("%w: too large", workflow.ErrNeverAccepted)
)

// fails makes a broker fail at some messages.
func fails(err error, ids ...string) func(context.Context, string) error {
	return func(_ context.Context, id string) error {
		if slices.Contains(ids, id) {
			return err
		}
		return nil
	}
}

// hanging makes a broker not answer about some messages until their time is up.
func hanging(which ...string) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		if !slices.Contains(which, id) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// taking makes a broker take its time for some messages, or for all.
func taking(d time.Duration, which ...string) func(context.Context, string) error {
	return func(ctx context.Context, id string) error {
		if len(which) > 0 && !slices.Contains(which, id) {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lines is a log in memory: "ERROR it broke error=...".
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with lists the lines of a level.
func (l *lines) with(level slog.Level) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if rest, ok := strings.CutPrefix(line, "level="+level.String()+" msg="); ok {
			found = append(found, strings.TrimSuffix(rest, "\n"))
		}
	}
	return found
}

func logTo(d *outbox.Dispatcher) *lines {
	var l lines
	d.Log = slog.New(slog.NewTextHandler(&l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return &l
}

func dispatcher(t outbox.Rows, s outbox.Sender) *outbox.Dispatcher {
	var mu sync.Mutex
	d := &outbox.Dispatcher{Rows: t, Sender: s, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 0.5 }}
	n := 0
	d.Token = func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprintf("%p-%d", d, n)
	}
	return d
}

// known is a dispatcher that has seen both topics take a message.
func known(tb testing.TB, t *table, b *broker) *outbox.Dispatcher {
	tb.Helper()
	d, refuse := dispatcher(t, b), b.refuse
	b.refuse = nil
	t.add("=1")
	t.addDeadline("=2")
	sent, _, err := d.Drain(tb.Context())
	require.NoError(tb, err)
	require.Equal(tb, 2, sent)
	b.refuse, b.tries, b.got = refuse, 0, nil
	t.rows, t.orders, t.claims, t.wants = nil, nil, 0, nil
	return d
}

// drained runs a drain that must not fail.
func drained(t *testing.T, d *outbox.Dispatcher) (sent int, more bool) {
	t.Helper()
	sent, more, err := d.Drain(t.Context())
	require.NoError(t, err)
	return sent, more
}
