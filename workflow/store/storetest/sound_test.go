package storetest_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/outbox"
	"orderflow/workflow/store"
	"orderflow/workflow/store/storetest"
)

// ledger is a database of a few orders, each in another ending, and what the
// services heard.
type ledger struct {
	path  string
	now   time.Time
	heard []storetest.Heard
}

func (l *ledger) Send(_ context.Context, messages []workflow.Outgoing) ([]int64, error) {
	for _, m := range messages {
		if m.Purpose == "" {
			l.heard = append(l.heard, storetest.Heard{By: "the broker", ID: m.ID, OrderID: m.OrderID, Type: m.Type, Body: m.Body})
		}
	}
	return make([]int64, len(messages)), nil
}

// Cancel has nothing to cancel: what it was sent went out at once.
func (l *ledger) Cancel(context.Context, int64) error { return nil }

func say(order string, kind workflow.MessageType, members string) workflow.Message {
	m, err := workflow.Envelope{
		ID: order + "/" + string(kind), Type: kind, OrderID: order, Conversation: "conv-7", OriginID: "self",
		Body: fmt.Appendf(nil, `{"orderId":%q,%s}`, order, members),
	}.Decode()
	if err != nil {
		panic(err)
	}
	return m
}

// orders are told what makes them end as they are called.
func writeLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{path: filepath.Join(t.TempDir(), "orders.db"), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s, err := store.Open(t.Context(), l.path, store.Options{Now: func() time.Time { return l.now }})
	require.NoError(t, err)
	d := outbox.Dispatcher{
		Rows: s, Sender: l, Log: slog.New(slog.DiscardHandler), Jitter: func() float64 { return 0 },
		Token: func() string { l.now = l.now.Add(time.Second); return l.now.String() },
	}
	tell := func(messages ...workflow.Message) {
		for _, m := range messages {
			l.now = l.now.Add(time.Second)
			_, err := s.Handle(t.Context(), m)
			require.NoError(t, err)
			_, _, err = d.Drain(t.Context())
			require.NoError(t, err)
		}
	}
	const because = `"reason":"no luck"`
	placed := func(o string) workflow.Message {
		return say(o, workflow.OrderPlaced, `"customerId":"c","currency":"EUR","amount":5,"lines":[{"sku":"s","quantity":1}]`)
	}
	reserved := func(o string) workflow.Message {
		return say(o, workflow.InventoryReserved, `"reservationId":"res-1"`)
	}
	captured := func(o string) workflow.Message { return say(o, workflow.PaymentCaptured, `"paymentId":"pay-1"`) }
	tell(placed("shipped"), reserved("shipped"), captured("shipped"), say("shipped", workflow.ShipmentConfirmed, `"shipmentId":"ship-1"`))
	tell(placed("paying"), reserved("paying"))
	tell(captured("early"), placed("early"), reserved("early"))
	tell(placed("stale"), say("stale", workflow.CancellationRequested, because), say("stale", workflow.InventoryRejected, because),
		say("stale", workflow.ShipmentFailed, because))
	tell(placed("refunded"), reserved("refunded"), captured("refunded"), say("refunded", workflow.ShipmentFailed, because),
		say("refunded", workflow.PaymentRefunded, `"paymentId":"pay-1","refundId":"ref-1"`),
		say("refunded", workflow.InventoryReleased, `"reservationId":"res-1"`))
	tell(placed("refused"), reserved("refused"), captured("refused"),
		say("refused", workflow.CancellationRequested, because))
	tell(say("unplaced", workflow.CancellationRequested, because))
	tell(placed("fired"))
	fired, err := s.FireDeadline(t.Context(), workflow.Action{OrderID: "fired", Target: "fired:inventory-timeout:1", Reason: "they closed", Actor: "ada"})
	require.NoError(t, err)
	require.Equal(t, workflow.Applied, fired.Outcome)
	_, _, err = d.Drain(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())

	failing := func(o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
		if m.Type == workflow.InventoryReserved {
			panic("no luck")
		}
		return workflow.Apply(o, m, held)
	}
	s, err = store.Open(t.Context(), l.path, store.Options{Now: func() time.Time { return l.now }, Apply: failing})
	require.NoError(t, err)
	d.Rows = s
	tell(placed("blocked"), reserved("blocked"), captured("blocked"), say("blocked", workflow.CancellationRequested, because))
	require.NoError(t, s.Close())
	return l
}

// open opens a copy of the database.
func (l *ledger) open(t *testing.T) *sql.DB {
	t.Helper()
	text, err := os.ReadFile(l.path)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "copy.db")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestASoundDatabaseHasNoFaults(t *testing.T) {
	t.Parallel()
	l := writeLedger(t)
	r := storetest.Sound(t.Context(), t, l.open(t))
	require.Empty(t, misheard(r, l.heard))
	require.Empty(t, r.Unheard(l.heard))
	require.Equal(t, map[string]int{
		"Completed": 1, "AwaitingPayment": 1, "AwaitingShipment": 2, "Cancelled": 3, "NotStarted": 1, "blocked": 1,
	}, r.Endings())
	require.Equal(t, []string{
		"early: it is AwaitingShipment, and nothing says why", "paying: it is AwaitingPayment, and nothing says why",
		"refused: it is AwaitingShipment, and nothing says why",
	}, r.Unrest(l.now), "what waits for an answer is not at rest")
	require.Contains(t, strings.Join(r.Unrest(l.now.AddDate(1, 0, 0)), "\n"), "paying: paying:payment-timeout:1 is overdue")
}

func TestWhateverIsTamperedWithIsFound(t *testing.T) {
	t.Parallel()
	l := writeLedger(t)
	for name, c := range map[string]struct{ statement, fault string }{
		"a command's row is lost":          {`DELETE FROM outbox WHERE message_id = 'shipped:ship-order:1'`, "shipped:ship-order:1 was emitted and is not in the outbox"},
		"a deadline's row is lost":         {`DELETE FROM outbox WHERE message_id = 'paying:payment-timeout:1'`, "paying:payment-timeout:1 was emitted and is not in the outbox"},
		"a command is sent a second time":  {copied("refunded:refund-payment:1", "refunded:refund-payment:2", "purpose", "state"), "refunded:refund-payment:2 is in the outbox, and nothing emitted it"},
		"a second deadline is armed":       {copied("paying:inventory-timeout:1", "paying:inventory-timeout:2", "purpose", "'waiting'"), "armed is [paying:payment-timeout:1], and the outbox has"},
		"a settled deadline comes back":    {`UPDATE outbox SET state = 'sent' WHERE message_id = 'shipped:shipment-timeout:1'`, "armed is [], and the outbox has [shipped:shipment-timeout:1]"},
		"the armed deadline is closed":     {`UPDATE outbox SET state = 'closed' WHERE message_id = 'paying:payment-timeout:1'`, "and the outbox has []"},
		"an awaited command is closed":     {`UPDATE outbox SET state = 'closed' WHERE message_id = 'paying:capture-payment:1'`, "is closed, and it is awaited"},
		"a command waits for nobody":       {`UPDATE outbox SET state = 'waiting' WHERE message_id = 'shipped:capture-payment:1'`, "waits to be sent, and nobody awaits it"},
		"a command says something else":    {`UPDATE outbox SET body = CAST(REPLACE(body, '5', '6') AS BLOB) WHERE message_id = 'paying:capture-payment:1'`, "the outbox has"},
		"a command has another parent":     {`UPDATE outbox SET parent_id = 'nobody' WHERE message_id = 'paying:capture-payment:1'`, "the outbox has"},
		"commands change places":           {`UPDATE outbox SET seq = seq + 5000 WHERE message_id = 'refunded:refund-payment:1'`, "the outbox has"},
		"the status is wrong":              {`UPDATE orders SET status = 'Cancelled' WHERE order_id = 'paying'`, "it is stored as Cancelled"},
		"the version is wrong":             {`UPDATE orders SET version = 9 WHERE order_id = 'paying'`, "it is stored as AwaitingPayment v9"},
		"an amount is wrong":               {`UPDATE orders SET state = REPLACE(state, '"amount":5', '"amount":50') WHERE order_id = 'paying'`, "it is stored as"},
		"an effect is forgotten":           {`UPDATE orders SET state = REPLACE(state, '"state":"held"', '"state":"undone"') WHERE order_id = 'shipped'`, "it is stored as"},
		"an order is lost":                 {`DELETE FROM orders WHERE order_id = 'shipped'`, "it has 0 rows in the table orders"},
		"the journal lacks a step":         {`DELETE FROM journal WHERE message_id = 'shipped/InventoryReserved'`, "shipped/PaymentCaptured"},
		"the journal lacks the last step":  {`DELETE FROM journal WHERE message_id = 'shipped/ShipmentConfirmed'`, "it is stored as Completed"},
		"the journal lacks a stale one":    {`DELETE FROM journal WHERE message_id = 'stale/InventoryRejected'`, "the journal lacks 1 of"},
		"the journal lacks an early one":   {`DELETE FROM journal WHERE message_id = 'early/PaymentCaptured'`, "it is stored as AwaitingShipment"},
		"an early one is forgotten":        {`UPDATE journal SET outcome = 'Held', place = 0, revision = 1 WHERE message_id = 'early/PaymentCaptured'`, "took up 1 messages, the journal has 0"},
		"an outcome is wrong":              {`UPDATE journal SET outcome = 'Stale' WHERE message_id = 'paying/InventoryReserved'`, "the journal says Stale"},
		"a stale one was taken":            {`UPDATE journal SET outcome = 'Applied' WHERE message_id = 'stale/InventoryRejected'`, "the journal says Applied"},
		"what a message sent is forgotten": {`UPDATE journal SET emitted = '[]' WHERE message_id = 'paying/InventoryReserved'`, "replayed, it is Applied"},
		"a reason is wrong":                {`UPDATE journal SET reason = 'because' WHERE message_id = 'paying/InventoryReserved'`, `v2 [paying:capture-payment:1 paying:payment-timeout:1] "because"`},
		"a message was another":            {`UPDATE journal SET body = CAST(REPLACE(body, 'res-1', 'res-2') AS BLOB) WHERE message_id = 'paying/InventoryReserved'`, "has another fingerprint than its body"},
		"a body is broken":                 {`UPDATE journal SET body = CAST('{' AS BLOB) WHERE message_id = 'paying/InventoryReserved'`, "the body of paying/InventoryReserved"},
		"messages change places":           {`UPDATE journal SET revision = -revision WHERE order_id = 'shipped'`, "the journal says"},
		"a revision is ahead":              {`UPDATE journal SET revision = 40 WHERE message_id = 'paying/InventoryReserved'`, "has revision 40, the order 2"},
		"a message is in the wrong place":  {`UPDATE journal SET place = 2 WHERE message_id = 'early/PaymentCaptured'`, "has place 2 in revision 3, not 1"},
		"a dead command told nobody":       {`UPDATE outbox SET state = 'dead' WHERE message_id = 'paying:capture-payment:1'`, "is dead, and never died"},
		"a death told nobody":              {`UPDATE outbox SET deaths = 1 WHERE message_id = 'paying:capture-payment:1'`, "died 1 times, and the order was told of 0"},
		"a fired deadline is forgotten":    {`DELETE FROM journal WHERE message_id = 'fired:inventory-timeout:1'`, "fired fired:inventory-timeout:1, and nothing came of it"},
		"nobody fired a deadline":          {`DELETE FROM journal WHERE message_id LIKE 'fired:fire-deadline:%'`, "was handled before it was due, and nobody fired it"},
		"an order is blocked by nothing":   {`UPDATE orders SET blocked_by = 'nothing' WHERE order_id = 'paying'`, "it is blocked by nothing, and its line is []"},
		"a later message is handled first": {`UPDATE journal SET outcome = 'Stale', place = 0, revision = 5 WHERE message_id = 'blocked/CancellationRequested'`,
			"blocked/CancellationRequested was Stale before blocked/InventoryReserved, which came earlier and waited in line"},
		"the line is in another order":  {`UPDATE orders SET blocked_by = 'blocked/PaymentCaptured' WHERE order_id = 'blocked'`, "and its line is [blocked/InventoryReserved blocked/PaymentCaptured"},
		"a command was sent at no time": {`UPDATE outbox SET sent_at = NULL WHERE message_id = 'paying:capture-payment:1'`, "is sent, and not known when"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := l.open(t)
			for _, free := range []string{`DROP INDEX outbox_armed`, `PRAGMA ignore_check_constraints = 1`} { // a broken store would not ask
				_, err := db.ExecContext(t.Context(), free)
				require.NoError(t, err)
			}
			done, err := db.ExecContext(t.Context(), c.statement)
			require.NoError(t, err)
			n, err := done.RowsAffected()
			require.NoError(t, err)
			require.Positive(t, n, "it tampers with something")
			r, err := storetest.Read(t.Context(), db)
			require.NoError(t, err)
			require.Contains(t, strings.Join(r.Faults(), "\n"), c.fault)
		})
	}
}

// copied inserts a row of the outbox once more, under another ID.
func copied(id, as, purpose, state string) string {
	return fmt.Sprintf(`INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  purpose, due_at, body, state, visible_at, created_at, sent_at)
SELECT order_id, seq + 1000000, '%s', message_type, conversation, parent_id, origin_id, traceparent, %s, due_at, body, %s, visible_at, created_at, sent_at
FROM outbox WHERE message_id = '%s'`, as, purpose, state, id)
}

func misheard(r *storetest.Record, heard []storetest.Heard) []string {
	wrong, _ := r.Misheard(heard)
	return wrong
}

func TestWhateverIsHeardWronglyIsFound(t *testing.T) {
	t.Parallel()
	l := writeLedger(t)
	r := storetest.Sound(t.Context(), t, l.open(t))
	find := func(id string) int {
		return slices.IndexFunc(l.heard, func(h storetest.Heard) bool { return h.ID == id })
	}
	refund, release := find("refunded:refund-payment:1"), find("refunded:release-inventory:1")

	require.Empty(t, misheard(r, append(slices.Clone(l.heard), l.heard...)), "repeats are the same")
	again := slices.Clone(l.heard)
	again = append(again, l.heard[refund])
	again[len(again)-1].ID = "refunded:refund-payment:2"
	require.Contains(t, misheard(r, again)[0], "it is not in the outbox")
	changed := append(slices.Clone(l.heard), l.heard[refund])
	changed[len(changed)-1].Body = []byte(`{}`)
	require.Contains(t, misheard(r, changed)[0], "and was sent as")
	swapped := slices.Clone(l.heard)
	swapped[refund], swapped[release] = swapped[release], swapped[refund]
	require.Contains(t, misheard(r, swapped)[0], "after what was decided later")
	late := slices.Clone(l.heard) // the order turned back from this one
	late = append(slices.Delete(late, find("stale:reserve-inventory:1"), find("stale:reserve-inventory:1")+1), l.heard[find("stale:reserve-inventory:1")])
	_, belated := r.Misheard(late)
	require.Empty(t, belated, "it was sent for sure")
	require.NotEmpty(t, misheard(r, late))
	stranger := slices.Clone(l.heard)
	stranger[0].OrderID = "nobody"
	require.Contains(t, misheard(r, stranger)[0], "no such order")
	lost := slices.Delete(slices.Clone(l.heard), refund, refund+1)
	require.Equal(t, []string{"refunded: refunded:refund-payment:1 is marked as sent, and nobody heard it"}, r.Unheard(lost))
}
