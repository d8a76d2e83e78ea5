package workflow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// skip is a sound action.
var skip = workflow.Action{ID: "a-1", Kind: workflow.SkipMessage, OrderID: theOrder, Target: "m-1", Reason: "a test order", Actor: "ada"}

func TestAnActionSaysWhatWhichWhyOrWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says   string
		change func(*workflow.Action)
	}{
		{"", func(*workflow.Action) {}},
		{"", func(a *workflow.Action) { a.ID, a.Actor = "", "" }},
		{"", func(a *workflow.Action) { a.ID = "order-42:skip-message:3" }},
		{"", func(a *workflow.Action) { a.ID = "order-43:retry:3" }},
		{`the action "Cancel" is not known`, func(a *workflow.Action) { a.Kind = "Cancel" }},
		{"the order ID is missing", func(a *workflow.Action) { a.OrderID = "" }},
		{"the ID of the message that is meant is missing", func(a *workflow.Action) { a.Target = "" }},
		{"the ID of the message that is meant begins or ends with a space", func(a *workflow.Action) { a.Target = "m-1 " }},
		{"the MessageId of the action is longer than 128 characters", func(a *workflow.Action) { a.ID = strings.Repeat("x", 129) }},
		{"the reason is missing", func(a *workflow.Action) { a.Reason = "" }},
		{"the reason is missing", func(a *workflow.Action) { a.Reason = "\t \n" }},
		{
			`the MessageId of the action "order-42:retry-message:3" is one that the order gives to its own messages`,
			func(a *workflow.Action) { a.ID = "order-42:retry-message:3" },
		},
		{
			`the MessageId of the action "order-42:payment-timeout:1" is one that the order gives to its own messages`,
			func(a *workflow.Action) { a.ID = "order-42:payment-timeout:1" },
		},
	} {
		a := skip
		c.change(&a)
		require.Equal(t, c.says, a.Fault())
	}
}

func TestAnActionIsJournalledLikeAMessage(t *testing.T) {
	t.Parallel()
	m := skip.Message()
	require.Equal(t, workflow.Envelope{
		ID: "a-1", Type: "SkipMessage", OrderID: theOrder, ParentID: "m-1", Schema: "1",
		Body: []byte(`{"actor":"ada","messageId":"m-1","orderId":"order-42","reason":"a test order"}`),
	}, m.Envelope)
	require.Len(t, m.Fingerprint, 64)
	require.Equal(t, m.Fingerprint, skip.Message().Fingerprint)
	for what, change := range map[string]func(*workflow.Action){
		"another action": func(a *workflow.Action) { a.Kind = workflow.RetryMessage },
		"another target": func(a *workflow.Action) { a.Target = "m-2" },
		"another reason": func(a *workflow.Action) { a.Reason = "no test order" },
		"another person": func(a *workflow.Action) { a.Actor = "bob" },
		"nobody":         func(a *workflow.Action) { a.Actor = "" },
	} {
		a := skip
		change(&a)
		require.NotEqual(t, m.Fingerprint, a.Message().Fingerprint, what)
	}
	again := skip
	again.ID = "a-2"
	require.Equal(t, m.Fingerprint, again.Message().Fingerprint)
}

func TestAnActionIsToldInWords(t *testing.T) {
	t.Parallel()
	for kind, words := range map[workflow.ActionKind]string{
		workflow.RetryMessage: "handled again", workflow.SkipMessage: "skipped",
		workflow.SendAgain: "sent again", workflow.DiscardCommand: "discarded",
	} {
		a := skip
		a.Kind = kind
		require.Equal(t, words+" by ada: a test order", a.Words())
		a.Actor = ""
		require.Equal(t, words+": a test order", a.Words())
	}
}

func TestWhatMayBeSentAgainAndWhatDiscarded(t *testing.T) {
	t.Parallel()
	d, _ := hear(paying)
	const awaited, other = "order-42:capture-payment:1", "order-42:reserve-inventory:1"
	const late = "its answer is not awaited any more: it can only be discarded"
	for _, c := range []struct {
		command, state string
		quiet          time.Duration
		again, discard string
	}{
		{awaited, "", 0, "the order sent no such command", "the order sent no such command"},
		{awaited, workflow.DispatchWaiting, 0, "it is waiting to be sent", "it is waiting to be sent"},
		{awaited, workflow.DispatchClosed, 0, "it is closed", "it is closed"},
		{awaited, workflow.DispatchRecall, 0, "it is recall", "it is recall"},
		{awaited, workflow.DispatchDead, 0, "", ""},
		{awaited, workflow.DispatchSent, 10 * time.Minute, "", ""},
		{
			awaited, workflow.DispatchSent, 9*time.Minute + 59*time.Second,
			"it was sent 9m59s ago, and the broker drops what it is sent twice within 10m0s: wait until then", "",
		},
		{other, workflow.DispatchDead, 0, late, ""},
		{other, workflow.DispatchSent, 0, late, ""},
		{other, workflow.DispatchSent, time.Hour, late, ""},
	} {
		a := workflow.Action{Kind: workflow.SendAgain, OrderID: theOrder, Target: c.command, Reason: "as agreed"}
		require.Equal(t, c.again, a.CommandFault(d.order, c.state, c.quiet, 10*time.Minute))
		a.Kind = workflow.DiscardCommand
		require.Equal(t, c.discard, a.CommandFault(d.order, c.state, c.quiet, 10*time.Minute))
	}
}

func TestTheProblemWithACommandIsForgivenWhenThatOneIsSentAgain(t *testing.T) {
	t.Parallel()
	d, _ := hear(paying)
	d.hears(saying{Type: workflow.DispatchFailed, of: func(workflow.Order) workflow.Facts {
		return workflow.Facts{CommandID: "order-42:capture-payment:1", Reason: "too large"}
	}})
	require.Equal(t, "order-42:capture-payment:1 could not be sent: too large", d.order.Problem)
	for _, other := range []string{"order-42:capture-payment:11", "order-42:capture-payment:", "order-42:ship-order:1"} {
		require.Equal(t, d.order, d.order.Forgiven(other))
	}
	forgiven := d.order.Forgiven("order-42:capture-payment:1")
	require.Empty(t, forgiven.Problem)
	require.NotEmpty(t, d.order.Problem, "what it is made of does not change")
}
