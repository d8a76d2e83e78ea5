package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/outbox"
	"orderflow/workflow/store"
)

// broker keeps what it is sent.
type broker struct {
	mu       sync.Mutex
	sent     []workflow.Outgoing
	canceled []int64
	// refuse decides about a message; nil accepts all.
	refuse func(workflow.Outgoing) error
}

func (b *broker) Send(_ context.Context, messages []workflow.Outgoing) ([]int64, error) {
	var sequences []int64
	for _, m := range messages {
		if b.refuse != nil {
			if err := b.refuse(m); err != nil {
				return sequences, err
			}
		}
		b.mu.Lock()
		b.sent = append(b.sent, m)
		sequences = append(sequences, int64(len(b.sent)))
		b.mu.Unlock()
	}
	return sequences, nil
}

func (b *broker) Cancel(_ context.Context, sequence int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.canceled = append(b.canceled, sequence)
	return nil
}

// ids lists what came of an order, its name left out.
func (b *broker) ids(order string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []string
	for _, m := range b.sent {
		if m.OrderID == order {
			ids = append(ids, strings.TrimPrefix(m.ID, order+":"))
		}
	}
	return ids
}

// errRefused is a broker's refusal of a message.
var errRefused = fmt.Errorf("%w: not this one", workflow.ErrMessageRefused)

// drain runs a dispatcher once.
func (w *world) drain(s outbox.Sender) (sent int) {
	w.Helper()
	return w.drainWith(w.Store, s)
}

func (w *world) drainWith(s *store.Store, sender outbox.Sender) (sent int) {
	w.Helper()
	var n atomic.Int64
	d := outbox.Dispatcher{
		Rows: s, Sender: sender, Log: slog.New(slog.DiscardHandler),
		Token: func() string { return fmt.Sprintf("%p-%p-%d", s, &n, n.Add(1)) }, Jitter: func() float64 { return 0 },
	}
	sent, _, err := d.Drain(w.Context())
	require.NoError(w, err)
	return sent
}

// everyKind is what a sender wants for which every topic takes messages.
var everyKind = workflow.Want{Commands: true, Deadlines: true}

// claim claims rows and returns their IDs.
func (w *world) claim(token string, lease time.Duration) (claimed []workflow.Claimed, ids []string) {
	w.Helper()
	claimed, err := w.Claim(w.Context(), token, everyKind, 100, lease)
	require.NoError(w, err)
	for _, c := range claimed {
		ids = append(ids, c.ID)
	}
	return claimed, ids
}

// mark marks claimed rows alike.
func (w *world) mark(token string, claimed []workflow.Claimed, m workflow.Mark) {
	w.Helper()
	var marks []workflow.Mark
	for _, c := range claimed {
		m.OrderID, m.Seq = c.OrderID, c.Seq
		marks = append(marks, m)
	}
	require.NoError(w, w.Mark(w.Context(), token, marks))
}

// lineOfThree brings an order to having three commands to send, in this order:
// cancel-order, refund-payment, release-inventory.
func (w *world) lineOfThree(order string) {
	w.Helper()
	w.takes(captured(order), sorry(order, workflow.CancellationRequested))
	w.takes(as(placed(order), "p"), reserved(order))
}
