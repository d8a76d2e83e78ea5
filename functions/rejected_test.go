package functions_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// refused is a message that was refused and could be handled now.
func refused() workflow.Refused {
	body := `{"orderId":"order-42","paymentId":"p-1"}`
	return workflow.Refused{
		ID: "0a1b", Size: int64(len(body)), FirstAt: ago(2), LastAt: noon, Times: 3,
		Open: true,
		Rejection: workflow.Rejection{
			Envelope: workflow.Envelope{ID: "m-1", Type: workflow.PaymentCaptured, OrderID: "order-42", Conversation: "conv-7", OriginID: "o-1", Body: []byte(body)},
			Delivery: workflow.Delivery{Function: "payment-result", Count: 1}, Reason: `PaymentCaptured is not expected`, Fingerprint: "f",
		},
	}
}

func refusing(m workflow.Refused) *world {
	w := &world{}
	w.rejection = func(id string) (workflow.Refused, error) {
		if id != m.ID {
			return workflow.Refused{}, workflow.ErrNoMessage
		}
		return m, nil
	}
	return w
}

func TestRejectedMessagesAreListedWithoutTheirBodies(t *testing.T) {
	t.Parallel()
	var w world
	w.office.rejections = func(top int, after string) (workflow.Page[workflow.Refused], error) {
		require.Equal(t, 7, top)
		require.Empty(t, after)
		return pageOf("", refused()), nil
	}
	answer := w.get(t, "/api/operations/rejected?top=7")
	require.JSONEq(t, `{"items":[{"id":"0a1b","firstAt":"2026-07-19T11:59:59.999999998Z","lastAt":"2026-07-19T12:00:00Z","times":3,"orderId":"order-42",
		"messageId":"m-1","type":"PaymentCaptured","reason":"PaymentCaptured is not expected","function":"payment-result","size":40}],
		"continuationToken":null,"next":null}`, answer.Body.String())
}

func TestARejectedMessageIsShownWithItsBytesAndAsTextIfItIsText(t *testing.T) {
	t.Parallel()
	got := object(t, refusing(refused()).get(t, "/api/operations/rejected/0a1b"))
	require.Equal(t, "eyJvcmRlcklkIjoib3JkZXItNDIiLCJwYXltZW50SWQiOiJwLTEifQ==", got["bodyBase64"])
	require.JSONEq(t, `{"orderId":"order-42","paymentId":"p-1"}`, got["bodyText"].(string))
	require.Equal(t, true, got["bodyIsWhole"])
	require.Equal(t, "m-1", got["messageId"])
	require.Equal(t, "conv-7", got["conversation"])

	for name, body := range map[string][]byte{"bytes": {0xff, 0xfe}, "with control characters": []byte("a\x1b[31m")} {
		m := refused()
		m.Body, m.Size = body, 100
		got := object(t, refusing(m).get(t, "/api/operations/rejected/0a1b"))
		require.Nil(t, got["bodyText"], name)
		require.Equal(t, false, got["bodyIsWhole"])
	}
}

func TestARejectedMessageThatIsNotThereSaysSo(t *testing.T) {
	t.Parallel()
	for path, status := range map[string]int{"/other": 404, "/a%00b": 400, "/%20a": 400} {
		for _, then := range []string{"", "/resubmit", "/discard"} {
			w := refusing(refused())
			method, body := http.MethodPost, `{"reason":"why"}`
			if then == "" {
				method, body = http.MethodGet, ""
			}
			aProblem(t, status, ask(t, w.app(), method, "/api/operations/rejected"+path+then, body))
			require.Empty(t, w.messages)
			require.Empty(t, w.dealings)
		}
	}
}

func TestAResubmittedMessageIsHandledUnderItsOwnIDAndThenMarked(t *testing.T) {
	t.Parallel()
	w := refusing(refused())
	w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
		require.Empty(t, w.dealings, "not before it is handled")
		return workflow.Decision{Outcome: workflow.Applied, Reason: "the order is paid", From: workflow.AwaitingPayment, To: workflow.AwaitingShipment, Version: 3}, nil
	}
	got := w.doPost(t, "/api/operations/rejected/0a1b/resubmit", `{"reason":"the program was mended"}`, "X-Operator", "ann")
	require.Equal(t, map[string]any{
		"id": "0a1b", "orderId": "order-42", "action": "resubmit", "messageId": "m-1", "outcome": "Applied", "reason": "the order is paid",
		"from": "AwaitingPayment", "to": "AwaitingShipment", "version": 3.0, "repeated": false,
	}, got)
	require.Equal(t, []string{"resubmitted | 0a1b | ann | the program was mended"}, w.dealings)
	m := w.onlyMessage(t)
	want := refused().Envelope
	want.ParentID, want.Schema = "m-1", "1"
	require.Equal(t, want, m.Envelope)
	require.Equal(t, "operation-actions", m.Delivery.Function)
	line := w.logged(t)
	require.Equal(t, "resubmit", line["action"])
	require.Equal(t, "m-1", line["messageId"])
	require.NotContains(t, w.log.String(), "mended")
}

func TestAResubmittedMessageThatIsADuplicateByNowIsMarkedToo(t *testing.T) {
	t.Parallel()
	w := refusing(refused())
	w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{Outcome: workflow.Duplicate}, nil
	}
	got := w.doPost(t, "/api/operations/rejected/0a1b/resubmit", `{"reason":"again"}`)
	require.Equal(t, true, got["repeated"])
	require.Len(t, w.dealings, 1)
}

func TestAMessageThatWasSettledInOneWayIsNotSettledInTheOther(t *testing.T) {
	t.Parallel()
	for action, did := range map[string]string{"resubmit": workflow.SettledByDiscard, "discard": workflow.SettledByResubmit} {
		m := refused()
		m.Open, m.Settled = false, workflow.Settlement{How: did, At: noon, By: "ann", Reason: "spam from Zoë"}
		w := refusing(m)
		answer := ask(t, w.app(), http.MethodPost, "/api/operations/rejected/0a1b/"+action, `{"reason":"why"}`)
		require.Equal(t, "it was "+did+" by ann: spam from Zoë", aProblem(t, 409, answer))
		require.Empty(t, w.messages, "what was discarded is not handled")
		require.Empty(t, w.dealings)
		require.NotContains(t, w.log.String(), "Zoë")

		m.Open = true // it came again since
		w = refusing(m)
		w.doPost(t, "/api/operations/rejected/0a1b/"+action, `{"reason":"why"}`)
		require.Len(t, w.dealings, 1)
	}
}

func TestAMessageThatWouldBeRefusedAgainIsNotMarked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*workflow.Refused)
		detail string
	}{
		"a part of it":                   {func(m *workflow.Refused) { m.Size = 1 << 20 }, "only 40 of its 1048576 bytes were kept"},
		"malformed":                      {func(m *workflow.Refused) { m.Body, m.Size = []byte("{"), 1 }, "not JSON"},
		"of no known type":               {func(m *workflow.Refused) { m.Type = "Nonsense" }, "not known"},
		"one that claims to be internal": {func(m *workflow.Refused) { m.Type = workflow.Retry }, "never comes from the broker"},
		"of no order":                    {func(m *workflow.Refused) { m.OrderID = "" }, "SessionId is missing"},
		"a conflict":                     {func(*workflow.Refused) {}, "it is refused again: conflict"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := refused()
			tt.change(&m)
			w := refusing(m)
			w.handle = func(context.Context, workflow.Message) (workflow.Decision, error) {
				return workflow.Decision{Outcome: workflow.Rejected, Reason: "conflict"}, nil
			}
			require.Contains(t, aProblem(t, 409, ask(t, w.app(), http.MethodPost, "/api/operations/rejected/0a1b/resubmit", `{"reason":"why"}`)), tt.detail)
			require.Empty(t, w.dealings)
		})
	}
}

func TestARejectedMessageIsDiscardedWithTheReason(t *testing.T) {
	t.Parallel()
	w := refusing(refused())
	require.Equal(t, map[string]any{"id": "0a1b", "action": "discard"}, w.doPost(t, "/api/operations/rejected/0a1b/discard", `{"reason":"spam"}`, "X-Operator", "ann"))
	require.Equal(t, []string{"discarded | 0a1b | ann | spam"}, w.dealings)
	require.Equal(t, "ann", w.logged(t)["actor"])

	w = refusing(refused())
	require.Contains(t, aProblem(t, 400, ask(t, w.app(), http.MethodPost, "/api/operations/rejected/0a1b/discard", `{"reason":"spam"}`, "If-Match", `"1"`)), "If-Match")
	require.Empty(t, w.dealings)

	for err, status := range map[error]int{workflow.ErrNoMessage: 404, workflow.ErrSettled: 409, workflow.ErrTransient: 503, errors.New("a fault"): 503} {
		w := refusing(refused())
		w.dealt = func(string, string, string, string) error { return err }
		for _, action := range []string{"discard", "resubmit"} {
			if action == "resubmit" && errors.Is(err, workflow.ErrSettled) {
				w.doPost(t, "/api/operations/rejected/0a1b/resubmit", `{"reason":"spam"}`) // it is handled by then
				continue
			}
			aProblem(t, status, ask(t, w.app(), http.MethodPost, "/api/operations/rejected/0a1b/"+action, `{"reason":"spam"}`))
		}
	}
}
