// Package storetest is the suite that every database of orders passes: the
// promises of the store, one test each, told in sentences. What a test needs
// beyond the store's own methods (another process, the passing of time, a
// database that refuses) it asks of Database.
package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// Database is an empty database of its own.
type Database struct {
	// Open opens it as another process would. Options.Now is set by Open.
	Open func(store.Options) (*store.Store, error)
	// Now is the database's clock, and Pass lets time pass by it.
	Now  func() time.Time
	Pass func(time.Duration)
	// Refuse makes the database refuse to INSERT into or UPDATE a table, until
	// allow is called.
	Refuse func(verb, table string) (allow func())
	// Move copies the database, and nothing else, to a new place. Nil where there
	// is none.
	Move func() Database
	// SQL looks into it, by statements that every database understands.
	SQL *sql.DB
}

// scenario is one promise.
type scenario struct {
	says string
	test func(*world)
}

// Run proves the promises of the store on a kind of database.
func Run(t *testing.T, empty func(testing.TB) Database) {
	t.Helper()
	for _, chapter := range []struct {
		name      string
		scenarios []scenario
	}{
		{"the flow of an order", flow()},
		{"duplicates and conflicts", duplicates()},
		{"all or nothing", allOrNothing()},
		{"early and rejected messages", held()},
		{"messages that cannot be handled", lines()},
		{"messages that fail out of turn", poisoned()},
		{"what operators do", actions()},
		{"the outbox", outboxes()},
		{"the outbox on a bad day", dispatching()},
		{"claims and leases", leases()},
		{"commands that die", deaths()},
		{"deadlines", deadlines()},
		{"what only the passing of time brings about", sweeping()},
		{"a database that was put back", restored()},
		{"how long rows are kept", retention()},
		{"what operators look at", searching()},
		{"what operators do about rejected messages", settling()},
		{"deadlines that a person fires", firing()},
		{"what the audit is told", auditing()},
		{"identity and lineage", lineage()},
		{"against the model", model()},
	} {
		t.Run(chapter.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range chapter.scenarios {
				t.Run(s.says, func(t *testing.T) {
					t.Parallel()
					w := &world{T: t, db: empty(t)}
					w.Store = w.open(store.Options{})
					s.test(w)
					if !w.tampered && !w.purged() {
						Sound(t.Context(), t, w.db.SQL)
					}
				})
			}
		})
	}
}

// world is what a scenario happens in: a database and a process that uses it.
type world struct {
	*testing.T
	*store.Store
	db Database
	// tampered: what the database holds by now is not the store's doing alone.
	tampered bool
}

// purged reports whether the beginning of an order was deleted, so that the rest
// cannot be replayed.
func (w *world) purged() bool {
	return w.count(`orders AS o WHERE o.version > 0 AND NOT EXISTS (
		SELECT 1 FROM journal AS j WHERE j.order_id = o.order_id AND j.message_type = 'OrderPlaced' AND j.outcome = 'Applied')`) > 0
}

// open opens the database as one more process. The store is closed with the
// test.
func (w *world) open(options store.Options) *store.Store {
	w.Helper()
	s, err := w.db.Open(options)
	require.NoError(w, err)
	w.Cleanup(func() { _ = s.Close() })
	return s
}

// reopen ends the process and starts another.
func (w *world) reopen() {
	w.Helper()
	require.NoError(w, w.Close())
	w.Store = w.open(store.Options{})
}

// theOrder is the order that most scenarios are about.
const theOrder = "order-42"

// said is a sound message about an order.
func said(order, id string, kind workflow.MessageType, members string) workflow.Message {
	if members != "" {
		members = "," + members
	}
	m, err := workflow.Envelope{
		ID: id, Type: kind, OrderID: order, Conversation: "conv-7", ParentID: "parent-of-" + id, OriginID: "orders:order-placed:42",
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Body:        fmt.Appendf(nil, `{"orderId":%q%s}`, order, members),
	}.Decode()
	if err != nil {
		panic(err)
	}
	return m
}

// What is said in most scenarios. The ID of a message is its order's, then its
// kind.
func placed(order string) workflow.Message {
	return said(order, order+"/placed", workflow.OrderPlaced,
		`"customerId":"customer-9","currency":"EUR","amount":12990,"lines":[{"sku":"sku-1","quantity":2}]`)
}

func reserved(order string) workflow.Message {
	return said(order, order+"/reserved", workflow.InventoryReserved, `"reservationId":"reservation-9001"`)
}

func captured(order string) workflow.Message {
	return said(order, order+"/captured", workflow.PaymentCaptured, `"paymentId":"payment-1"`)
}

func shipped(order string) workflow.Message {
	return said(order, order+"/shipped", workflow.ShipmentConfirmed, `"shipmentId":"shipment-1"`)
}

func refunded(order string) workflow.Message {
	return said(order, order+"/refunded", workflow.PaymentRefunded, `"paymentId":"payment-1","refundId":"refund-1"`)
}

func released(order string) workflow.Message {
	return said(order, order+"/released", workflow.InventoryReleased, `"reservationId":"reservation-9001"`)
}

// sorry is a message of which only the kind and a reason count.
func sorry(order string, kind workflow.MessageType) workflow.Message {
	return said(order, order+"/"+string(kind), kind, `"reason":"no luck"`)
}

// expired says that a deadline has passed: "payment-timeout:1".
func expired(order, deadline string) workflow.Message {
	purpose, _, _ := strings.Cut(deadline, ":")
	id := order + ":" + deadline
	return said(order, id, workflow.Purpose(purpose).Expired(), fmt.Sprintf(`"timeoutId":%q,"dueAt":"2020-02-29T12:00:00Z"`, id))
}

// as is the same message under another MessageId.
func as(m workflow.Message, id string) workflow.Message {
	m.ID = id
	return m
}

// takes has the store handle messages, and returns what was decided about the
// last.
func (w *world) takes(messages ...workflow.Message) (d workflow.Decision) {
	w.Helper()
	for _, m := range messages {
		var err error
		d, err = w.Handle(w.Context(), m)
		require.NoError(w, err, "%s %s", m.Type, m.ID)
	}
	return d
}

// expect has the store handle a message and says what must become of it.
func (w *world) expect(outcome workflow.Outcome, m workflow.Message) workflow.Decision {
	w.Helper()
	d := w.takes(m)
	require.Equal(w, outcome, d.Outcome, "%s %s: %s", m.Type, m.ID, d.Reason)
	return d
}

// acts has an operator act on a message of the order, and says what must become
// of it.
func (w *world) acts(outcome workflow.Outcome, kind workflow.ActionKind, target string) workflow.Decision {
	w.Helper()
	d, err := w.Act(w.Context(), workflow.Action{Kind: kind, OrderID: theOrder, Target: target, Reason: "as agreed", Actor: "ada"})
	require.NoError(w, err)
	require.Equal(w, outcome, d.Outcome, d.Reason)
	return d
}

// story is what is recorded of an order.
func (w *world) story(order string) workflow.Story {
	w.Helper()
	story, err := w.Story(w.Context(), order)
	require.NoError(w, err)
	return story
}

// stands says how an order stands: "AwaitingPayment 2".
func (w *world) stands(order string) string {
	w.Helper()
	o := w.story(order).Order
	return fmt.Sprint(o.Status, " ", o.Version)
}

// emitted lists an order's outbox, its name left out: "capture-payment:1
// waiting".
func (w *world) emitted(order string) []string {
	w.Helper()
	var rows []string
	for _, d := range w.story(order).Outbox {
		rows = append(rows, strings.TrimPrefix(d.ID, order+":")+" "+d.State)
	}
	return rows
}

// journal lists what was decided about an order: "order-42/placed Applied".
func (w *world) journal(order string) []string {
	w.Helper()
	var rows []string
	for _, e := range w.story(order).Journal {
		rows = append(rows, e.MessageID+" "+string(e.Outcome))
	}
	return rows
}

// everything is every row of the database, for comparison.
func (w *world) everything() string {
	w.Helper()
	return w.rows("orders", "journal", "outbox", "rejected")
}

// rows is every row of some tables.
func (w *world) rows(tables ...string) string {
	w.Helper()
	var b strings.Builder
	for _, table := range tables {
		rows, err := w.db.SQL.QueryContext(w.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2")
		require.NoError(w, err)
		columns, err := rows.Columns()
		require.NoError(w, err)
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		for rows.Next() {
			require.NoError(w, rows.Scan(targets...))
			b.WriteString(table)
			for i, column := range columns {
				fmt.Fprintf(&b, " %s=%s", column, strings.TrimSpace(fmt.Sprintf("%s", values[i])))
			}
			b.WriteByte('\n')
		}
		require.NoError(w, errors.Join(rows.Err(), rows.Close()))
	}
	return b.String()
}

// count counts rows by hand.
func (w *world) count(from string) (n int) {
	w.Helper()
	require.NoError(w, w.db.SQL.QueryRowContext(w.Context(), "SELECT COUNT(*) FROM "+from).Scan(&n))
	return n
}

// tamper changes the database behind the store's back.
func (w *world) tamper(statement string) {
	w.Helper()
	w.tampered = true
	_, err := w.db.SQL.ExecContext(context.Background(), statement)
	require.NoError(w, err)
}
