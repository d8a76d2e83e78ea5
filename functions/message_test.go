package functions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

func TestDoneDuplicateStaleHeldAndRejectedAreAcknowledgedAndOnlyFailureIsNot(t *testing.T) {
	t.Parallel()
	for outcome, status := range map[workflow.Outcome]int{
		workflow.Applied: 200, workflow.Duplicate: 200, workflow.Stale: 200,
		workflow.Held: 200, workflow.Blocked: 200, workflow.Skipped: 200, workflow.Rejected: 200,
		workflow.Failed: 500, "": 500, "Unheard-of": 500,
	} {
		t.Run("outcome "+string(outcome), func(t *testing.T) {
			t.Parallel()
			w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
				return decision(outcome), nil
			}}
			settled(t, status, w.post(t, "/order-placed", invocation(placedBody, nil)))
			require.Len(t, w.messages, 1)
		})
	}
}

func TestTheAnswerToTheHostIsExactlyWhatItNeeds(t *testing.T) {
	t.Parallel()
	var w world
	answer := w.post(t, "/order-placed", invocation(placedBody, nil))
	want := `{"Outputs":{},"Logs":["order-placed: Applied \"OrderPlaced\" \"orders:order-placed:42\" of order \"order-42\", ` +
		`NotStarted → AwaitingInventory: the order was placed"],"ReturnValue":null}`
	sameBytes(t, want, answer.Body.Bytes())
}

func TestAMessageThatCouldNotBeHandledIsLeftToBeDeliveredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			return workflow.Decision{}, fmt.Errorf("load: %w", workflow.ErrTransient)
		}}
		answer := w.post(t, "/order-placed", invocation(placedBody, nil))
		require.NotContains(t, answer.Body.String(), "load:", "causes are for the log")
		settled(t, 500, answer)
		require.Equal(t, "handle the message: load: not possible at the moment", w.logged(t)["error"])
	})
}

func TestARefusedMessageThatCannotBeKeptIsLeftToBeDeliveredAgain(t *testing.T) {
	t.Parallel()
	w := world{reject: func(context.Context, workflow.Rejection) error { return errors.New("the database is away") }}
	settled(t, 500, w.post(t, "/order-placed", fixture(t, "poison.not-json")))
	require.Contains(t, w.logged(t)["error"], "the database is away")
}

func TestOriginAbsentOrSelfInAnyCaseIsTheMessageItself(t *testing.T) {
	t.Parallel()
	for _, said := range []any{nil, "self", "SELF", "Self", ""} {
		var w world
		properties := map[string]any{"OriginatingMessageId": said, "ParentMessageId": said}
		settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, map[string]any{"ApplicationProperties": properties})))
		got := w.onlyMessage(t)
		require.Equal(t, origin, got.OriginID)
		require.Equal(t, origin, got.ParentID)
	}
}

func TestABrokenIdentityIsKeptAsItCameAndNothingIsMadeUpForIt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 129)
	for name, tt := range map[string]struct {
		metadata    map[string]any
		id, session string
		reason      string
	}{
		"no MessageId":            {map[string]any{"MessageId": nil}, "", "order-42", "MessageId is missing"},
		"blank MessageId":         {map[string]any{"MessageId": quoted("  ")}, "  ", "order-42", "begins or ends with a space"},
		"no SessionId":            {map[string]any{"SessionId": nil}, origin, "", "SessionId is missing"},
		"blank SessionId":         {map[string]any{"SessionId": quoted("")}, origin, "", "SessionId is missing"},
		"129 characters":          {map[string]any{"MessageId": quoted(long)}, long, "order-42", "longer than 128"},
		"a long order ID":         {map[string]any{"SessionId": quoted(long[:97])}, origin, long[:97], "longer than 96"},
		"another order's session": {map[string]any{"SessionId": quoted("order-43")}, origin, "order-43", `its SessionId is "order-43"`},
		"SQL in the session":      {map[string]any{"SessionId": quoted(`'; DROP TABLE orders; --`)}, origin, `'; DROP TABLE orders; --`, "no order ID"},
		"quotes in the session":   {map[string]any{"SessionId": quoted(`"order-42"`)}, origin, `"order-42"`, "no order ID"},
		"a control character":     {map[string]any{"MessageId": quoted("m\x001\n")}, "m\x001\n", "order-42", "begins or ends"},
		"a new line inside":       {map[string]any{"MessageId": quoted("m\n1")}, "m\n1", "order-42", "cannot be printed"},
		"an ID that is an object": {map[string]any{"MessageId": map[string]any{"a": 1}}, "", "order-42", "MessageId is missing"},
		"an unknown type":         {map[string]any{"Subject": quoted("OrderDreamt")}, origin, "order-42", "not known"},
		"no type":                 {map[string]any{"Subject": nil, "Label": nil}, origin, "order-42", "not known"},
		"an unknown version":      {map[string]any{"ApplicationProperties": map[string]any{"SchemaVersion": "2"}}, origin, "order-42", `SchemaVersion "2"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, tt.metadata)))
			got := w.onlyRejection(t)
			require.Equal(t, tt.id, got.ID)
			require.Equal(t, tt.session, got.OrderID)
			require.Contains(t, got.Reason, tt.reason)
			sameBytes(t, placedBody, got.Body)
		})
	}
}

func TestIdentitiesOf128CharactersAndOddButPrintableOnesAreHandledVerbatim(t *testing.T) {
	t.Parallel()
	for _, id := range []string{strings.Repeat("é", 128), `it's "quoted" \ <b>`, "3", "null", `'; DROP TABLE x; --`, "m1", "M1"} {
		var w world
		settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, map[string]any{"MessageId": quoted(id)})))
		require.Equal(t, id, w.onlyMessage(t).ID)
	}
}

func TestAMessageThatOnlyClaimsToBeInternalIsRejectedWhateverItsBody(t *testing.T) {
	t.Parallel()
	for _, kind := range []workflow.MessageType{workflow.DispatchFailed, workflow.Retry, workflow.ResolveCancelled, workflow.ResolveCompleted} {
		for _, body := range []string{`{"orderId":"order-42","version":3,"reason":"because","commandId":"order-42:ship-order:1"}`, `{`} {
			var w world
			settled(t, 200, w.post(t, "/order-placed", invocation(body, map[string]any{"Subject": quoted(string(kind))})))
			got := w.onlyRejection(t)
			require.Contains(t, got.Reason, "comes through the operator's door only")
			require.Equal(t, kind, got.Type)
			require.Equal(t, len(body) > 1, got.Fingerprint != "")
		}
	}
}

func TestAKnownTypeOnAnotherFunctionsRouteIsHandledAllTheSame(t *testing.T) {
	t.Parallel()
	var w world
	settled(t, 200, w.post(t, "/shipment-timeout", invocation(placedBody, nil)))
	require.Equal(t, "shipment-timeout", w.onlyMessage(t).Delivery.Function)
}

func TestABareMessageFromTheAdminEndpointIsRejectedAndNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	var w world
	settled(t, 200, w.post(t, "/order-placed", envelope("aGVsbG8=", map[string]any{
		"MessageId": nil, "SessionId": nil, "Subject": nil, "Label": nil, "CorrelationId": nil,
		"DeliveryCount": "0", "ApplicationProperties": map[string]any{},
	})))
	got := w.onlyRejection(t)
	require.Equal(t, "malformed message: MessageId is missing", got.Reason)
	require.Equal(t, "hello", string(got.Body))
	require.Zero(t, got.Delivery.Count)
}

func TestABodyThatIsTooLargeIsRejectedAndABoundedPartOfItKept(t *testing.T) {
	t.Parallel()
	var w world
	large := `{"orderId":"order-42","filler":"` + strings.Repeat("x", functions.DefaultMaxBody) + `"}`
	settled(t, 200, w.post(t, "/order-placed", invocation(large, nil)))
	got := w.onlyRejection(t)
	require.Equal(t, origin, got.ID)
	require.Equal(t, large[:functions.DefaultMaxBody], string(got.Body))
	require.Equal(t, fmt.Sprintf("the body is %d bytes long; 262144 are accepted, and that many are kept", len(large)), got.Reason)
}

func TestABodyOfExactlyTheLimitIsHandledAndOneByteMoreIsNot(t *testing.T) {
	t.Parallel()
	var w world
	a := w.app()
	a.MaxBody = len(placedBody)
	settled(t, 200, send(a.Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, nil)))))
	sameBytes(t, placedBody, w.onlyMessage(t).Body)

	var over world
	a = over.app()
	a.MaxBody = len(placedBody) - 1
	settled(t, 200, send(a.Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, nil)))))
	require.Contains(t, over.onlyRejection(t).Reason, "bytes long")
}

func TestARequestThatIsTooLargeToReadFailsAndIsLogged(t *testing.T) {
	t.Parallel()
	var w world
	a := w.app()
	a.MaxRequest = 100
	settled(t, 500, send(a.Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, nil)))))
	require.Empty(t, w.messages)
	require.Empty(t, w.rejections)
	require.Equal(t, "ERROR", w.logged(t)["level"])
}

func TestARequestThatBreaksOffFailsAndIsLogged(t *testing.T) {
	t.Parallel()
	var w world
	half := io.MultiReader(strings.NewReader(`{"Data":`), brokenOff{})
	settled(t, 500, send(w.app().Handler(), newRequest(t, http.MethodPost, "/order-placed", half)))
	require.Empty(t, w.rejections)
	require.Contains(t, w.logged(t)["error"], "unexpected EOF")
}

type brokenOff struct{}

func (brokenOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestWhatIsNoInvocationOfTheHostIsKeptWithItsBytes(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 200_000)
	for body, reason := range map[string]string{
		``:                       "it is not JSON",
		`hello`:                  "it is not JSON",
		`{"Data":{"message":"`:   "it is not JSON",
		`{"Data":{}}trailing`:    "it is not JSON",
		deep:                     "it is not JSON",
		`null`:                   "neither Data nor Metadata",
		`{}`:                     "neither Data nor Metadata",
		`[1]`:                    "it is a JSON array, not an object",
		`{"Data":"eHg="}`:        "Data is a JSON string, not an object",
		`{"Data":{"other":"x"}}`: "no Data.message",
		`{"Metadata":{}}`:        "no Data.message",
	} {
		var w world
		settled(t, 200, w.post(t, "/order-placed", body))
		got := w.onlyRejection(t)
		require.Contains(t, got.Reason, reason)
		require.Equal(t, body, string(got.Body))
		require.Empty(t, got.ID, "no identity is made up")
	}
}

func TestIdentityIsKeptOfARequestWhoseDataCannotBeRead(t *testing.T) {
	t.Parallel()
	var w world
	settled(t, 200, w.post(t, "/order-placed", `{"Data":5,"Metadata":{"MessageId":"\"m-1\"","SessionId":"\"order-42\""}}`))
	got := w.onlyRejection(t)
	require.Equal(t, "m-1", got.ID)
	require.Equal(t, "order-42", got.OrderID)
}

func TestADeeplyNestedBodyIsRejected(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{65, 9_000, 100_000} {
		var w world
		body := `{"orderId":"order-42","x":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
		settled(t, 200, w.post(t, "/order-placed", invocation(body, nil)))
		require.Contains(t, w.onlyRejection(t).Reason, "nested deeper")
	}
}
