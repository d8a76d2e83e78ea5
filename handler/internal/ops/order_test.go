package ops

import (
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// buttons are what the buttons of a fragment send, in order.
func buttons(t *testing.T, fragment []byte) (all []dialog) {
	t.Helper()
	for _, found := range regexp.MustCompile(`data-act="([^"]*)"`).FindAllSubmatch(fragment, -1) {
		var d dialog
		require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), &d))
		all = append(all, d)
	}
	return all
}

// stories are orders as they may stand: each status, blocked or not, with an
// armed deadline or not, and a command in each state.
func stories() (all []workflow.Story) {
	for _, row := range workflow.Table() {
		for _, blockedBy := range []string{"", "bank:7"} {
			for _, armed := range []string{"", "order-42:payment-timeout:1"} {
				for _, state := range []string{workflow.DispatchWaiting, workflow.DispatchSent, workflow.DispatchDead, workflow.DispatchClosed} {
					for _, effect := range []workflow.EffectState{workflow.EffectHeld, workflow.EffectFailed, workflow.EffectOverdue} {
						all = append(all, workflow.Story{
							Order: workflow.Order{
								ID: "order-42", Status: row.Status, Version: 7, Armed: armed, Counts: map[string]int{"capture-payment": 1},
								Effects: []workflow.Effect{{Kind: workflow.Money, State: effect}},
							},
							BlockedBy: blockedBy,
							Outbox:    []workflow.Dispatch{{Outgoing: workflow.Outgoing{ID: "order-42:capture-payment:1", Type: workflow.CapturePayment}, State: state}},
						})
					}
				}
			}
		}
	}
	return all
}

func TestWhatIsAllowedHasAButtonAndNothingElseHas(t *testing.T) {
	t.Parallel()
	offered, p, readOnly := map[string]bool{}, New(false), New(true)
	for _, s := range stories() {
		var want []string
		for _, may := range workflow.Allowed(s) {
			field := map[string]string{"retry": "messageId", "skip": "messageId", "send-again": "commandId", "discard": "commandId", "fire-deadline": "deadlineId"}[may.Action]
			fields := map[string]string{}
			if may.Target != "" {
				fields[field] = may.Target
			}
			if may.To != "" {
				fields["to"] = may.To
			}
			want = append(want, fmt.Sprint("orders/order-42/", may.Action, fields))
			offered[may.Action] = true
		}
		var got []string
		titles := map[string]bool{}
		for _, d := range buttons(t, p.Order(s, nil)) {
			got = append(got, fmt.Sprint(d.Path, d.Fields))
			require.Equal(t, "7", d.Version, "as it was seen")
			require.Equal(t, "order-actions", d.Opener)
			require.NotEmpty(t, d.Says, d.Path)
			require.Equal(t, "Order order-42, as you see it at version 7", d.About)
			require.False(t, titles[d.Title], "two buttons say %s", d.Title)
			titles[d.Title] = true
		}
		require.Equal(t, want, got)
		require.Empty(t, buttons(t, readOnly.Order(s, nil)), "nothing may be done where it is read-only")
		require.Contains(t, string(readOnly.Order(s, nil)), "read-only")
	}
	for _, action := range []string{"cancel", "retry", "resolve", "skip", "send-again", "discard", "fire-deadline"} {
		require.True(t, offered[action], action)
	}
}

func TestWhatGivesSomethingUpLooksLikeIt(t *testing.T) {
	t.Parallel()
	p := New(false)
	for _, s := range stories() {
		for _, d := range buttons(t, p.Order(s, nil)) {
			name := d.Path[strings.LastIndexByte(d.Path, '/')+1:]
			require.Equal(t, slices.Contains([]string{"cancel", "skip", "discard", "resolve"}, name), d.Grave, d.Path)
		}
	}
}

// paid is an order that was paid, and whose parcel is not confirmed.
func paid() workflow.Story {
	command := func(t workflow.MessageType, id, state string) workflow.Dispatch {
		return workflow.Dispatch{Outgoing: workflow.Outgoing{ID: id, Type: t}, State: state, Attempts: 1, SentAt: noon}
	}
	entry := func(e workflow.Entry, after time.Duration, id, parent string, emitted ...string) workflow.Entry {
		e.At, e.MessageID, e.ParentID, e.Emitted, e.Reason = noon.Add(after), id, parent, emitted, "why "+id
		return e
	}
	deadline := workflow.Dispatch{
		Outgoing: workflow.Outgoing{ID: "order-42:shipment-timeout:1", Type: workflow.ShipmentDeadlineExpired, Purpose: workflow.ShipmentTimeout, DueAt: noon.Add(time.Hour)},
		State:    workflow.DispatchWaiting,
	}
	return workflow.Story{
		Order: workflow.Order{
			ID: "order-42", Status: workflow.AwaitingShipment, Version: 3, Armed: deadline.ID, Currency: "EUR", Amount: 12990,
			Lines: []workflow.Line{{SKU: "A/1", Quantity: 2}}, Because: "no luck", Problem: "ship-order:1 could not be sent",
			Effects: []workflow.Effect{
				{Kind: workflow.Goods, State: workflow.EffectUndone, Ref: "res-1", Undo: "by hand: x"}, {Kind: workflow.Money, State: workflow.EffectFailed, Ref: "pay-1", Failure: "the bank is closed"},
				{Kind: workflow.Shipment, State: workflow.EffectWaiting},
			},
			Counts: map[string]int{"ship-order": 1},
		},
		CreatedAt: noon, Since: noon.Add(time.Minute), UpdatedAt: noon.Add(time.Minute), DeadlineAt: noon.Add(time.Hour),
		Journal: []workflow.Entry{
			entry(applied(workflow.OrderPlaced, workflow.NotStarted, workflow.AwaitingInventory), 0, "shop:1", "shop:1", "order-42:reserve-inventory:1", "order-42:inventory-timeout:1"),
			entry(applied(workflow.InventoryReserved, workflow.AwaitingInventory, workflow.AwaitingPayment), 300*time.Millisecond, "answer-1", "order-42:reserve-inventory:1", "order-42:capture-payment:1"),
			entry(workflow.Entry{Type: workflow.InventoryReserved, Outcome: workflow.Stale, From: workflow.AwaitingPayment, To: workflow.AwaitingPayment}, time.Second, "answer-1b", "elsewhere:9"),
			entry(applied(workflow.PaymentCaptured, workflow.AwaitingPayment, workflow.AwaitingShipment), time.Minute+1500*time.Millisecond, "answer-2", "order-42:capture-payment:1", "order-42:ship-order:1", deadline.ID),
		},
		Outbox: []workflow.Dispatch{
			command(workflow.ReserveInventory, "order-42:reserve-inventory:1", workflow.DispatchSent),
			command(workflow.CapturePayment, "order-42:capture-payment:1", workflow.DispatchDead),
			command(workflow.ShipOrder, "order-42:ship-order:1", workflow.DispatchSent), deadline,
			command(workflow.CancelOrder, "order-42:cancel-order:1", workflow.DispatchWaiting),
		},
		Held:     []workflow.Envelope{{ID: "early-1", Type: workflow.ShipmentFailed}},
		Line:     []workflow.Envelope{{ID: "line-1", Type: workflow.PaymentFailed}},
		Rejected: []workflow.Refusal{{At: noon, MessageID: "bad-1", Type: workflow.PaymentCaptured, Reason: "malformed", Times: 3}},
	}
}

func TestTheTimelineShowsWhatCameWhatThatSentAndWhatItAnswers(t *testing.T) {
	t.Parallel()
	var v order
	v.timeline(paid())
	require.Len(t, v.Steps, 4)
	require.Zero(t, v.Earlier)

	placed, reserved, again, captured := v.Steps[0], v.Steps[1], v.Steps[2], v.Steps[3]
	require.Nil(t, placed.Parent, "it is its own parent")
	require.Empty(t, placed.After)
	require.True(t, placed.Moved)
	require.Equal(t, "sent, 1", strings.Join([]string{placed.Sent[0].Says(), fmt.Sprint(placed.Sent[0].Attempts)}, ", "))
	require.Equal(t, "not kept any more", placed.Sent[1].Says())
	require.True(t, placed.Sent[1].Deadline)
	require.Equal(t, &cause{"s0", "reserve-inventory:1", "order-42:reserve-inventory:1"}, reserved.Parent)
	require.Equal(t, "0.3 s", reserved.After)
	require.Equal(t, "dead: the broker refused it for good", reserved.Sent[0].Says())
	require.Equal(t, &cause{"", "elsewhere:9", "elsewhere:9"}, again.Parent, "what is not here cannot be gone to")
	require.False(t, again.Moved)
	require.Equal(t, "1m1s", captured.After)
	require.Equal(t, "sent, not answered", captured.Sent[0].Says())
	require.Equal(t, "armed", captured.Sent[1].Says())
	require.Len(t, v.Loose, 1)
	require.Equal(t, "cancel-order:1", v.Loose[0].Short)
	require.Equal(t, "not sent yet", v.Loose[0].Says())

	noticed := paid()
	noticed.Order.Counts["cancel-order"] = 1
	noticed.Outbox[4].State = workflow.DispatchSent
	require.True(t, noticed.Order.Awaits("order-42:cancel-order:1"))
	v = order{}
	v.timeline(noticed)
	require.Equal(t, "sent", v.Loose[0].Says(), "nothing answers it")

	text := string(New(false).Order(paid(), nil))
	for _, link := range regexp.MustCompile(`data-goto="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		require.Equal(t, 1, strings.Count(text, `id="`+link[1]+`"`), "the way to %s", link[1])
	}
	ids := regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(text, -1)
	seen := map[string]bool{}
	for _, id := range ids {
		require.False(t, seen[id[1]], "two of %s", id[1])
		seen[id[1]] = true
	}
}

func TestAnOrderIsToldInFull(t *testing.T) {
	t.Parallel()
	s := paid()
	s.BlockedBy = "line-1"
	s.Journal = append(s.Journal, workflow.Entry{At: noon, MessageID: "line-1", Type: workflow.PaymentFailed, Outcome: workflow.Blocked, Reason: "panic: nil map"},
		workflow.Entry{At: noon, MessageID: "line-1", Type: workflow.PaymentFailed, Outcome: workflow.Skipped, Reason: "skipped by ann"})
	require.Equal(t, 2, strings.Count(string(New(false).Order(s, []workflow.Stuck{{}})), "panic: nil map"), "where it says why it is stuck, too")
	text := string(New(false).Order(s, []workflow.Stuck{{Kind: workflow.StuckBlocked, Why: "message line-1 could not be handled and blocks it"}}))
	for _, words := range []string{
		"The order is paid"[4:], "a person, who retries or skips the message that blocks it", "message line-1 could not be handled", "panic: nil map",
		"shipment-timeout:1", "12990 EUR", "in the smallest unit", "A/1", "res-1", "by hand: x", "the bank is closed", "turned back because no luck", "ship-order:1 could not be sent",
		"early-1", "line-1", "bad-1", "malformed", "came 3 times", `class="verdict bad"`, "why answer-2",
	} {
		require.Contains(t, text, words)
	}
	require.Contains(t, string(New(false).Order(paid(), []workflow.Stuck{{Kind: workflow.StuckAttention, Why: "it waits"}})), `class="verdict warn"`)
	require.NotContains(t, string(New(false).Order(paid(), nil)), "It is stuck")
}

func TestOfALongOrderTheFirstLinesAreShownAndTheOthersFolded(t *testing.T) {
	t.Parallel()
	s := paid()
	s.Order.Lines = nil
	for n := range mostLines {
		s.Order.Lines = append(s.Order.Lines, workflow.Line{SKU: fmt.Sprintf("sku-%d-", n), Quantity: 2})
	}
	require.NotContains(t, string(New(false).Order(s, nil)), "<details")
	s.Order.Lines = append(s.Order.Lines, workflow.Line{SKU: "last-a", Quantity: 3}, workflow.Line{SKU: "last-b", Quantity: 4})
	text := string(New(false).Order(s, nil))
	before, folded, found := strings.Cut(text, `<details id="ordered"><summary>2 more lines</summary>`)
	require.True(t, found)
	require.Equal(t, mostLines, strings.Count(before, "2 ×</span> sku-"))
	require.Contains(t, folded, `3 ×</span> last-a, <span class="num">4 ×</span> last-b</details>`)
	require.NotContains(t, before, "last-a")
	s.Order.Lines = nil
	require.NotContains(t, string(New(false).Order(s, nil)), "Ordered")
}

func TestWhatWasRefusedForGoodOfAnOrderIsReachedFromThere(t *testing.T) {
	t.Parallel()
	s := paid()
	require.Contains(t, string(New(false).Order(s, nil)), `href="#/messages?kind=rejected"`)
	s.Rejected = nil
	require.NotContains(t, string(New(false).Order(s, nil)), `href="#/messages?kind=rejected"`)
}

func TestTheTimelineSaysWhichOperatorAskedAndWhyOnce(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		e    workflow.Entry
		want string
	}{
		{workflow.Entry{Reason: "a person settled it by hand"}, ""},
		{workflow.Entry{Reason: "a person settled it by hand", Said: "shop asked"}, ""},
		{workflow.Entry{Reason: "a person settled it by hand", Actor: "ann"}, "ann"},
		{workflow.Entry{Reason: "a person settled it by hand", Actor: "ann", Said: "shop asked"}, "ann: shop asked"},
		{workflow.Entry{Reason: "the customer cancelled: shop asked", Actor: "ann", Said: "shop asked"}, "ann"},
		{workflow.Entry{Reason: "sent again by ann: shop asked", Actor: "ann", Said: "shop asked"}, ""},
	} {
		require.Equal(t, of.want, askedBy(of.e))
		text := string(New(false).Order(workflow.Story{Journal: []workflow.Entry{of.e}}, nil))
		require.Equal(t, of.want != "", strings.Contains(text, `<span class="by">by `+of.want+`</span>`))
	}
	text := string(New(false).Order(workflow.Story{Journal: []workflow.Entry{{Function: "payment-result"}}}, nil))
	require.Contains(t, text, ", came to payment-result")
}

func TestOfALongJournalTheEndIsShown(t *testing.T) {
	t.Parallel()
	s := paid()
	last := s.Journal[len(s.Journal)-1]
	s.Journal = slices.Concat(slices.Repeat(s.Journal[2:3], mostSteps), []workflow.Entry{last})
	var v order
	v.timeline(s)
	require.Len(t, v.Steps, mostSteps)
	require.Equal(t, 1, v.Earlier)
	require.Equal(t, "e200", v.Steps[mostSteps-1].Anchor, "an entry keeps its name when others come")
	require.Contains(t, string(New(false).Order(s, nil)), "1 earlier entry is not shown here")
	s.Journal = slices.Insert(s.Journal, 0, paid().Journal[0])
	v = order{}
	v.timeline(s)
	require.Equal(t, []string{"capture-payment:1", "cancel-order:1"}, []string{v.Loose[0].Short, v.Loose[1].Short}, "what an earlier entry sent is not among the rest")
}

func TestWhatIsSentIsSaidInWords(t *testing.T) {
	t.Parallel()
	says := func(state string, deadline bool, attempts int) string {
		return sent{Deadline: deadline, Dispatch: workflow.Dispatch{State: state, Attempts: attempts}}.Says()
	}
	require.Equal(t, "kept until it is near", says(workflow.DispatchWaiting, true, 0))
	require.Equal(t, "not sent yet, 4 attempts", says(workflow.DispatchWaiting, false, 4))
	require.Equal(t, "at the broker", says(workflow.DispatchSent, true, 1))
	require.Equal(t, "settled", says(workflow.DispatchClosed, true, 0))
	require.Equal(t, "not wanted any more", says(workflow.DispatchClosed, false, 0))
	require.Equal(t, "to be recalled from the broker", says(workflow.DispatchRecall, true, 1))
	require.Equal(t, "sent", says(workflow.DispatchSent, false, 1))
	require.Empty(t, pause(0))
	require.Empty(t, pause(-time.Second))
	require.Equal(t, "59.99 s", pause(59994*time.Millisecond))
}
