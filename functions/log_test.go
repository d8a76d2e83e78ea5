package functions_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestOneLineIsLoggedForAnInvocationAndSaysWhoAndWhat(t *testing.T) {
	t.Parallel()
	var w world
	clock := time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)
	a := w.app()
	a.Now = func() time.Time {
		clock = clock.Add(1500 * time.Microsecond)
		return clock
	}
	r := newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(fixture(t, "order-placed.binary")))
	r.Header.Set("X-Azure-Functions-InvocationId", "e5c1")
	send(a.Handler(), r)
	line := w.logged(t)
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "invocation", "invocationId": "e5c1", "function": "order-placed",
		"orderId": "order-42", "messageId": origin, "messageType": "OrderPlaced", "deliveryCount": 1.0,
		"outcome": "Applied", "from": "NotStarted", "to": "AwaitingInventory", "version": 1.0,
		"reason": "the order was placed", "traceId": "0af7651916cd43dd8448eb211c80319c", "status": 200.0, "durationMs": 1.5,
	}, line)
}

func TestRejectedAndBlockedAreWarningsAndFailedIsAnErrorAndTheRestIsInformation(t *testing.T) {
	t.Parallel()
	for outcome, level := range map[workflow.Outcome]string{
		workflow.Applied: "INFO", workflow.Duplicate: "INFO", workflow.Stale: "INFO", workflow.Held: "INFO",
		workflow.Skipped: "INFO", workflow.Rejected: "WARN", workflow.Failed: "ERROR", workflow.Blocked: "WARN",
	} {
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { return decision(outcome), nil }}
		w.post(t, "/order-placed", invocation(placedBody, nil))
		require.Equal(t, level, w.logged(t)["level"], outcome)
	}
}

func TestALateDeadlineIsLoggedWithHowLateItWas(t *testing.T) {
	t.Parallel()
	for late, want := range map[time.Duration]any{1500*time.Millisecond + 250*time.Microsecond: 1500.25, 0: nil} {
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			d := decision(workflow.Applied)
			d.Late = late
			return d, nil
		}}
		w.post(t, "/order-placed", invocation(placedBody, nil))
		require.Equal(t, want, w.logged(t)["lateMs"])
	}
}

func TestWhatWentWrongBesideAMessageIsAnErrorLineThoughTheMessageIsDone(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Applied, Trouble: "the order is blocked by m-7: panic: no luck"}, nil
	}}
	require.Equal(t, 200, w.post(t, "/order-placed", invocation(placedBody, nil)).Code)
	line := w.logged(t)
	require.Equal(t, "ERROR", line["level"])
	require.Equal(t, "the order is blocked by m-7: panic: no luck", line["trouble"])
}

func TestNeitherTheLogNorTheAnswerHoldsWhatABodySays(t *testing.T) {
	t.Parallel()
	secret := "Zoe Secret"
	for name, tt := range map[string]struct {
		kind, body string
		decide     func(workflow.Message) workflow.Decision
	}{
		"in a field that is refused": {"OrderPlaced", `{"orderId":"order-42","customerId":"c","currency":"` + secret + `"}`, nil},
		"in a number":                {"OrderPlaced", `{"orderId":"order-42","customerId":"c","currency":"EUR","amount":-471147114711,"lines":[]}`, nil},
		"in a list":                  {"OrderPlaced", `{"orderId":"order-42","customerId":"c","currency":"EUR","amount":1,"lines":[{"sku":"` + secret + `","quantity":-471147114711}]}`, nil},
		"in an order ID":             {"OrderPlaced", `{"orderId":"` + secret + `"}`, nil},
		"in a reason": {
			"PaymentFailed", `{"orderId":"order-42","reason":"` + secret + ` has no money"}`,
			func(m workflow.Message) workflow.Decision {
				return workflow.Apply(workflow.Order{ID: "order-42", Status: workflow.AwaitingPayment}, m, nil).Decisions[0]
			},
		},
		"in a conflict": {
			"OrderPlaced", strings.Replace(placedBody, "c-7", secret+` \" `+secret, 1),
			func(m workflow.Message) workflow.Decision {
				return workflow.Apply(workflow.Order{ID: "order-42", Status: workflow.AwaitingInventory, CustomerID: "c-7"}, m, nil).Decisions[0]
			},
		},
		"in a reason that is too long to be kept whole": {
			"PaymentFailed", `{"orderId":"order-42","reason":"` + secret + strings.Repeat(" has no money", 100) + `"}`,
			func(m workflow.Message) workflow.Decision {
				return workflow.Apply(workflow.Order{ID: "order-42", Status: workflow.AwaitingPayment}, m, nil).Decisions[0]
			},
		},
		"in the name of a deadline": {
			"PaymentDeadlineExpired", `{"orderId":"order-42","timeoutId":"` + secret + `","dueAt":"2026-07-19T10:00:00Z"}`,
			func(m workflow.Message) workflow.Decision {
				return workflow.Apply(workflow.Order{ID: "order-42", Status: workflow.AwaitingPayment}, m, nil).Decisions[0]
			},
		},
		"in a reference that is known": {
			"InventoryReserved", `{"orderId":"order-42","reservationId":"` + secret + `"}`,
			func(m workflow.Message) workflow.Decision {
				known := workflow.Order{ID: "order-42", Status: workflow.AwaitingPayment, Effects: []workflow.Effect{
					{Kind: workflow.Goods, State: workflow.EffectHeld, Ref: secret},
				}}
				return workflow.Apply(known, m, nil).Decisions[0]
			},
		},
		"in the name of a command": {
			"InventoryReleaseFailed", `{"orderId":"order-42","reservationId":"r","reason":"","commandId":"` + secret + `"}`,
			func(m workflow.Message) workflow.Decision {
				asked := workflow.Order{ID: "order-42", Status: workflow.Compensating, Effects: []workflow.Effect{
					{Kind: workflow.Goods, State: workflow.EffectWaiting, Ref: "r"},
				}}
				return workflow.Apply(asked, m, nil).Decisions[0]
			},
		},
		"in the reference of a shipment that is said to have failed": {
			"ShipmentFailed", `{"orderId":"order-42","reason":""}`,
			func(m workflow.Message) workflow.Decision {
				left := workflow.Order{ID: "order-42", Status: workflow.Completed, Effects: []workflow.Effect{
					{Kind: workflow.Shipment, State: workflow.EffectHeld, Ref: secret},
				}}
				return workflow.Apply(left, m, nil).Decisions[0]
			},
		},
		"in a sound order": {"OrderPlaced", strings.Replace(placedBody, "c-7", secret, 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			if tt.decide != nil {
				w.handle = func(_ context.Context, m workflow.Message) (workflow.Decision, error) { return tt.decide(m), nil }
			}
			answer := w.post(t, "/order-placed", invocation(tt.body, map[string]any{"Subject": quoted(tt.kind)}))
			require.Equal(t, 200, answer.Code)
			require.NotContains(t, answer.Body.String(), secret)
			require.NotContains(t, answer.Body.String(), "471147114711")
			require.NotContains(t, w.log.String(), secret)
			require.NotContains(t, w.log.String(), "471147114711")
			require.NotEmpty(t, w.logged(t)["reason"])
		})
	}
}

func TestANumberInAFieldThatIsRefusedIsNotLoggedEither(t *testing.T) {
	t.Parallel()
	const phone = "4917612345678"
	for _, value := range []string{phone, "[" + phone + "]", `{"phone":` + phone + `}`} {
		var w world
		answer := w.post(t, "/order-placed", invocation(`{"orderId":"order-42","customerId":`+value+`}`, nil))
		settled(t, 200, answer)
		require.NotContains(t, answer.Body.String(), phone)
		require.NotContains(t, w.log.String(), phone)
		require.Contains(t, w.onlyRejection(t).Reason, phone, "what is kept says what was wrong")
	}
}

func TestAnIdentityCannotForgeALogLineNorFloodIt(t *testing.T) {
	t.Parallel()
	forged := "m-1\n{\"level\":\"ERROR\"}\r\n\x1b[31m" + strings.Repeat("é", 5000)
	var w world
	answer := w.post(t, "/order-placed", invocation(placedBody, map[string]any{
		"MessageId": quoted(forged), "SessionId": quoted(forged), "Subject": quoted(forged),
	}))
	require.Less(t, answer.Body.Len(), 2000)
	settled(t, 200, answer)
	require.True(t, strings.HasPrefix(w.logged(t)["messageId"].(string), "m-1\n{"))
	require.Less(t, w.log.Len(), 2000)
	require.Equal(t, forged, w.onlyRejection(t).ID, "what is kept is verbatim")
}

func TestTheLogOfTheAPIHoldsNothingOfWhatABodySays(t *testing.T) {
	t.Parallel()
	var w world
	body := `{"orderId":"order-42","customerId":"c","currency":"EUR","amount":-471147114711,"lines":[]}`
	r := newRequest(t, http.MethodPost, "/api/orders", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	answer := send(w.app().Handler(), r)
	require.Equal(t, 400, answer.Code)
	require.Contains(t, answer.Body.String(), "471147114711", "the caller is told what is wrong")
	require.NotContains(t, w.log.String(), "471147114711")
}
