package workflow_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// told after a scene, and what came of it.
func hear(in scene, sayings ...saying) (*desk, workflow.Result) {
	d := newDesk()
	d.hears(in.told...)
	return d, d.hears(sayings...)
}

func TestAnOrderOfWhichOnlyTheIDIsKnownHasNotStarted(t *testing.T) {
	t.Parallel()
	o := workflow.Order{ID: theOrder}
	r := workflow.Apply(o, placed().to(o, "m-1"), nil)
	require.Equal(t, workflow.NotStarted, r.Decisions[0].From)
	require.Equal(t, workflow.AwaitingInventory, r.Order.Status)
	require.NotEmpty(t, workflow.Explain(o).Meaning)
}

func TestOrderPlacedStartsAnOrderWithItsConversationAndOrigin(t *testing.T) {
	t.Parallel()
	d, r := hear(fresh, placed())
	require.Equal(t, int64(1), d.order.Version)
	require.Equal(t, theConversation, d.order.Conversation)
	require.Equal(t, theOrigin, d.order.Origin)
	require.Equal(t, "customer-9", d.order.CustomerID)
	require.Equal(t, "EUR", d.order.Currency)
	require.Equal(t, int64(12990), d.order.Amount)
	require.Equal(t, []workflow.Line{{SKU: "sku-1", Quantity: 2}}, d.order.Lines)
	require.Zero(t, r.Decisions[0].Deadline.DueAt, "due its duration after the commit")
	require.Equal(t, workflow.InventoryTimeout, r.Decisions[0].Deadline.Purpose)
	require.Empty(t, r.Decisions[0].Command.Purpose)
}

func TestWithoutACorrelationIDTheConversationIsTheMessageThatPlacedTheOrder(t *testing.T) {
	t.Parallel()
	e := placed().envelope(workflow.Order{ID: theOrder}, "m-1")
	e.Conversation, e.OriginID = "", ""
	m, err := e.Decode()
	require.NoError(t, err)
	r := workflow.Apply(workflow.Order{ID: theOrder}, m, nil)
	require.Equal(t, "m-1", r.Order.Conversation)
	require.Equal(t, "m-1", r.Order.Origin)
}

func TestLineageComesFromTheOrderAndNotFromTheMessage(t *testing.T) {
	t.Parallel()
	d, _ := hear(reserving)
	e := reserved("res-1").envelope(d.order, "m-9")
	e.Conversation, e.OriginID, e.TraceParent = "another", "another", "00-trace-span-01"
	m, err := e.Decode()
	require.NoError(t, err)
	r := d.takes(m)
	for _, out := range r.Emissions() {
		require.Equal(t, theConversation, out.Conversation)
		require.Equal(t, theOrigin, out.OriginID)
		require.Equal(t, "m-9", out.ParentID)
		require.Equal(t, "00-trace-span-01", out.TraceParent)
	}
	require.Equal(t, theConversation, d.order.Conversation)
}

func TestRule1ADeadlineBeforeItsTimeIsArmedAgainForTheSameTime(t *testing.T) {
	t.Parallel()
	d, _ := hear(paying, dead("capture-payment:1"))
	problem := d.order.Problem
	r := d.hears(tooSoon("payment-timeout:1"))
	require.Equal(t, "[payment-timeout:2]", told(r))
	require.Equal(t, noon, r.Decisions[0].Deadline.DueAt)
	require.Equal(t, workflow.PaymentTimeout, r.Decisions[0].Deadline.Purpose)
	require.Equal(t, problem, d.order.Problem, "nothing else changes")
	require.NotEmpty(t, r.Decisions[0].Reason)
	require.Equal(t, "→ Compensating release-inventory:1 [compensation-timeout:1]", told(d.hears(expired("payment-timeout:2"))))
}

func TestOnlyADeadlineIsEverTooSoon(t *testing.T) {
	t.Parallel()
	early := reserved("res-1")
	early.early = true
	_, r := hear(reserving, early)
	require.Equal(t, "→ AwaitingPayment capture-payment:1 [payment-timeout:1]", told(r))
}

func TestRule3EveryFieldOfTheOrderIsCompared(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*workflow.Facts){
		"customerId": func(f *workflow.Facts) { f.CustomerID = "customer-8" },
		"currency":   func(f *workflow.Facts) { f.Currency = "USD" },
		"amount":     func(f *workflow.Facts) { f.Amount++ },
		"lines":      func(f *workflow.Facts) { f.Lines = []workflow.Line{{SKU: "sku-1", Quantity: 3}} },
	} {
		changed := placed().of(workflow.Order{})
		change(&changed)
		d, r := hear(paying, plain(workflow.OrderPlaced, changed))
		require.Equal(t, conflict, told(r), what)
		require.Contains(t, r.Decisions[0].Reason, what)
		require.Equal(t, int64(12990), d.order.Amount, "the first amount is kept")
	}
}

func TestAConflictNamesWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in       scene
		say      saying
		recorded string
	}{
		{paying, placedFor(500), "12990"},
		{paying, reserved("res-2"), "res-1"},
		{shipping, captured("pay-2"), "pay-1"},
		{delivered, shipped("ship-2"), "ship-1"},
		{delivered, notShipped, "ship-1"},
		{refunding, refunded("pay-2", "ref-1"), "pay-1"},
		{allGiven, refunded("pay-1", "ref-2"), "ref-1"},
		{allGiven, released("res-2"), "res-1"},
		{byHand, released("res-1"), "by hand: order-42:resolve-cancelled:4"},
	} {
		_, r := hear(c.in, c.say)
		require.Equal(t, conflict, told(r), c.say.Type)
		require.Contains(t, r.Decisions[0].Reason, c.recorded)
	}
}

func TestAProblemIsNotedAndClearedByTheNextWait(t *testing.T) {
	t.Parallel()
	d, _ := hear(paying, dead("capture-payment:1"))
	require.Contains(t, d.order.Problem, "capture-payment:1")
	require.Contains(t, d.order.Problem, "no such topic")
	require.Contains(t, workflow.Explain(d.order).Facts, d.order.Problem)
	d.hears(reserved("res-1"))
	require.NotEmpty(t, d.order.Problem, "a stale message clears nothing")
	d.hears(captured("pay-1"))
	require.Empty(t, d.order.Problem)

	d, _ = hear(bothUndos, dead("refund-payment:1"), released("res-1"))
	require.NotEmpty(t, d.order.Problem, "neither does one that is only recorded")
}

func TestTheCustomerIsToldWhyTheOrderWasFirstTurnedBack(t *testing.T) {
	t.Parallel()
	d, _ := hear(paying, expired("payment-timeout:1"), captured("pay-1"), released("res-1"))
	r := d.hears(refunded("pay-1", "ref-1"))
	require.JSONEq(t, `{"orderId":"order-42","reason":"the payment service did not answer in time"}`,
		string(r.Decisions[0].Command.Body))

	_, r = hear(reserving, notReserved)
	require.JSONEq(t, `{"orderId":"order-42","reason":"the goods cannot be had: no luck"}`,
		string(r.Decisions[0].Command.Body))

	d, _ = hear(silent, shipped("ship-1"))
	require.Empty(t, d.order.Because, "an order that was delivered was not turned back")
}

func TestALongReasonIsShortenedInWhatIsSentAndKeptInTheMessage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ö", 5000)
	d, r := hear(reserving, plain(workflow.CancellationRequested, workflow.Facts{Reason: long}))
	require.Less(t, len(r.Decisions[0].Command.Body), 3000)
	require.Less(t, len([]rune(d.order.Because)), 1100)
	require.Less(t, len([]rune(r.Decisions[0].Reason)), 1100)
	require.Equal(t, long, r.Decisions[0].Message.Facts.Reason)
}

func TestTheBodiesOfCommandsSayWhatTheirServicesNeed(t *testing.T) {
	t.Parallel()
	d := newDesk()
	sent := map[string]string{}
	for _, say := range []saying{placed(), reserved("res-1"), captured("pay-1"), notShipped, refunded("pay-1", "ref-1"), released("res-1")} {
		c := d.hears(say).Decisions[0].Command
		sent[string(c.Type)] = string(c.Body)
	}
	for name, want := range map[string]string{
		"ReserveInventory": `{"orderId":"order-42","lines":[{"sku":"sku-1","quantity":2}]}`,
		"CapturePayment":   `{"orderId":"order-42","customerId":"customer-9","amount":12990,"currency":"EUR","reservationId":"res-1"}`,
		"ShipOrder":        `{"orderId":"order-42","lines":[{"sku":"sku-1","quantity":2}],"reservationId":"res-1","paymentId":"pay-1"}`,
		"RefundPayment":    `{"orderId":"order-42","paymentId":"pay-1","amount":12990,"currency":"EUR"}`,
		"ReleaseInventory": `{"orderId":"order-42","reservationId":"res-1"}`,
		"CancelOrder":      `{"orderId":"order-42","reason":"the goods cannot be shipped: no luck"}`,
	} {
		require.JSONEq(t, want, sent[name])
	}
	require.Len(t, sent, 6)
}

func TestAFreeOrderIsPaidAndRefundedWithAnAmountOfNothing(t *testing.T) {
	t.Parallel()
	_, r := hear(fresh, placedFor(0), reserved("res-1"))
	require.Contains(t, string(r.Decisions[0].Command.Body), `"amount":0`)
}
