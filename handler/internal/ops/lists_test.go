package ops

import (
	"html"
	"html/template"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// tileOf are the classes and the value of a tile.
func tileOf(t *testing.T, page, label string) (class, value string) {
	t.Helper()
	found := regexp.MustCompile(`<a class="(tile[^"]*)"[^>]*><span class="value">([^<]*)</span><span class="label">` + label + `</span>`).FindStringSubmatch(page)
	require.NotNil(t, found, label)
	return found[1], html.UnescapeString(found[2])
}

func TestTheOverviewIsCalmWhenAllIsWell(t *testing.T) {
	t.Parallel()
	html := string(New(false).Overview(workflow.Summary{}, workflow.Page[workflow.Flagged]{}, workflow.Page[workflow.Refused]{}, nil, 0))
	require.Contains(t, html, "Nothing is held up")
	require.Contains(t, html, "No order is stuck.")
	require.NotRegexp(t, `class="(tile|verdict)[^"]*(warn|bad)`, html)
	busy := string(New(false).Overview(workflow.Summary{
		ByStatus: map[workflow.Status]int{workflow.AwaitingPayment: 3, workflow.Compensating: 2, workflow.NotStarted: 5, workflow.Completed: 90},
		Backlog:  workflow.Backlog{Waiting: 12, Lag: 2 * time.Second, Early: 4},
	}, workflow.Page[workflow.Flagged]{}, workflow.Page[workflow.Refused]{}, nil, 0))
	require.NotRegexp(t, `class="(tile|verdict)[^"]*(warn|bad)`, busy, "work is no trouble")
	_, value := tileOf(t, busy, "in flight")
	require.Equal(t, "5", value, "those with a deadline")
}

func TestTheOverviewCountsWhatNeedsAPersonAndMarksIt(t *testing.T) {
	t.Parallel()
	stuck := workflow.Page[workflow.Flagged]{Next: "more", Items: []workflow.Flagged{
		{Listed: workflow.Listed{Order: workflow.Order{ID: "order-slow", Status: workflow.AwaitingPayment}}, Stuck: []workflow.Stuck{{Kind: workflow.StuckUnanswered, Why: "slow"}}},
		{Listed: workflow.Listed{Order: workflow.Order{ID: "order-later", Status: workflow.NeedsAttention}, Since: noon.Add(time.Hour)}, Stuck: []workflow.Stuck{{Kind: workflow.StuckAttention, Why: "it waits for a person"}}},
		{Listed: workflow.Listed{Order: workflow.Order{ID: "order-first", Status: workflow.NeedsAttention, Problem: "no luck"}, Since: noon}, Stuck: []workflow.Stuck{{Kind: workflow.StuckAttention, Why: "it waits for a person"}}},
	}}
	s := workflow.Summary{
		ByStatus: map[workflow.Status]int{workflow.NeedsAttention: 2, "Newer": 1},
		Backlog:  workflow.Backlog{Waiting: 7, Lag: 90 * time.Second, Dead: 4, Blocked: 5, Early: 6, Overdue: 8},
	}
	html := string(New(false).Overview(s, stuck, workflow.Page[workflow.Refused]{Items: make([]workflow.Refused, 9)}, []string{"the broker refused commands for good"}, 3))
	for label, want := range map[string][2]string{
		"in flight": {"tile none", "0"}, "need attention": {"tile warn", "2"}, "blocked": {"tile bad", "5"}, "stuck": {"tile warn", "3+"}, "early": {"tile", "6"},
		"to be sent, for 1m30s": {"tile warn", "7"}, "dead letters": {"tile bad", "3"}, "dead commands": {"tile bad", "4"}, "overdue": {"tile warn", "8"}, "rejected": {"tile warn", "9"},
	} {
		class, value := tileOf(t, html, label)
		require.Equal(t, want, [2]string{class, value}, label)
	}
	require.Contains(t, html, `class="verdict bad"`)
	require.Contains(t, html, "<li>the broker refused commands for good</li>")
	require.Contains(t, html, "All that are stuck")
	require.Contains(t, html, "no luck")
	require.Contains(t, html, ">Newer<", "a status that this program does not know is counted all the same")
	at := func(id string) int { return strings.Index(html, `id="o-`+id+`"`) }
	require.Less(t, at("order-first"), at("order-later"), "what waits longest first")
	require.Less(t, at("order-later"), at("order-slow"), "what only a person can move before what is slow")

	require.Equal(t, "order-slow", stuck.Items[0].Order.ID, "what was given stays as it was")
	require.NotContains(t, html, "orders are stuck")

	some := string(New(false).Overview(workflow.Summary{}, stuck, workflow.Page[workflow.Refused]{}, nil, 0))
	require.Contains(t, some, `class="verdict warn"`)
	require.Contains(t, some, "3&#43; orders are stuck")
	stuck.Items, stuck.Next = stuck.Items[:1], ""
	one := string(New(false).Overview(workflow.Summary{}, stuck, workflow.Page[workflow.Refused]{}, nil, 0))
	require.Contains(t, one, "One order is stuck")
	require.NotContains(t, one, "All that are stuck")
	none := string(New(false).Overview(workflow.Summary{}, workflow.Page[workflow.Flagged]{Next: "more"}, workflow.Page[workflow.Refused]{}, nil, 0))
	require.Contains(t, none, "None that was looked at.", "which is not that there is none")
	require.NotContains(t, none, "No order is stuck.")
}

func TestTheFilterShowsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	p := New(false)
	html := string(p.Orders(workflow.Search{Statuses: []workflow.Status{workflow.Completed}, Prefix: "order-", Blocked: true, After: "x", CreatedFrom: noon}, true,
		workflow.Page[workflow.Flagged]{Next: "token", Items: []workflow.Flagged{{Listed: workflow.Listed{Order: workflow.Order{ID: "order-1", Status: workflow.AwaitingPayment}}}}}))
	require.Contains(t, html, `value="Completed" checked`)
	require.Contains(t, html, `value="Cancelled">`)
	require.Contains(t, html, `name="idPrefix" type="text" value="order-"`)
	require.Contains(t, html, `name="stuck" value="true" checked`)
	require.Contains(t, html, `name="blocked" value="true" checked`)
	require.Contains(t, html, `<details id="dates" open>`)
	require.Contains(t, html, `name="createdTimeFrom" data-at="2026-07-19T12:00:00.000Z"`)
	require.Contains(t, html, `name="createdTimeTo" data-at=""`)
	require.Contains(t, html, "continuationToken=token")
	require.Contains(t, html, "First page")
	require.Contains(t, html, "Show all")
	require.Contains(t, html, "the payment service&#39;s answer to CapturePayment")

	plain := string(p.Orders(workflow.Search{}, false, workflow.Page[workflow.Flagged]{}))
	require.NotContains(t, plain, "checked")
	require.NotContains(t, plain, `<details id="dates" open>`)
	require.NotContains(t, plain, "First page")
	require.NotContains(t, plain, "Show all")
	require.Contains(t, plain, "There are no orders yet.")
	require.Contains(t, string(p.Orders(workflow.Search{Prefix: "x"}, false, workflow.Page[workflow.Flagged]{})), "No order is like that.")
	require.Contains(t, string(p.Orders(workflow.Search{}, true, workflow.Page[workflow.Flagged]{Next: "t"})), "the next may have some")
}

func TestEachListOfMessagesHasATabAndTheCountThatIsKnown(t *testing.T) {
	t.Parallel()
	p, b := New(false), workflow.Backlog{Dead: 1, Blocked: 2, Early: 3}
	refused := workflow.Page[workflow.Refused]{Next: "more", Items: make([]workflow.Refused, 4)}
	for _, l := range lists() {
		html := string(p.Tabs(l.Kind, b, refused, 5))
		require.Contains(t, html, `href="#/messages?kind=`+l.Kind+`" aria-current="page">`+l.Title)
		require.Equal(t, 1, strings.Count(html, "aria-current"))
		require.Contains(t, html, `Dead commands <span class="count bad">1<`)
		require.Contains(t, html, `Early <span class="count ">3<`)
		require.Contains(t, html, `Rejected <span class="count warn">4&#43;<`)
		require.Contains(t, html, `Dead letters <span class="count bad">5<`)
		require.Contains(t, html, template.HTMLEscapeString(l.Says))
		list := string(p.Rejections(l.Kind, true, workflow.Page[workflow.Refused]{}))
		require.Contains(t, list, `<section aria-label="`+l.Title+`"`)
		require.Contains(t, list, "There are none.")
		require.NotContains(t, list, "Next page")
	}
	require.Contains(t, string(p.Tabs("dead", b, refused, workflow.DeadLettersCounted)), `Dead letters <span class="count bad">1000&#43;<`, "no more are counted")
	require.NotContains(t, string(p.Tabs("dead", workflow.Backlog{}, workflow.Page[workflow.Refused]{}, 0)), `class="count`)
	require.NotContains(t, string(p.Tabs("dead", workflow.Backlog{}, workflow.Page[workflow.Refused]{}, -1)), `class="count`, "not known is not said")
	html := string(p.Dispatches("dead", false, false, workflow.Page[workflow.DispatchAt]{Next: "t", Items: []workflow.DispatchAt{{
		OrderID: "order-1", Dispatch: workflow.Dispatch{Outgoing: workflow.Outgoing{ID: "order-1:ship-order:1", Type: workflow.ShipOrder}, State: workflow.DispatchDead, Attempts: 10, Refusals: 9, Deaths: 2, LastError: "too large"},
	}}}))
	for _, words := range []string{"First page", "kind=dead&amp;continuationToken=t", `href="#/orders/order-1"`, "order-1:ship-order:1", "too large", "10 attempts, 9 refusals, dead 2 times"} {
		require.Contains(t, html, words)
	}
	due := string(p.Dispatches("deadlines", true, true, workflow.Page[workflow.DispatchAt]{Items: []workflow.DispatchAt{{Dispatch: workflow.Dispatch{Outgoing: workflow.Outgoing{DueAt: noon}, State: workflow.DispatchWaiting, NextAttemptAt: noon.Add(time.Hour)}}}}))
	require.Contains(t, due, "2026-07-19 12:00:00 UTC")
	require.NotContains(t, due, "13:00:00")
}

func TestDeadLettersAreShownAndBroughtBackByTheirSubscription(t *testing.T) {
	t.Parallel()
	letter := workflow.DeadLetter{Subscription: "payment-result", Reason: "MaxDeliveryCountExceeded", Description: "ten times"}
	letter.OrderID, letter.ID, letter.Type, letter.Delivery = "order-1", "bank:1", workflow.PaymentCaptured, workflow.Delivery{Count: 10, EnqueuedAt: noon}
	stray := workflow.DeadLetter{Subscription: "payment-result"}
	stray.OrderID = "no order"
	other := letter
	other.OrderID = "order-2"
	counts := map[string]int{"payment-result": workflow.DeadLettersCounted, "order-placed": 2, "shipment-result": 0}
	html := New(false).DeadLetters("dead-letters", true, counts, workflow.Page[workflow.DeadLetter]{Items: []workflow.DeadLetter{letter, stray, letter, other}})
	for _, words := range []string{`href="#/orders/order-1"`, "bank:1", "MaxDeliveryCountExceeded", "ten times", "in payment-result, 10 deliveries so far", "2026-07-19 12:00:00 UTC", "data-slow"} {
		require.Contains(t, string(html), words)
	}
	require.NotContains(t, string(html), `href="#/orders/no`)
	all := buttons(t, html)
	require.Len(t, all, 4, "one for each subscription that has some, and for each order that can be named")
	require.Equal(t, map[string]string{"subscription": "order-placed"}, all[0].Fields)
	require.Equal(t, "2 of the subscription order-placed", all[0].About)
	require.Equal(t, "1000+ of the subscription payment-result", all[1].About, "no more are counted")
	require.Equal(t, map[string]string{"orderId": "order-1"}, all[2].Fields)
	require.Equal(t, "All of order order-1", all[2].About)
	require.Equal(t, map[string]string{"orderId": "order-2"}, all[3].Fields)
	for _, d := range all {
		require.Equal(t, "operations/dead-letters/redrive", d.Path)
		require.Equal(t, "operation-actions", d.Opener)
	}
	require.Empty(t, buttons(t, New(true).DeadLetters("dead-letters", true, counts, workflow.Page[workflow.DeadLetter]{Items: []workflow.DeadLetter{letter}})))

	tile := func(n int) (class, value string) {
		return tileOf(t, string(New(false).Overview(workflow.Summary{}, workflow.Page[workflow.Flagged]{}, workflow.Page[workflow.Refused]{}, nil, n)), "dead letters")
	}
	class, value := tile(-1)
	require.Equal(t, []string{"tile none", "–"}, []string{class, value}, "not known is not none")
	class, value = tile(0)
	require.Equal(t, []string{"tile none", "0"}, []string{class, value})
	_, value = tile(workflow.DeadLettersCounted - 1)
	require.Equal(t, "999", value)
	_, value = tile(workflow.DeadLettersCounted)
	require.Equal(t, "1000+", value, "no more are counted")
}

func TestARejectedMessageIsListedWithAWayToItAndToItsOrder(t *testing.T) {
	t.Parallel()
	known, stray := workflow.Refused{ID: "0a1b"}, workflow.Refused{ID: "2c3d"}
	known.OrderID, stray.OrderID = "order-1", "no order"
	html := string(New(false).Rejections("rejected", true, workflow.Page[workflow.Refused]{Items: []workflow.Refused{known, stray}}))
	for _, link := range []string{"#/messages/rejected/0a1b", "#/messages/rejected/2c3d", "#/orders/order-1"} {
		require.Contains(t, html, `href="`+link+`"`)
	}
	require.Contains(t, html, `<span class="id">no order</span>`)
	require.NotContains(t, html, `href="#/orders/no`)
}

func TestARejectedMessageIsShownWithItsBytes(t *testing.T) {
	t.Parallel()
	p := New(false)
	m := workflow.Refused{ID: "0a/1b", Size: 9, Times: 2, Open: true, Rejection: workflow.Rejection{Reason: "no good"}}
	m.OrderID, m.Body = "order-1", []byte(`{"a":"é"}`)
	html := string(p.Rejected(m))
	require.Contains(t, html, `<pre class="body" tabindex="0">{&#34;a&#34;:&#34;é&#34;}</pre>`)
	require.Contains(t, html, `href="#/orders/order-1"`)
	require.Contains(t, html, "A message without a type")
	require.Contains(t, html, "no good")
	require.Contains(t, html, "9 bytes")
	all := buttons(t, []byte(html))
	require.Len(t, all, 2)
	require.Equal(t, "operations/rejected/0a%2F1b/resubmit", all[0].Path)
	require.Equal(t, "operations/rejected/0a%2F1b/discard", all[1].Path)
	require.Equal(t, "operation-actions", all[1].Opener)
	require.Empty(t, all[0].Version, "it has none")
	require.False(t, all[0].Grave)
	require.True(t, all[1].Grave)
	require.Empty(t, buttons(t, New(true).Rejected(m)))

	require.NotContains(t, html, "Dealt with")
	m.Settled = workflow.Settlement{How: workflow.SettledByDiscard, At: noon, By: "ann", Reason: "a test"}
	require.Contains(t, string(p.Rejected(m)), "discarded by ann: a test. It came again after that.")
	require.Len(t, buttons(t, p.Rejected(m)), 2)
	m.Open = false
	require.Contains(t, string(p.Rejected(m)), "discarded by ann: a test</p>")
	require.Empty(t, buttons(t, p.Rejected(m)), "it is dealt with")

	m.OrderID, m.Body = "not an order", []byte{0xff, 0x00, 'x'}
	html = string(p.Rejected(m))
	require.Contains(t, html, "00000000  ff 00 78")
	require.NotContains(t, html, `href="#/orders/not`)

	m.Body = []byte(strings.Repeat("a", mostShown-1) + "é" + strings.Repeat("b", 10))
	html = string(p.Rejected(m))
	require.Contains(t, html, "Only the beginning is shown.")
	require.Contains(t, html, "aaa</pre>", "a letter is not cut in two")
	require.NotContains(t, html, "00000000")
	m.Body = append([]byte{0xff}, m.Body...)
	require.Contains(t, string(p.Rejected(m)), "00000000  ff 61")
}
