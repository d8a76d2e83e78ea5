package functions_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

const redrivePath = "/api/operations/dead-letters/redrive"

// redrive asks for dead letters to be brought back.
func (w *world) redrive(t *testing.T, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return ask(t, w.app(), http.MethodPost, redrivePath, body, headers...)
}

// lines are the log lines that say that much of something.
func (w *world) lines(t *testing.T, key, value string) (found []string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range strings.Lines(w.log.String()) {
		if strings.Contains(line, fmt.Sprintf("%q:%q", key, value)) {
			found = append(found, line)
		}
	}
	return found
}

func TestADeadLetterIsHandledAsTheHostWouldHaveHadItHandled(t *testing.T) {
	t.Parallel()
	delivered := world{}
	settled(t, 200, delivered.post(t, "/order-placed", invocation(placedBody, map[string]any{
		"DeliveryCount": "11", "ApplicationProperties": map[string]any{"SchemaVersion": "1", "ParentMessageId": "p-1", "Diagnostic-Id": aTrace},
	})))
	want := delivered.onlyMessage(t)
	want.Delivery.Function = "operation-actions"

	w := world{pile: &pile{letters: []workflow.DeadLetter{{
		Subscription: "order-placed",
		Envelope: workflow.Envelope{
			ID: "orders:order-placed:42", OrderID: "order-42", Type: workflow.OrderPlaced, Conversation: "conv-7",
			ParentID: "p-1", Schema: "1", TraceParent: aTrace, Body: []byte(placedBody),
		},
		Delivery: workflow.Delivery{Count: 11, Sequence: 42, EnqueuedAt: time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC)},
	}}}}
	answer := w.redrive(t, `{"reason":"the database is back"}`, "X-Operator", "ann")
	require.Equal(t, 200, answer.Code, answer.Body)
	require.JSONEq(t, `{"action":"redrive","handled":1,"outcomes":{"Applied":1},"failed":[],"more":false,"trouble":[]}`, answer.Body.String())
	require.Equal(t, want, w.onlyMessage(t))
	require.Empty(t, w.pile.letters)
}

const aTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestWhoBringsDeadLettersBackAndWhyIsInTheLogAndNothingOfTheirBodies(t *testing.T) {
	t.Parallel()
	w := world{pile: &pile{letters: []workflow.DeadLetter{given(1, "order-placed", "order-1"), given(2, "payment-result", "order-2")}}}
	w.pile.letters[1].TraceParent = "nonsense"
	require.Equal(t, 200, w.redrive(t, `{"reason":"the database is back"}`, "X-Operator", "ann").Code)
	require.Len(t, w.lines(t, "actor", "ann"), 3, "one for each message and one for the run")
	for i, l := range w.lines(t, "outcome", "Applied") {
		require.Contains(t, l, fmt.Sprintf(`"messageId":"m-%d"`, i+1))
		require.Contains(t, l, `"action":"redrive"`)
		require.Contains(t, l, `"function":"operation-actions"`)
		require.Contains(t, l, `"deliveryCount":11`)
		require.NotContains(t, l, "nonsense")
	}
	require.Contains(t, w.lines(t, "subscription", "payment-result")[0], `"orderId":"order-2"`)
	run := w.lines(t, "why", "the database is back")
	require.Len(t, run, 1)
	require.Contains(t, run[0], `"handled":2,"failed":0,"more":false`)
	require.NotContains(t, w.log.String(), "c-7")
}

func TestEachOutcomeThatAnswers200TakesADeadLetterOutAndIsCounted(t *testing.T) {
	t.Parallel()
	outcomes := []workflow.Outcome{workflow.Applied, workflow.Duplicate, workflow.Stale, workflow.Held, workflow.Blocked, workflow.Rejected}
	w := world{pile: &pile{}}
	for n, outcome := range outcomes {
		w.pile.letters = append(w.pile.letters, given(int64(n), "order-placed", "order-"+string(outcome)))
	}
	w.handle = func(_ context.Context, m workflow.Message) (workflow.Decision, error) {
		return decision(workflow.Outcome(strings.TrimPrefix(m.OrderID, "order-"))), nil
	}
	got := object(t, w.redrive(t, `{"reason":"why"}`))
	require.EqualValues(t, len(outcomes), got["handled"])
	for _, outcome := range outcomes {
		require.EqualValues(t, 1, got["outcomes"].(map[string]any)[string(outcome)], outcome)
	}
	require.Empty(t, w.pile.letters)
}

func TestADeadLetterThatCanNeverBeAcceptedIsKeptApartLikeAnyOther(t *testing.T) {
	t.Parallel()
	large := given(1, "order-placed", "order-1")
	large.Body = []byte(strings.Repeat("x", functions.DefaultMaxBody+1))
	impostor := given(2, "payment-result", "order-2")
	impostor.Type = workflow.ResolveCompleted
	broken := given(3, "payment-result", "")
	w := world{pile: &pile{letters: []workflow.DeadLetter{large, impostor, broken}}}
	got := object(t, w.redrive(t, `{"reason":"why"}`))
	require.EqualValues(t, 3, got["outcomes"].(map[string]any)["Rejected"])
	require.Empty(t, w.messages)
	require.Len(t, w.rejections, 3)
	require.Len(t, w.rejections[0].Body, functions.DefaultMaxBody)
	require.Contains(t, w.rejections[0].Reason, "the body is 262145 bytes long")
	require.Contains(t, w.rejections[1].Reason, "never comes from the broker")
	require.Contains(t, w.rejections[2].Reason, "SessionId")
	require.Equal(t, 11, w.rejections[2].Delivery.Count)
}

func TestWithTheDatabaseAwayADeadLetterStaysOneAndIsNotHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{handle: away, pile: &pile{}}
		for n := range int64(5) {
			w.pile.letters = append(w.pile.letters, given(n, "order-placed", fmt.Sprintf("order-%d", n)))
		}
		began := time.Now()
		got := object(t, w.redrive(t, `{"reason":"why"}`))
		require.Equal(t, 45*time.Second, w.pile.until.Sub(began))
		require.InDelta(t, 45, time.Since(began).Seconds(), 1, "three of them were tried, and there is time left to answer")
		require.Empty(t, w.holds, "whichever delivery it is: the broker keeps it")
		require.Empty(t, w.rejections)
		require.Len(t, w.pile.letters, 5)
		require.EqualValues(t, 0, got["handled"])
		require.Equal(t, true, got["more"])
		failed := got["failed"].([]any)
		require.Len(t, failed, 3)
		require.Equal(t, map[string]any{
			"subscription": "order-placed", "sequence": 0.0, "messageId": "m-0", "orderId": "order-0", "type": "OrderPlaced",
			"why": "handle the message: the database is away: not possible at the moment",
		}, failed[0])
		require.Len(t, w.pile.asked, 1, "the rest is not tried")
		require.Contains(t, w.lines(t, "why", "why")[0], `"level":"WARN"`)
	})
}

func TestThreeThatCannotBeHandledEndARunHoweverQuicklyTheyFail(t *testing.T) {
	t.Parallel()
	undecided := func(context.Context, workflow.Message) (workflow.Decision, error) { return workflow.Decision{}, nil }
	w := world{handle: undecided, pile: &pile{}}
	for n := range int64(5) {
		w.pile.letters = append(w.pile.letters, given(n, "order-placed", fmt.Sprintf("order-%d", n)))
	}
	got := object(t, w.redrive(t, `{"reason":"why"}`))
	require.Len(t, got["failed"], 3)
	require.Equal(t, true, got["more"])
	require.Len(t, w.messages, 3)

	w.pile.letters[4].Subscription = "payment-result"
	got = object(t, w.redrive(t, `{"reason":"why","top":2}`))
	require.Len(t, got["failed"], 2, "what failed was brought back too, as far as it went")
	got = object(t, w.redrive(t, `{"reason":"why","top":2,"orderId":"order-4"}`))
	require.Len(t, got["failed"], 1)
}

func TestADeadLetterThatFailsForGoodBlocksItsOrderAsADeliveryWould(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(context.Context, workflow.Message) (workflow.Decision, error){
		"a panic": func(context.Context, workflow.Message) (workflow.Decision, error) { panic("a fault") },
		"an integrity error": func(context.Context, workflow.Message) (workflow.Decision, error) {
			return workflow.Decision{}, errors.New("no sense")
		},
	} {
		w := world{handle: fail, pile: &pile{letters: []workflow.DeadLetter{given(1, "order-placed", "order-1")}}}
		got := object(t, w.redrive(t, `{"reason":"why"}`))
		require.Equal(t, map[string]any{"Blocked": 1.0}, got["outcomes"], name)
		require.Len(t, w.holds, 1)
		require.Equal(t, 11, w.holds[0].Delivery.Count)
		require.Empty(t, w.pile.letters, name)
	}
}

func TestOnlyWhatIsAskedForIsBroughtBackInTheOrderOfTheStory(t *testing.T) {
	t.Parallel()
	letters := func() *pile {
		return &pile{letters: []workflow.DeadLetter{given(1, "payment-result", "order-1"), given(2, "order-placed", "order-1"), given(3, "order-placed", "order-2")}}
	}
	for body, want := range map[string][]string{
		`{"reason":"why"}`: {"m-2", "m-3", "m-1"},
		`{"reason":"why","subscription":"payment-result"}`:                             {"m-1"},
		`{"reason":"why","orderId":"order-1"}`:                                         {"m-2", "m-1"},
		`{"reason":"why","orderId":"order-1","subscription":"order-placed"}`:           {"m-2"},
		`{"reason":"why","top":2}`:                                                     {"m-2", "m-3"},
		`{"reason":"why","top":"1"}`:                                                   {"m-2"},
		`{"reason":"why","top":1,"orderId":"order-2","subscription":"payment-result"}`: nil,
	} {
		w := world{pile: letters()}
		answer := w.redrive(t, body)
		require.Equal(t, 200, answer.Code, answer.Body)
		var got []string
		for _, m := range w.messages {
			got = append(got, m.ID)
		}
		require.Equal(t, want, got, body)
		require.Equal(t, strings.Contains(body, `"top":`) && want != nil, object(t, answer)["more"], body)
	}
}

func TestARequestToBringBackThatMakesNoSenseBringsNothingBack(t *testing.T) {
	t.Parallel()
	for body, why := range map[string]string{
		`{}`:                                      "reason is missing",
		`{"reason":"why","top":0}`:                "top",
		`{"reason":"why","top":1001}`:             "top",
		`{"reason":"why","top":1.5}`:              "top",
		`{"reason":"why","top":true}`:             "top is not a text",
		`{"reason":7}`:                            "reason is not a text",
		`{"reason":"why","orderId":7}`:            "orderId is not a text",
		`{"reason":"why","orderId":" "}`:          "orderId",
		`{"reason":"why","subscription":"sweep"}`: "subscription",
		`{"reason":"why","messageId":"m-1"}`:      "messageId",
	} {
		w := world{pile: &pile{letters: []workflow.DeadLetter{given(1, "order-placed", "order-1")}}}
		require.Contains(t, aProblem(t, 400, w.redrive(t, body)), why, body)
		require.Empty(t, w.pile.asked)
	}
	w := world{pile: &pile{}}
	aProblem(t, 400, w.redrive(t, `{"reason":"why"}`, "If-Match", `"1"`))
	require.Empty(t, w.pile.asked)
}

func TestOneRunAtATimeBringsDeadLettersBack(t *testing.T) {
	t.Parallel()
	w := world{pile: &pile{letters: []workflow.DeadLetter{given(1, "order-placed", "order-1")}}}
	h := w.app().Handler()
	bring := func() *httptest.ResponseRecorder {
		r := newRequest(t, http.MethodPost, redrivePath, strings.NewReader(`{"reason":"why"}`))
		r.Header.Set("Content-Type", "application/json")
		return send(h, r)
	}
	w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
		require.Contains(t, aProblem(t, 409, bring()), "already")
		return decision(workflow.Applied), nil
	}
	require.Equal(t, 200, bring().Code)
	require.Len(t, w.messages, 1)
	require.Equal(t, 200, bring().Code, "and another one then")
}

func TestASubscriptionThatIsMissingKeepsNoOtherFromBeingBroughtBack(t *testing.T) {
	t.Parallel()
	w := world{pile: &pile{
		letters: []workflow.DeadLetter{given(1, "order-placed", "order-1"), given(2, "shipment-result", "order-2"), given(3, "sweeping", "order-3")},
		away:    map[string]error{"payment-result": fmt.Errorf("bring back: %w", workflow.ErrNoSubscription)},
	}}
	got := object(t, w.redrive(t, `{"reason":"why"}`))
	require.EqualValues(t, 2, got["handled"])
	require.Equal(t, []any{"bring back: no such subscription at the broker"}, got["trouble"])
	require.Equal(t, true, got["more"])

	w.pile.letters = nil
	got = object(t, w.redrive(t, `{"reason":"why"}`))
	require.EqualValues(t, 0, got["handled"])
	require.Equal(t, []any{"bring back: no such subscription at the broker"}, got["trouble"], "nothing is there to bring back, elsewhere")

	w = world{pile: &pile{
		letters: []workflow.DeadLetter{given(1, "order-placed", "order-1"), given(2, "shipment-result", "order-2")},
		away:    map[string]error{"payment-result": fmt.Errorf("bring back: %w", workflow.ErrTransient)},
	}}
	got = object(t, w.redrive(t, `{"reason":"why"}`))
	require.EqualValues(t, 1, got["handled"], "a broker that goes away is not asked on and on")
	require.Equal(t, []any{"bring back: not possible at the moment"}, got["trouble"])
	require.Equal(t, true, got["more"])
	require.Contains(t, w.lines(t, "why", "why")[0], `"level":"ERROR"`)
}

func TestARunThatWasCutOffByItsTimeIsNoTroubleIfItDidSomething(t *testing.T) {
	t.Parallel()
	for did, status := range map[int]int{0: 503, 1: 200} {
		synctest.Test(t, func(t *testing.T) {
			w := world{pile: &pile{}}
			for n := range did {
				w.pile.letters = append(w.pile.letters, given(int64(n), "order-placed", "order-1"))
			}
			a := w.app()
			a.DeadLetters = &hanging{pile: w.pile}
			answer := ask(t, a, http.MethodPost, redrivePath, `{"reason":"why"}`)
			require.Equal(t, status, answer.Code, answer.Body)
			if did > 0 {
				require.JSONEq(t, `{"action":"redrive","handled":1,"outcomes":{"Applied":1},"failed":[],"more":true,"trouble":[]}`, answer.Body.String())
				require.Contains(t, w.lines(t, "why", "why")[0], `"level":"INFO"`)
			}
		})
	}
}

func TestAMessageThatTheEndOfARunCutsOffIsLeftAndHasNotFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{pile: &pile{}}
		for n := range int64(9) {
			w.pile.letters = append(w.pile.letters, given(n, "order-placed", fmt.Sprintf("order-%d", n)))
		}
		w.handle = func(ctx context.Context, m workflow.Message) (workflow.Decision, error) {
			if m.OrderID == "order-0" {
				return workflow.Decision{}, nil // nothing was decided
			}
			select {
			case <-time.After(10 * time.Second):
				return decision(workflow.Applied), nil
			case <-ctx.Done():
				return workflow.Decision{}, ctx.Err()
			}
		}
		a := w.app()
		a.Now = time.Now
		answer := ask(t, a, http.MethodPost, redrivePath, `{"reason":"why"}`)
		require.Equal(t, 200, answer.Code, answer.Body)
		got := object(t, answer)
		require.EqualValues(t, 4, got["handled"])
		require.Equal(t, true, got["more"])
		require.Len(t, got["failed"], 1)
		require.Equal(t, "order-0", got["failed"].([]any)[0].(map[string]any)["orderId"], "the one that failed has")
	})
}

// hanging is a pile at a broker that answers about one subscription only.
type hanging struct{ *pile }

func (h *hanging) BringBack(ctx context.Context, which workflow.BringBack, handle func(context.Context, workflow.DeadLetter) error) (bool, error) {
	if which.Subscription == "order-placed" {
		return h.pile.BringBack(ctx, which, handle)
	}
	<-ctx.Done()
	return true, fmt.Errorf("%w: %w", workflow.ErrTransient, ctx.Err())
}

func TestHealthCountsAnewOnceDeadLettersWereBroughtBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{pile: &pile{letters: []workflow.DeadLetter{given(1, "order-placed", "order-1")}}}
		a := w.app()
		a.Now = time.Now
		h := a.Handler()
		ready := func() string {
			time.Sleep(2 * time.Second)
			answer := send(h, newRequest(t, http.MethodGet, "/api/health/ready", http.NoBody))
			synctest.Wait()
			return answer.Body.String()
		}
		ready()
		require.Contains(t, ready(), "degraded")
		r := newRequest(t, http.MethodPost, redrivePath, strings.NewReader(`{"reason":"why"}`))
		r.Header.Set("Content-Type", "application/json")
		require.Equal(t, 200, send(h, r).Code)
		ready()
		require.JSONEq(t, `{"status":"ready","degraded":[]}`, ready())
	})
}
