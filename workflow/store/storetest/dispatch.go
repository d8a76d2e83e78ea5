package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/outbox"
	"orderflow/workflow/store"
)

// The size of a bad day.
const (
	badDayOrders   = 50
	badDayCommands = 19 // of each order, besides its deadline
	badDayLease    = 400 * time.Millisecond
)

func dispatching() []scenario {
	return []scenario{
		{"whatever goes wrong, each order's messages are first seen in order, none is missing, and repeats are the same", func(w *world) {
			for n := range badDayOrders {
				w.takes(placed(fmt.Sprint("order-", n)))
			}
			for n := 1; n < badDayCommands; n++ {
				w.tamper(fmt.Sprintf(`INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
					body, state, visible_at, attempts, last_error, created_at)
					SELECT order_id, seq + 1 + %[1]d, CONCAT(order_id, ':more:%[1]d'), message_type, conversation, parent_id, origin_id, traceparent,
					body, state, visible_at, attempts, last_error, created_at FROM outbox WHERE message_id LIKE '%%:reserve-inventory:1'`, n))
			}
			w.tamper(`DELETE FROM outbox WHERE purpose IS NOT NULL AND order_id LIKE '%9'`) // not every order has one
			w.db.Pass(24 * time.Hour)                                                       // so that deadlines are due

			bus := &badBroker{random: rand.New(rand.NewPCG(1, 2))}
			stop := w.clockwork()
			ctx, end := context.WithCancel(w.Context())
			var dispatchers sync.WaitGroup
			for _, s := range []*store.Store{w.Store, w.open(store.Options{})} {
				d := badDispatcher(s, bus)
				dispatchers.Go(func() {
					for ctx.Err() == nil {
						_, _, _ = d.Drain(ctx) // its failures are injected
						pause(ctx, 20*time.Millisecond)
					}
				})
			}
			require.Eventually(w, func() bool { return w.count("outbox WHERE state = 'waiting'") == 0 },
				2*time.Minute, 50*time.Millisecond, "it does not come to an end")
			end()
			dispatchers.Wait()
			bus.late.Wait()
			stop()

			first := map[string][]string{}
			seen := map[string]workflow.Outgoing{}
			for _, m := range bus.arrived {
				if earlier, again := seen[m.ID]; again {
					require.Equal(w, earlier, m, "repeats are the same")
					continue
				}
				seen[m.ID] = m
				if m.Purpose == "" {
					first[m.OrderID] = append(first[m.OrderID], strings.TrimPrefix(m.ID, m.OrderID+":"))
				}
			}
			for n := range badDayOrders {
				order := fmt.Sprint("order-", n)
				want, states := []string{"reserve-inventory:1"}, []string{"reserve-inventory:1 sent"}
				if n%10 != 9 {
					states = append(states, "inventory-timeout:1 sent")
					require.Contains(w, seen, order+":inventory-timeout:1")
				}
				for n := 1; n < badDayCommands; n++ {
					id := fmt.Sprint("more:", n)
					if neverAccepted(order + ":" + id) {
						states = append(states, id+" "+workflow.DispatchDead)
						continue
					}
					want, states = append(want, id), append(states, id+" "+workflow.DispatchSent)
				}
				require.Equal(w, want, first[order], order)
				require.ElementsMatch(w, states, w.emitted(order), order)
			}
		}},
	}
}

// neverAccepted says which messages the broker refuses for good.
func neverAccepted(id string) bool { return strings.HasSuffix(id, "7:more:3") }

// clockwork lets time pass by the database's clock as it does in the world, as a
// dispatcher has no other.
func (w *world) clockwork() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var clock sync.WaitGroup
	clock.Go(func() {
		for last := time.Now(); ctx.Err() == nil; {
			pause(ctx, 2*time.Millisecond)
			now := time.Now()
			w.db.Pass(now.Sub(last))
			last = now
		}
	})
	return func() {
		cancel()
		clock.Wait()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// badBroker is a broker on a bad day.
type badBroker struct {
	mu      sync.Mutex
	random  *rand.Rand
	arrived []workflow.Outgoing
	late    sync.WaitGroup
}

func (b *badBroker) roll(percent float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.random.Float64()*100 < percent
}

func (b *badBroker) between(least, most time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return least + time.Duration(b.random.Int64N(int64(most-least)))
}

func (b *badBroker) arrive(m workflow.Outgoing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived = append(b.arrived, m)
}

func (b *badBroker) Send(ctx context.Context, messages []workflow.Outgoing) (sequences []int64, err error) {
	for i, m := range messages {
		if err := b.deliver(ctx, m); err != nil {
			return sequences, err
		}
		sequences = append(sequences, int64(i+1))
	}
	return sequences, nil
}

func (*badBroker) Cancel(context.Context, int64) error { return nil }

// deliver is what happens to a message on its way, and to the answer.
func (b *badBroker) deliver(ctx context.Context, m workflow.Outgoing) error {
	wait := b.between(0, 3*time.Millisecond)
	if b.roll(1) {
		wait = b.between(badDayLease/2, 2*badDayLease)
	}
	pause(ctx, wait)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case neverAccepted(m.ID):
		return fmt.Errorf("%w: not this one", workflow.ErrNeverAccepted)
	case b.roll(1):
		return errors.New("the broker is down")
	case b.roll(1):
		return errRefused
	case b.roll(1): // it arrives when nobody waits for it any more
		late := b.between(0, time.Second)
		b.late.Go(func() {
			time.Sleep(late)
			b.arrive(m)
		})
		return errors.New("the connection was lost")
	case b.roll(0.3): // it arrives, and the answer does not
		b.arrive(m)
		<-ctx.Done()
		return ctx.Err()
	}
	b.arrive(m)
	return nil
}

// badRows is an outbox table whose calls sometimes fail, carried out or not.
type badRows struct {
	*store.Store

	bus *badBroker
}

func (r badRows) unwell() error {
	if r.bus.roll(1) {
		return errors.New("the database went away")
	}
	return nil
}

func (r badRows) Claim(ctx context.Context, token string, want workflow.Want, most int, lease time.Duration) ([]workflow.Claimed, error) {
	if err := r.unwell(); err != nil {
		return nil, err
	}
	claimed, err := r.Store.Claim(ctx, token, want, most, lease)
	if lost := r.unwell(); lost != nil {
		return nil, lost
	}
	return claimed, err
}

func (r badRows) Renew(ctx context.Context, token string, lease time.Duration) (int, error) {
	if err := r.unwell(); err != nil {
		return 0, err
	}
	return r.Store.Renew(ctx, token, lease)
}

func (r badRows) Mark(ctx context.Context, token string, marks []workflow.Mark) error {
	if err := r.unwell(); err != nil {
		return err
	}
	return errors.Join(r.Store.Mark(ctx, token, marks), r.unwell())
}

func (r badRows) Bury(ctx context.Context, token string, c workflow.Claimed, reason string) error {
	if err := r.unwell(); err != nil {
		return err
	}
	return errors.Join(r.Store.Bury(ctx, token, c, reason), r.unwell())
}

func badDispatcher(s *store.Store, bus *badBroker) *outbox.Dispatcher {
	var n atomic.Int64
	return &outbox.Dispatcher{
		Rows: badRows{s, bus}, Sender: bus, Log: slog.New(slog.DiscardHandler),
		Token: func() string { return fmt.Sprintf("%p-%d", &n, n.Add(1)) }, Jitter: func() float64 { return 0 },
		Lease: badDayLease, SendTimeout: 3 * badDayLease, Parallel: 16,
	}
}
