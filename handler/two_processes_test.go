package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/busserver"
	"orderflow/workflow"
	"orderflow/workflow/store"
	"orderflow/workflow/store/storetest"
)

// pair is two handler processes on one database and one bus; the test speaks
// for their hosts. The faults are the bus's.
func pair(t *testing.T, environ map[string]string, on func(busserver.Event) busserver.Fault) (r *rig, attached *atomic.Int64) {
	t.Helper()
	executable, err := binary()
	require.NoError(t, err)
	attached = new(atomic.Int64)
	r = raise(t, rigging{
		instances: 2, executable: executable, environ: environ, hostless: true,
		faults: busserver.Faults{On: func(e busserver.Event) busserver.Fault {
			if e.Moment == busserver.Attaching && strings.EqualFold(e.Address, "commands") {
				attached.Add(1) // a sender: nobody receives here
			}
			return on(e)
		}},
	})
	for _, i := range r.instances {
		require.Eventually(t, func() bool {
			answer, err := http.Get(i.url())
			return err == nil && answer.Body.Close() == nil
		}, 10*time.Second, 5*time.Millisecond)
	}
	return r, attached
}

// post invokes a function, and returns the lines of the answer's log.
func (i *instance) post(function string, body []byte) (string, error) {
	answer, err := http.Post(i.url()+"/"+function, "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %s %w", answer.StatusCode, text, err)
	}
	var settled struct{ Logs []string }
	err = json.Unmarshal(text, &settled)
	return strings.Join(settled.Logs, "\n"), err
}

// accepted is every command that the broker accepted, repeats included, in that
// order.
func (r *rig) accepted(t *testing.T) (all []storetest.Heard) {
	t.Helper()
	sent, err := r.bus.Sent(t.Context(), r.settings.CommandsTopic)
	require.NoError(t, err)
	for i := range sent {
		all = append(all, asHeard("the broker", &sent[i]))
	}
	return all
}

// waiting counts the commands that are still to be sent.
func waiting(ctx context.Context, db *sql.DB) int {
	return number(ctx, db, `SELECT COUNT(*) FROM outbox WHERE purpose IS NULL AND state = 'waiting'`)
}

// number asks a database for a number; -1 if it cannot be had.
func number(ctx context.Context, db *sql.DB, query string) (n int) {
	if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return -1
	}
	return n
}

func TestTwoDispatchersInTwoProcessesKeepEachOrdersCommandsInOrder(t *testing.T) {
	t.Parallel()
	r, attached := pair(t, map[string]string{"OutboxLease": "2s"}, func(e busserver.Event) busserver.Fault {
		if e.Moment != busserver.Arrived {
			return busserver.Fault{}
		}
		until := make(chan struct{}) // so that one process decides on more while the other still sends
		time.AfterFunc(3*time.Millisecond, func() { close(until) })
		return busserver.Fault{Until: until}
	})
	const orders = 60
	because := func() map[string]any { return map[string]any{"reason": "no luck"} }
	var wg sync.WaitGroup
	problems := make(chan error, orders)
	turn := make(chan struct{}, 12) // so many orders at once
	for n := range orders {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			order := fmt.Sprintf("order-%02d", n)
			// Cancelled at once, and then the goods and the money turn up: three
			// commands, all of them awaited, faster than they can be sent.
			for step, body := range [][]byte{
				message("m1", workflow.OrderPlaced, order, map[string]any{
					"customerId": "c-7", "currency": "EUR", "amount": 12990, "lines": []map[string]any{{"sku": "A/1", "quantity": 2}},
				}),
				message("m2", workflow.CancellationRequested, order, because()),
				message("m3", workflow.InventoryReserved, order, map[string]any{"reservationId": "reservation-" + order}),
				message("m4", workflow.PaymentCaptured, order, map[string]any{"paymentId": "payment-" + order}),
			} {
				if said, err := r.instances[(n+step)%2].post("order-placed", body); err != nil || !strings.Contains(said, ": Applied ") {
					problems <- fmt.Errorf("step %d of %s: %q %w", step, order, said, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(problems)
	for err := range problems {
		require.NoError(t, err)
	}
	db := r.sql()
	require.Eventually(t, func() bool { return waiting(t.Context(), db) == 0 }, 30*time.Second, 20*time.Millisecond)
	r.stop()

	record, accepted := storetest.Sound(t.Context(), t, db), r.accepted(t)
	wrong, belated := record.Misheard(accepted)
	require.Empty(t, wrong)
	require.Empty(t, belated)
	require.Empty(t, record.Unheard(accepted))
	require.GreaterOrEqual(t, len(accepted), 3*orders)
	require.GreaterOrEqual(t, attached.Load(), int64(2), "both processes have sent")
}

func TestTimersThatOverlapInTwoProcessesAllSucceedAndSendEverythingOnce(t *testing.T) {
	t.Parallel()
	gate, held := make(chan struct{}), new(atomic.Int64)
	open := sync.OnceFunc(func() { close(gate) })
	r, attached := pair(t, nil, func(e busserver.Event) busserver.Fault {
		if e.Moment != busserver.Arrived {
			return busserver.Fault{}
		}
		held.Add(1)
		return busserver.Fault{Until: gate}
	})
	t.Cleanup(open)                 // or the bus would not end
	for _, i := range r.instances { // each has opened the database by now
		_, err := i.post("outbox-dispatch", payload(t, "timer.json"))
		require.NoError(t, err)
	}
	s, err := store.Open(t.Context(), r.database, store.Options{Now: time.Now})
	require.NoError(t, err)
	defer s.Close()
	const orders = 400 // a batch for each of four drains
	for n := range orders {
		order := fmt.Sprintf("order-%03d", n)
		m, err := workflow.Envelope{ID: "m1", Type: workflow.OrderPlaced, OrderID: order, Body: orderBody(order, 12990)}.Decode()
		require.NoError(t, err)
		_, err = s.Handle(t.Context(), m) // nobody is woken
		require.NoError(t, err)
	}

	const each = 2 // at a time, in each process
	answers, tick := make(chan string, 2*each), payload(t, "timer.json")
	for n := range 2 * each {
		go func() {
			said, err := r.instances[n%2].post("outbox-dispatch", tick)
			if err != nil {
				said = err.Error()
			}
			answers <- said
		}()
	}
	require.Eventually(t, func() bool { return attached.Load() >= 2 && held.Load() >= 2 }, 10*time.Second, time.Millisecond,
		"both processes are in the middle of it")
	open()
	sent := 0
	for range 2 * each {
		var n int
		said := <-answers
		_, err := fmt.Sscanf(said, "outbox-dispatch: sent %d", &n)
		require.NoError(t, err, said)
		sent += n
	}
	require.Positive(t, sent)
	require.LessOrEqual(t, sent, orders)
	db := r.sql()
	require.Eventually(t, func() bool { return waiting(t.Context(), db) == 0 }, 10*time.Second, 10*time.Millisecond,
		"what a process drains when it starts may have had some")
	r.stop()
	accepted := r.accepted(t)
	require.Len(t, accepted, orders, "each once")
	record := storetest.Sound(t.Context(), t, db)
	wrong, belated := record.Misheard(accepted)
	require.Empty(t, wrong)
	require.Empty(t, belated)
	require.Empty(t, record.Unheard(accepted))
}
