package functions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestTheStoryOfAnOrderAnswersWhyItWaits(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time {
		return time.Date(2026, 7, 19, 12, minute, 0, 0, time.FixedZone("", 2*60*60))
	}
	w := world{story: func(_ context.Context, id string) (workflow.Story, error) {
		return workflow.Story{
			Order: workflow.Order{
				ID: id, Status: workflow.AwaitingPayment, Version: 2, Armed: "order-42:payment-timeout:1", CustomerID: "Zoë",
				Effects: []workflow.Effect{{Kind: workflow.Goods, State: workflow.EffectHeld, Ref: "reservation-9001"}},
			},
			Revision: 3, CreatedAt: at(0), Since: at(1), UpdatedAt: at(2), DeadlineAt: at(59),
			Journal: []workflow.Entry{{
				At: at(1), MessageID: "inventory:reserved:9001", Type: workflow.InventoryReserved, ParentID: "order-42:reserve-inventory:1",
				Outcome: workflow.Applied, Reason: "the goods are reserved", From: workflow.AwaitingInventory, To: workflow.AwaitingPayment,
				Version: 2, Emitted: []string{"order-42:capture-payment:1"}, Function: "inventory-reserved",
			}},
			Outbox: []workflow.Dispatch{{
				Outgoing: workflow.Outgoing{ID: "order-42:capture-payment:1", Type: workflow.CapturePayment},
				State:    "waiting", Attempts: 2, Refusals: 1, NextAttemptAt: at(3), LastError: "the broker is away",
			}},
			Held:     []workflow.Envelope{{ID: "shipping:confirmed:1"}},
			Rejected: []workflow.Refusal{{At: at(2), MessageID: "m-1", Type: workflow.OrderPlaced, Reason: "conflict", Times: 2}},
		}, nil
	}}
	answer := send(w.app().Handler(), newRequest(t, http.MethodGet, "/api/orders/order-42", http.NoBody))
	require.Equal(t, 200, answer.Code)
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	require.Equal(t, "private, no-cache", answer.Header().Get("Cache-Control"))
	require.JSONEq(t, `{
		"orderId": "order-42", "status": "AwaitingPayment",
		"meaning": "the goods are held and the customer's payment was asked for",
		"waitsFor": "the payment service's answer to CapturePayment",
		"facts": ["goods reservation-9001 held"],
		"version": 2, "revision": 3,
		"since": "2026-07-19T10:01:00Z", "createdAt": "2026-07-19T10:00:00Z", "updatedAt": "2026-07-19T10:02:00Z",
		"deadline": {"id": "order-42:payment-timeout:1", "dueAt": "2026-07-19T10:59:00Z"},
		"effects": [{"kind": "goods", "state": "held", "ref": "reservation-9001"}],
		"journal": [{
			"at": "2026-07-19T10:01:00Z", "messageId": "inventory:reserved:9001", "type": "InventoryReserved",
			"parentId": "order-42:reserve-inventory:1", "outcome": "Applied", "reason": "the goods are reserved",
			"from": "AwaitingInventory", "to": "AwaitingPayment", "version": 2, "emitted": ["order-42:capture-payment:1"],
			"function": "inventory-reserved", "actor": "", "said": ""
		}],
		"outbox": [{
			"id": "order-42:capture-payment:1", "type": "CapturePayment", "state": "waiting", "attempts": 2,
			"refusals": 1,
			"nextAttemptAt": "2026-07-19T10:03:00Z", "sentAt": null, "closedAt": null, "lastError": "the broker is away"
		}],
		"blockedBy": null, "line": [],
		"held": ["shipping:confirmed:1"],
		"rejected": [{"at": "2026-07-19T10:02:00Z", "messageId": "m-1", "type": "OrderPlaced", "reason": "conflict", "times": 2}],
		"stuck": [],
		"allowed": [{"action": "cancel"}, {"action": "fire-deadline", "deadlineId": "order-42:payment-timeout:1"}]
	}`, answer.Body.String())
}

func TestTheStorySaysWhichOperatorActedAndWhy(t *testing.T) {
	t.Parallel()
	w := world{story: storyOf(workflow.Story{Journal: []workflow.Entry{{Type: workflow.CancellationRequested, Function: "order-actions", Actor: "ann", Said: "asked by phone"}}})}
	for _, path := range []string{"/api/orders/order-42", "/api/orders/order-42/history"} {
		told := object(t, w.get(t, path))
		list, here := told["journal"].([]any)
		if !here {
			list = told["items"].([]any)
		}
		line := list[0].(map[string]any)
		require.Equal(t, []any{"ann", "asked by phone"}, []any{line["actor"], line["said"]}, path)
	}
}

func TestAnOrderOfWhichLittleIsKnownHasEmptyListsAndNoTimes(t *testing.T) {
	t.Parallel()
	w := world{story: func(_ context.Context, id string) (workflow.Story, error) {
		return workflow.Story{Order: workflow.Order{ID: id, Status: workflow.NotStarted}, Journal: []workflow.Entry{{}}}, nil
	}}
	answer := send(w.app().Handler(), newRequest(t, http.MethodGet, "/api/orders/order-42", http.NoBody))
	require.JSONEq(t, `{
		"orderId": "order-42", "status": "NotStarted", "meaning": "messages came before the order itself", "waitsFor": "OrderPlaced",
		"facts": [], "version": 0, "revision": 0, "since": null, "createdAt": null, "updatedAt": null, "deadline": null,
		"effects": [], "outbox": [], "blockedBy": null, "line": [], "held": [], "rejected": [],
		"stuck": [], "allowed": [{"action": "cancel"}],
		"journal": [{"at": null, "messageId": "", "type": "", "parentId": "", "outcome": "", "reason": "", "from": "", "to": "", "version": 0, "emitted": [],
			"function": "", "actor": "", "said": ""}]
	}`, answer.Body.String())
}

func TestAnOrderThatIsBlockedSaysByWhatAndWhyAndWhoCanHelp(t *testing.T) {
	t.Parallel()
	w := world{story: func(_ context.Context, id string) (workflow.Story, error) {
		return workflow.Story{
			Order: workflow.Order{ID: id, Status: workflow.AwaitingPayment}, BlockedBy: "m2",
			Line: []workflow.Envelope{{ID: "m2"}, {ID: "m3"}},
			Journal: []workflow.Entry{
				{MessageID: "m1", Outcome: workflow.Applied, Reason: "paid"},
				{MessageID: "m2", Outcome: workflow.Blocked, Reason: "panic: no luck"},
				{MessageID: "m3", Outcome: workflow.Blocked, Reason: "it waits behind m2, which blocks the order"},
			},
		}, nil
	}}
	answer := send(w.app().Handler(), newRequest(t, http.MethodGet, "/api/orders/order-42", http.NoBody))
	var told map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &told))
	require.Equal(t, map[string]any{"messageId": "m2", "reason": "panic: no luck"}, told["blockedBy"])
	require.Equal(t, []any{"m2", "m3"}, told["line"])
	require.Equal(t, "a person, who retries or skips the message that blocks it", told["waitsFor"])
}

func TestAnOrderThatIsNotThereOrCannotBeReadSaysSo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path   string
		err    error
		status int
	}{
		{"/api/orders/order-42", fmt.Errorf("load: %w", workflow.ErrNoOrder), 404},
		{"/api/orders/order-42", errors.New("the database is away"), 503},
		{"/api/orders/order%2042", nil, 400},
		{"/api/orders/a/b", nil, 404},
		{"/api/orders/a%2Fb", nil, 400},
		{"/api/orders/a%2Fhistory", nil, 400},
		{"/api/orders/a%2Fb/history", nil, 400},
		{"/api/orders/a%5Cb/diagram", nil, 400},
		{"/api/orders/" + strings.Repeat("x", 97), nil, 400},
		{"/api/orders/%27%3BDROP%20TABLE", nil, 400},
	} {
		w := world{story: func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, tt.err }}
		answer := send(w.app().Handler(), newRequest(t, http.MethodGet, tt.path, http.NoBody))
		require.NotContains(t, aProblem(t, tt.status, answer), "database")
	}
}

func TestAnOrderIsFoundHoweverTheHostLetsItsPathBeWritten(t *testing.T) {
	t.Parallel()
	for path, id := range map[string]string{
		"/api/orders/order-42": "order-42", "/API/Orders/order-42": "order-42", "/api/orders/order-42/": "order-42", "/api/orders/Order-42": "Order-42",
		"/api/order%73/order-42/HISTORY": "order-42", "/api/orders/order-42/diagram/": "order-42",
	} {
		var asked string
		w := world{story: func(_ context.Context, id string) (workflow.Story, error) {
			asked = id
			return workflow.Story{Order: workflow.Order{ID: id}}, nil
		}}
		require.Equal(t, 200, send(w.app().Handler(), newRequest(t, http.MethodGet, path, http.NoBody)).Code, path)
		require.Equal(t, id, asked)
	}
}
