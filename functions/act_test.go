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

	"orderflow/functions"
	"orderflow/workflow"
)

// stuckRefund is an order whose refund failed.
func stuckRefund() workflow.Story {
	return workflow.Story{Order: workflow.Order{
		ID: "order-42", Status: workflow.NeedsAttention, Version: 7, Conversation: "conv-7", Origin: "origin-7",
		Effects: []workflow.Effect{
			{Kind: workflow.Goods, State: workflow.EffectHeld, Ref: "r"},
			{Kind: workflow.Money, State: workflow.EffectFailed, Ref: "p", Failure: "no luck"},
		},
		Counts: map[string]int{"refund-payment": 1},
	}, Revision: 9}
}

func paying() workflow.Story {
	return workflow.Story{Order: workflow.Order{
		ID: "order-42", Status: workflow.AwaitingPayment, Version: 2, Armed: "order-42:payment-timeout:1",
		Counts: map[string]int{"reserve-inventory": 1, "capture-payment": 1},
	}, Outbox: []workflow.Dispatch{
		{Outgoing: workflow.Outgoing{ID: "order-42:reserve-inventory:1", Type: workflow.ReserveInventory}, State: workflow.DispatchSent},
		{Outgoing: workflow.Outgoing{ID: "order-42:capture-payment:1", Type: workflow.CapturePayment}, State: workflow.DispatchDead},
	}}
}

func blocked() workflow.Story {
	s := paying()
	s.BlockedBy = "m-7"
	return s
}

// about is a world in which that is how the order stands.
func about(s workflow.Story) *world { return &world{story: storyOf(s)} }

func (w *world) doPost(t *testing.T, path, body string, headers ...string) map[string]any {
	t.Helper()
	answer := ask(t, w.app(), http.MethodPost, path, body, headers...)
	require.Less(t, answer.Code, 300, answer.Body)
	return object(t, answer)
}

func TestWhatTheProcessDecidesAboutIsAMessageToItWithTheReasonAndTheActor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, body, id string
		story          workflow.Story
		kind           workflow.MessageType
		said           string
	}{
		{"cancel", `{"reason":"asked by phone"}`, "order-42:cancellation-requested:2", paying(), workflow.CancellationRequested, `{"orderId":"order-42","reason":"asked by phone","actor":"ann"}`},
		{"retry", `{"reason":"asked by phone"}`, "order-42:retry:7", stuckRefund(), workflow.Retry, `{"orderId":"order-42","version":7,"reason":"asked by phone","actor":"ann"}`},
		{"resolve", `{"reason":"asked by phone","to":"completed"}`, "order-42:resolve-completed:7", stuckRefund(), workflow.ResolveCompleted, `{"orderId":"order-42","version":7,"reason":"asked by phone","actor":"ann"}`},
		{"resolve", `{"to":"cancelled","reason":" asked by phone\n"}`, "order-42:resolve-cancelled:7", stuckRefund(), workflow.ResolveCancelled, `{"orderId":"order-42","version":7,"reason":"asked by phone","actor":"ann"}`},
	} {
		w := about(tt.story)
		w.handle = func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
			return workflow.Decision{Outcome: workflow.Applied, Reason: "done: " + m.Facts.Reason, From: tt.story.Order.Status, To: workflow.Compensating, Version: 8}, nil
		}
		ifMatch := fmt.Sprintf(`"%d"`, tt.story.Order.Version)
		answer := ask(t, w.app(), http.MethodPost, "/api/orders/order-42/"+tt.path, tt.body, "X-Operator", "ann", "If-Match", ifMatch, "Traceparent", trace)
		require.Equal(t, 202, answer.Code, answer.Body)
		require.Equal(t, "no-store", answer.Header().Get("Cache-Control"))
		require.Equal(t, map[string]any{
			"orderId": "order-42", "action": tt.path, "messageId": tt.id, "outcome": "Applied", "reason": "done: asked by phone",
			"from": string(tt.story.Order.Status), "to": "Compensating", "version": 8.0, "repeated": false,
		}, object(t, answer))

		m := w.onlyMessage(t)
		require.Equal(t, tt.kind, m.Type)
		require.Equal(t, tt.id, m.ID)
		require.Equal(t, "order-42", m.OrderID)
		require.JSONEq(t, tt.said, string(m.Body))
		require.Equal(t, tt.story.Order.Conversation, m.Conversation)
		if tt.story.Order.Origin != "" {
			require.Equal(t, tt.story.Order.Origin, m.OriginID)
		}
		require.Equal(t, trace, m.TraceParent)
		require.Equal(t, workflow.Delivery{Function: "order-actions"}, m.Delivery)

		line := w.logged(t)
		require.Equal(t, "ann", line["actor"])
		require.Equal(t, tt.path, line["action"])
		require.Equal(t, "order-42", line["orderId"])
		require.Equal(t, tt.id, line["messageId"])
		require.NotContains(t, w.log.String(), "phone", "the reason is in the journal")
	}
}

func TestWhatIsDoneBesideTheProcessIsAnActionWithTheReasonAndTheActor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, body string
		story      workflow.Story
		kind       workflow.ActionKind
		target     string
	}{
		{"retry", `{"reason":"mended","messageId":"m-7"}`, blocked(), workflow.RetryMessage, "m-7"},
		{"skip", `{"reason":"mended","messageId":"m-7"}`, blocked(), workflow.SkipMessage, "m-7"},
		{"send-again", `{"reason":"mended","commandId":"order-42:capture-payment:1"}`, paying(), workflow.SendAgain, "order-42:capture-payment:1"},
		{"discard", `{"reason":"mended","commandId":"order-42:capture-payment:1"}`, paying(), workflow.DiscardCommand, "order-42:capture-payment:1"},
		{"fire-deadline", `{"reason":"mended"}`, paying(), "FireDeadline", "order-42:payment-timeout:1"},
		{"fire-deadline", `{"reason":"mended","deadlineId":"order-42:payment-timeout:9"}`, paying(), "FireDeadline", "order-42:payment-timeout:9"},
	} {
		w := about(tt.story)
		got := w.doPost(t, "/api/orders/order-42/"+tt.path, tt.body, "X-Operator", "ann", "Idempotency-Key", "k-1", "If-Match", `"2"`)
		require.Equal(t, "Applied", got["outcome"])
		require.Equal(t, "operator:k-1", got["messageId"])
		did := w.actions
		if tt.path == "fire-deadline" {
			did = w.fired
		}
		require.Equal(t, []workflow.Action{{ID: "operator:k-1", Kind: tt.kind, OrderID: "order-42", Target: tt.target, Reason: "mended", Actor: "ann"}}, did)
		require.Empty(t, w.messages)
		require.Equal(t, "ann", w.logged(t)["actor"])
		require.NotContains(t, w.log.String(), "mended")
	}
	w := about(blocked())
	w.doPost(t, "/api/orders/order-42/skip", `{"reason":"why","messageId":"m-7"}`)
	require.Empty(t, w.actions[0].ID, "the database makes one of the order, the action and the revision")
}

func TestTheActorIsWhomThePlatformKnowsElseWhoTheCallerSaysElseUnknown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		headers []string
		actor   string
	}{
		{nil, "unknown"},
		{[]string{"X-Operator", "ann"}, "ann"},
		{[]string{"X-Ms-Client-Principal-Name", "bob@example.com"}, "bob@example.com"},
		{[]string{"X-Operator", "ann", "x-ms-client-principal-name", "bob@example.com"}, "bob@example.com"},
	} {
		w := about(blocked())
		w.doPost(t, "/api/orders/order-42/skip", `{"reason":"why","messageId":"m-7"}`, tt.headers...)
		require.Equal(t, tt.actor, w.actions[0].Actor)
		require.Equal(t, tt.actor, w.logged(t)["actor"])
	}
	for _, headers := range [][]string{
		{"X-Operator", "ann\x01"}, {"X-Operator", strings.Repeat("x", 129)}, {"X-Operator", "ann", "X-Operator", "bob"}, {"X-Operator", " ann"},
		{"X-Ms-Client-Principal-Name", "\u202egnp"}, {"X-Operator", "ann", "X-Ms-Client-Principal-Name", "\x7f"},
	} {
		w := about(blocked())
		require.Contains(t, aProblem(t, 400, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/skip", `{"reason":"why","messageId":"m-7"}`, headers...)), "the header X-")
		require.Empty(t, w.actions)
	}
}

func TestARepeatedKeyAnswersTheSameAndActsOnlyOnce(t *testing.T) {
	t.Parallel()
	acted := map[string]int{}
	var s workflow.Story
	remember := func(m workflow.Message, d workflow.Decision) (workflow.Decision, error) {
		if journalled := acted[m.ID+m.Fingerprint]; journalled > 0 {
			return workflow.Decision{Outcome: workflow.Duplicate, Reason: "it was handled before: Applied", From: s.Order.Status, To: s.Order.Status, Version: s.Order.Version}, nil
		}
		acted[m.ID+m.Fingerprint]++
		d.Outcome, d.From = workflow.Applied, s.Order.Status
		s.Order.Status, s.Order.Version = d.To, d.Version
		s.Journal = append(s.Journal, workflow.Entry{
			MessageID: m.ID, Type: m.Type, ParentID: m.ParentID, Outcome: workflow.Applied, Reason: d.Reason, From: d.From, To: d.To, Version: d.Version,
		})
		return d, nil
	}
	for _, tt := range []struct {
		name, path, body string
		story            workflow.Story
		headers          []string
	}{
		{"with a key", "cancel", `{"reason":"why"}`, paying(), []string{"Idempotency-Key", "k-1"}},
		{"with a key and the version", "retry", `{"reason":"why"}`, stuckRefund(), []string{"Idempotency-Key", "k-1", "If-Match", `"7"`}},
		{"with the version only", "retry", `{"reason":"why"}`, stuckRefund(), []string{"If-Match", `"7"`}},
		{"about a message", "skip", `{"reason":"why","messageId":"m-7"}`, blocked(), []string{"Idempotency-Key", "k-1", "If-Match", `"2"`}},
		{"about whatever deadline was armed", "fire-deadline", `{"reason":"why"}`, paying(), []string{"Idempotency-Key", "k-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s = tt.story
			clear(acted)
			w := world{story: func(context.Context, string) (workflow.Story, error) { return s, nil }}
			w.handle = func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
				return remember(m, workflow.Decision{Reason: "done", To: workflow.Compensating, Version: s.Order.Version + 1})
			}
			w.act = func(_ context.Context, a workflow.Action) (workflow.Decision, error) {
				d, err := remember(a.Message(), workflow.Decision{Reason: "done", To: s.Order.Status, Version: s.Order.Version})
				s.Order.Version += 3 // what waited is handled
				d.Message = a.Message()
				return d, err
			}
			w.fire = func(a workflow.Action) (workflow.Decision, error) {
				d, err := remember(a.Message(), workflow.Decision{Reason: "done", To: workflow.Compensating, Version: s.Order.Version + 1})
				s.Order.Armed, d.Message = "order-42:compensation-timeout:1", a.Message()
				return d, err
			}
			first := ask(t, w.app(), http.MethodPost, "/api/orders/order-42/"+tt.path, tt.body, tt.headers...)
			require.Equal(t, 202, first.Code, first.Body)
			for range 2 {
				w.log.Reset()
				again := ask(t, w.app(), http.MethodPost, "/api/orders/order-42/"+tt.path, tt.body, tt.headers...)
				require.Equal(t, first.Code, again.Code, again.Body)
				want, got := object(t, first), object(t, again)
				require.Equal(t, true, got["repeated"])
				want["repeated"] = true
				require.Equal(t, want, got)
				require.Equal(t, "Duplicate", w.logged(t)["outcome"])
			}
			require.Len(t, acted, 1)
			require.Len(t, s.Journal, 1)
		})
	}
}

func TestAKeyThatWasUsedForSomethingElseIsAConflict(t *testing.T) {
	t.Parallel()
	s := blocked()
	s.Journal = []workflow.Entry{{MessageID: "operator:k-1", Type: "SendAgain", Outcome: workflow.Applied}}
	w := about(s)
	w.act = func(context.Context, workflow.Action) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Rejected, Reason: "conflict: MessageId operator:k-1 was handled with other content"}, nil
	}
	require.Contains(t, aProblem(t, 409, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/skip", `{"reason":"why","messageId":"m-7"}`, "Idempotency-Key", "k-1")), "conflict")
}

func TestWhatWasDoneSinceTheOrderWasReadIsARepetitionToo(t *testing.T) {
	t.Parallel()
	reads := 0
	w := world{story: func(context.Context, string) (workflow.Story, error) {
		s := paying()
		if reads++; reads > 1 {
			s.Journal = []workflow.Entry{{MessageID: "operator:k-1", Outcome: workflow.Applied, Reason: "then", From: workflow.AwaitingPayment, To: workflow.Compensating, Version: 3}}
		}
		return s, nil
	}}
	w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Duplicate, To: workflow.Cancelled, Version: 5}, nil
	}
	got := w.doPost(t, "/api/orders/order-42/cancel", `{"reason":"why"}`, "Idempotency-Key", "k-1")
	require.Equal(t, "then", got["reason"])
	require.InDelta(t, 3, got["version"], 0)
	require.Equal(t, true, got["repeated"])
}

func TestAKeyOfWhatWasRefusedIsFreeForAnotherTry(t *testing.T) {
	t.Parallel()
	s := paying()
	s.Journal = []workflow.Entry{{MessageID: "operator:k-1", Outcome: workflow.Rejected}}
	w := about(s)
	aProblem(t, 412, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/cancel", `{"reason":"why"}`, "Idempotency-Key", "k-1", "If-Match", `"1"`))
	require.Empty(t, w.messages, "it is judged anew")
}

func TestADecisionAboutAnOrderNeedsTheVersionThatWasSeen(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"reason":"why"}`, `{"reason":"why","to":"cancelled"}`} {
		path := "/api/orders/order-42/retry"
		if strings.Contains(body, "to") {
			path = "/api/orders/order-42/resolve"
		}
		for _, headers := range [][]string{nil, {"If-Match", "*"}, {"Idempotency-Key", "k-1"}} {
			w := about(stuckRefund())
			require.Contains(t, aProblem(t, 428, ask(t, w.app(), http.MethodPost, path, body, headers...)), "If-Match")
			require.Empty(t, w.messages)
		}
	}
	for _, tag := range []string{`"7"`, `W/"7"`, `"7-0123456789abcdef"`, ` "7" `} {
		w := about(stuckRefund())
		w.doPost(t, "/api/orders/order-42/retry", `{"reason":"why"}`, "If-Match", tag)
		require.Equal(t, int64(7), w.onlyMessage(t).Facts.Version)
	}
	read := about(stuckRefund())
	w := about(stuckRefund())
	w.doPost(t, "/api/orders/order-42/retry", `{"reason":"why"}`, "If-Match", read.get(t, "/api/orders/order-42").Header().Get("ETag"))
	require.Equal(t, int64(7), w.onlyMessage(t).Facts.Version, "the tag of the order as it was read will do")
}

func TestADecisionAboutAnOrderThatHasMovedOnIsRefusedWithWhereItIsNow(t *testing.T) {
	t.Parallel()
	for path, body := range map[string]string{
		"retry": `{"reason":"why"}`, "resolve": `{"reason":"why","to":"completed"}`, "cancel": `{"reason":"why"}`,
		"skip": `{"reason":"why","messageId":"m-7"}`, "send-again": `{"reason":"why","commandId":"c"}`, "fire-deadline": `{"reason":"why"}`,
	} {
		w := about(stuckRefund())
		p := problemOf(t, 412, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/"+path, body, "If-Match", `"6"`, "Idempotency-Key", "k-1"))
		require.Contains(t, p["detail"], "seen at version 6 and is at version 7")
		require.InDelta(t, 7, p["version"], 0)
		require.NotEmpty(t, p["allowed"])
		require.Empty(t, w.messages)
		require.Empty(t, w.actions)
		require.Empty(t, w.fired)
	}
	moved := 0 // between the look and the decision
	w := world{story: func(context.Context, string) (workflow.Story, error) {
		s := stuckRefund()
		s.Order.Version += int64(moved)
		moved++
		return s, nil
	}}
	w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Rejected, Reason: "the order was seen at version 7 and is at version 8 now"}, nil
	}
	p := problemOf(t, 412, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/retry", `{"reason":"why"}`, "If-Match", `"7"`))
	require.InDelta(t, 8, p["version"], 0)
}

func TestAHeaderThatNamesNoVersionIsRefused(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]string{
		{"If-Match", "7"}, {"If-Match", `"seven"`}, {"If-Match", `"7", "8"`}, {"If-Match", `"07"`}, {"If-Match", `"-7"`}, {"If-Match", `"7`},
		{"If-Match", `""`}, {"If-Match", `"7"`, "If-Match", `"7"`}, {"If-Match", `"99999999999999999999"`}, {"If-Match", `"+7"`},
		{"If-Match", `"7-a", "8-b"`}, {"If-Match", `"7-a,b"`},
	} {
		w := about(stuckRefund())
		require.Contains(t, aProblem(t, 400, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/retry", `{"reason":"why"}`, headers...)), "If-Match", headers)
		require.Empty(t, w.messages)
	}
}

func TestABadIdempotencyKeyOfAnOperatorIsRefused(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]string{
		{"Idempotency-Key", strings.Repeat("k", 120)}, {"Idempotency-Key", "k\x01"}, {"Idempotency-Key", "k\xff"}, {"Idempotency-Key", "k", "Idempotency-Key", "k"},
		{"Idempotency-Key", " k"},
	} {
		w := about(paying())
		require.Contains(t, aProblem(t, 400, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/cancel", `{"reason":"why"}`, headers...)), "Idempotency-Key")
		require.Empty(t, w.messages)
	}
	w := about(paying())
	w.doPost(t, "/api/orders/order-42/cancel", `{"reason":"why"}`, "Idempotency-Key", strings.Repeat("k", 119))
	require.Len(t, w.onlyMessage(t).ID, 128)
}

func TestWhatIsNotPossibleNowIsRefusedWithWhatIs(t *testing.T) {
	t.Parallel()
	silent := stuckRefund()
	silent.Order.Effects[1].State = workflow.EffectOverdue
	silent.Outbox = []workflow.Dispatch{{Outgoing: workflow.Outgoing{ID: "order-42:refund-payment:1"}, State: workflow.DispatchSent}}
	cancelled := workflow.Story{Order: workflow.Order{Status: workflow.Cancelled, Version: 7}}
	for name, tt := range map[string]struct {
		story                 workflow.Story
		path, body            string
		detail, remedy, allow string
	}{
		"retry of what was not answered": {silent, "retry", `{"reason":"why"}`, "retry is not possible while the order is NeedsAttention", "send-again order-42:refund-payment:1",
			`[{"action":"resolve","to":"cancelled"},{"action":"resolve","to":"completed"},{"action":"send-again","commandId":"order-42:refund-payment:1"},{"action":"discard","commandId":"order-42:refund-payment:1"}]`},
		"retry of a blocked order as if it were not": {blocked(), "retry", `{"reason":"why"}`, "message m-7 blocks it", "retry m-7", ""},
		"resolve of an order that waits":             {paying(), "resolve", `{"reason":"why","to":"completed"}`, "resolve to completed", "cancel", ""},
		"cancel of one that is cancelled":            {cancelled, "cancel", `{"reason":"why"}`, "cancel is not possible while the order is Cancelled", "nothing", `null`},
		"a deadline where none is armed":             {stuckRefund(), "fire-deadline", `{"reason":"why"}`, "no deadline is armed", "retry", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := about(tt.story)
			p := problemOf(t, 409, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/"+tt.path, tt.body, "If-Match", fmt.Sprintf(`"%d"`, tt.story.Order.Version)))
			require.Contains(t, p["detail"], tt.detail)
			require.Contains(t, p["remedy"], tt.remedy)
			if tt.allow != "" {
				require.JSONEq(t, tt.allow, asJSON(p["allowed"]))
			}
			require.Empty(t, w.messages, "nothing is kept of it")
			require.Empty(t, w.fired)
			require.Equal(t, "WARN", w.logged(t)["level"])
		})
	}
}

func TestWhatTheDatabaseRefusesIsAConflictThatSaysWhy(t *testing.T) {
	t.Parallel()
	w := about(paying())
	w.act = func(context.Context, workflow.Action) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Rejected, Reason: "it was sent 3s ago: wait until then"}, nil
	}
	p := problemOf(t, 409, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/send-again", `{"reason":"why","commandId":"c"}`))
	require.Equal(t, "it was sent 3s ago: wait until then", p["detail"])
	require.Contains(t, asJSON(p["allowed"]), "order-42:capture-payment:1")
	require.Equal(t, "Rejected", w.logged(t)["outcome"])
}

func TestWhatIsPossibleLaterIsOfferedWithItsTime(t *testing.T) {
	t.Parallel()
	unanswered := paying()
	unanswered.Outbox[1].State, unanswered.Outbox[1].SentAt = workflow.DispatchSent, noon
	for window, want := range map[time.Duration]string{
		10 * time.Minute: `{"action": "send-again", "commandId": "order-42:capture-payment:1", "notBefore": "2026-07-19T12:10:00Z"}`,
		0:                `{"action": "send-again", "commandId": "order-42:capture-payment:1"}`,
	} {
		w := about(unanswered)
		w.act = func(context.Context, workflow.Action) (workflow.Decision, error) {
			return workflow.Decision{Outcome: workflow.Rejected, Reason: "wait until then"}, nil
		}
		a := w.app()
		a.DuplicateDetection = window
		told := object(t, ask(t, a, http.MethodGet, "/api/orders/order-42", ""))
		require.JSONEq(t, want, asJSON(told["allowed"].([]any)[2]))
		p := problemOf(t, 409, ask(t, a, http.MethodPost, "/api/orders/order-42/send-again", `{"reason":"why","commandId":"order-42:capture-payment:1"}`))
		require.JSONEq(t, want, asJSON(p["allowed"].([]any)[2]))
		require.Equal(t, window > 0, strings.Contains(fmt.Sprint(p["remedy"]), "send-again order-42:capture-payment:1 (not before 2026-07-19T12:10:00Z), "), p["remedy"])
	}
	told := object(t, ask(t, about(paying()).app(), http.MethodGet, "/api/orders/order-42", ""))
	require.NotContains(t, asJSON(told["allowed"]), "notBefore", "one that is dead is sent at once")
}

func TestACancellationOfABlockedOrderWaitsInItsLine(t *testing.T) {
	t.Parallel()
	w := about(blocked())
	w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Blocked, Reason: "it waits behind m-7"}, nil
	}
	answer := ask(t, w.app(), http.MethodPost, "/api/orders/order-42/cancel", `{"reason":"why"}`)
	require.Equal(t, 202, answer.Code)
	require.Equal(t, "Blocked", object(t, answer)["outcome"])
}

func TestARequestToActThatIsNoneIsRefusedAndSaysWhy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, body string
		status     int
		detail     string
		headers    []string
	}{
		"no body":                 {"cancel", ``, 415, "Content-Type", nil},
		"an empty body":           {"cancel", ``, 400, "not a JSON object", []string{"Content-Type", "application/json"}},
		"a form":                  {"cancel", `reason=why`, 415, "Content-Type", []string{"Content-Type", "", "Content-Type", "application/x-www-form-urlencoded"}},
		"plain text":              {"cancel", `{"reason":"why"}`, 415, "Content-Type", []string{"Content-Type", "", "Content-Type", "text/plain"}},
		"no JSON":                 {"cancel", `{"reason":`, 400, "not a JSON object", nil},
		"two objects":             {"cancel", `{"reason":"why"}{}`, 400, "not a JSON object", nil},
		"a list":                  {"cancel", `["why"]`, 400, "not a JSON object", nil},
		"null":                    {"cancel", `null`, 400, "not a JSON object", nil},
		"no UTF-8":                {"cancel", "{\"reason\":\"\xff\"}", 400, "not a JSON object", nil},
		"no reason":               {"cancel", `{}`, 400, "the field reason is missing", nil},
		"a blank reason":          {"cancel", `{"reason":" \n\t"}`, 400, "the field reason is missing", nil},
		"a reason that is null":   {"cancel", `{"reason":null}`, 400, "the field reason is not a text", nil},
		"a reason that is 7":      {"cancel", `{"reason":7}`, 400, "the field reason is not a text", nil},
		"a reason of escapes":     {"cancel", `{"reason":"a\u001b[2Jb"}`, 400, "holds control characters", nil},
		"a reason without an end": {"cancel", `{"reason":"` + strings.Repeat("ä", 1001) + `"}`, 400, "longer than 1000", nil},
		"too large":               {"cancel", `{"reason":"` + strings.Repeat("x", 17<<10) + `"}`, 413, "16384", nil},
		"an unknown field":        {"cancel", `{"reason":"why","force":true}`, 400, "force", nil},
		"a field of another's":    {"cancel", `{"reason":"why","messageId":"m-7"}`, 400, "messageId", nil},
		"a misspelt field":        {"skip", `{"reason":"why","messageid":"m-7"}`, 400, "messageid", nil},
		"skip of nothing":         {"skip", `{"reason":"why"}`, 400, "the field messageId is missing", nil},
		"skip of an empty ID":     {"skip", `{"reason":"why","messageId":""}`, 400, "the field messageId is missing", nil},
		"send-again of nothing":   {"send-again", `{"reason":"why"}`, 400, "the field commandId is missing", nil},
		"discard of a bad ID":     {"discard", `{"reason":"why","commandId":"a\u0000b"}`, 400, "the field commandId holds", nil},
		"a number for an ID":      {"discard", `{"reason":"why","commandId":7}`, 400, "the field commandId is not a text", nil},
		"resolve to nowhere":      {"resolve", `{"reason":"why"}`, 400, "the field to", nil},
		"resolve to elsewhere":    {"resolve", `{"reason":"why","to":"Completed"}`, 400, "the field to", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := about(blocked())
			p := problemOf(t, tt.status, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/"+tt.path, tt.body, tt.headers...))
			require.Contains(t, p["detail"], tt.detail)
			require.Empty(t, w.messages)
			require.Empty(t, w.actions)
			require.Equal(t, tt.path, w.logged(t)["action"])
		})
	}
}

func TestAnOrderThatIsNotThereOrIsNoneCannotBeActedOn(t *testing.T) {
	t.Parallel()
	for id, status := range map[string]int{"order-42": 404, "order%2042": 400, "%27%3BDROP": 400, "a%2Fb": 400, strings.Repeat("x", 97): 400, "%00": 400} {
		for path, body := range map[string]string{"cancel": `{"reason":"why"}`, "skip": `{"reason":"why","messageId":"m"}`} {
			w := world{story: func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, workflow.ErrNoOrder }}
			aProblem(t, status, ask(t, w.app(), http.MethodPost, "/api/orders/"+id+"/"+path, body))
			require.Empty(t, w.messages)
			require.Empty(t, w.actions)
		}
	}
}

func TestInReadOnlyModeOperatorsLookAndDoNotAct(t *testing.T) {
	t.Parallel()
	acting := 0
	for _, e := range functions.Endpoints() {
		w := about(blocked())
		a := w.app()
		a.ReadOnly = true
		body := `{"reason":"why"}`
		if e.Function == "place-order" {
			body = placedBody
		}
		answer := ask(t, a, e.Method, "/api/"+strings.ReplaceAll(e.Path, "{id}", "order-42"), body)
		switch e.Function {
		case "order-actions", "operation-actions":
			acting++
			require.Contains(t, aProblem(t, 403, answer), "read-only")
			require.Empty(t, w.messages)
			require.Empty(t, w.actions)
			require.Empty(t, w.fired)
			require.Empty(t, w.dealings)
			require.NotEmpty(t, w.logged(t)["action"])
		case "place-order":
			require.Equal(t, 202, answer.Code, "orders go on")
		default:
			require.NotEqual(t, 403, answer.Code)
		}
	}
	require.Equal(t, 10, acting)
}

func TestAnActionOfWhichTheFateIsNotKnownMayBeAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{workflow.ErrTransient, errors.New("password=s3cret"), nil} {
		w := about(paying())
		w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
			return workflow.Decision{}, failure
		}
		w.act = func(context.Context, workflow.Action) (workflow.Decision, error) { return workflow.Decision{}, failure }
		for path, body := range map[string]string{"cancel": `{"reason":"why"}`, "discard": `{"reason":"why","commandId":"c"}`} {
			answer := ask(t, w.app(), http.MethodPost, "/api/orders/order-42/"+path, body)
			p := problemOf(t, 503, answer)
			require.Equal(t, "5", answer.Header().Get("Retry-After"))
			require.Contains(t, p["remedy"], "Idempotency-Key")
			require.NotContains(t, answer.Body.String(), "s3cret")
		}
	}
	w := world{story: func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, workflow.ErrTransient }}
	aProblem(t, 503, ask(t, w.app(), http.MethodPost, "/api/orders/order-42/cancel", `{"reason":"why"}`))
}

func TestAPanicInAnActionIsAProblemOfOneRequest(t *testing.T) {
	t.Parallel()
	w := about(blocked())
	w.act = func(context.Context, workflow.Action) (workflow.Decision, error) { panic("a fault with a s3cret") }
	answer := ask(t, w.app(), http.MethodPost, "/api/orders/order-42/skip", `{"reason":"why","messageId":"m-7"}`)
	aProblem(t, 500, answer)
	require.NotContains(t, answer.Body.String(), "s3cret")
}

func TestOperatorsWordsAreNotLogged(t *testing.T) {
	t.Parallel()
	const words = "Frau Zoë Müller called"
	for _, outcome := range []workflow.Outcome{workflow.Applied, workflow.Stale, workflow.Held, workflow.Blocked, workflow.Duplicate, workflow.Rejected} {
		w := about(paying())
		w.handle = func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
			return workflow.Decision{Outcome: outcome, Reason: "the customer cancelled: " + m.Facts.Reason}, nil
		}
		w.act = func(_ context.Context, a workflow.Action) (workflow.Decision, error) {
			if outcome == workflow.Rejected {
				return workflow.Decision{Outcome: outcome, Reason: "no such message"}, nil
			}
			return workflow.Decision{Outcome: outcome, Reason: a.Words()}, nil
		}
		text, err := json.Marshal(map[string]string{"reason": words})
		require.NoError(t, err)
		ask(t, w.app(), http.MethodPost, "/api/orders/order-42/cancel", string(text))
		text, err = json.Marshal(map[string]string{"reason": words, "messageId": "m-7"})
		require.NoError(t, err)
		ask(t, w.app(), http.MethodPost, "/api/orders/order-42/skip", string(text))
		require.Len(t, w.actions, 1)
		require.NotContains(t, w.log.String(), "Zoë")
		require.NotContains(t, w.log.String(), "Müller")
	}
}
