package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// facts has something in every field.
var facts = workflow.Facts{
	CustomerID: "customer-9", Currency: "EUR", Amount: 12990,
	Lines:         []workflow.Line{{SKU: "sku-1", Quantity: 2}, {SKU: "sku-2", Quantity: 1}},
	ReservationID: "res-1", PaymentID: "pay-1", RefundID: "ref-1", ShipmentID: "ship-1",
	CommandID: "order-42:refund-payment:1", Reason: "no luck", TimeoutID: "order-42:payment-timeout:1",
	DueAt: noon, Version: 7,
}

// letter is a sound envelope of a type.
func letter(t workflow.MessageType) workflow.Envelope {
	return workflow.Envelope{
		ID: "m-1", Type: t, OrderID: theOrder, Conversation: theConversation,
		ParentID: "m-0", OriginID: theOrigin, Schema: "1", Body: bodyOf(t, theOrder, facts),
	}
}

func requireMalformed(t *testing.T, e workflow.Envelope, says ...string) {
	t.Helper()
	m, err := e.Decode()
	require.ErrorIs(t, err, workflow.ErrMalformed)
	require.Zero(t, m)
	for _, s := range says {
		require.ErrorContains(t, err, s)
	}
}

func TestEachTypeIsReadFieldByField(t *testing.T) {
	t.Parallel()
	for _, on := range types {
		m, err := letter(on).Decode()
		require.NoError(t, err, on)
		require.Equal(t, letter(on), m.Envelope)
		require.JSONEq(t, string(bodyOf(on, theOrder, facts)), string(bodyOf(on, theOrder, m.Facts)))
		require.Len(t, m.Fingerprint, 64)
		require.False(t, m.NotDue)
	}
}

func TestEachFieldOfEachTypeMustBeThereAndBeWhatItIs(t *testing.T) {
	t.Parallel()
	wrong := map[string][]string{ // by field: values that it must not have
		"orderId":       {`null`, `42`, `{}`, `""`, `"order-43"`, `["order-42"]`},
		"customerId":    {`null`, `7`, `""`, `" customer"`, `"a\u0000b"`, `"` + strings.Repeat("x", 129) + `"`},
		"currency":      {`null`, `7`, `""`, `"eur"`, `"EURO"`, `"E1R"`, `["EUR"]`},
		"amount":        {`null`, `"12990"`, `12990.0`, `129.90`, `1.299e4`, `-1`, `9223372036854775808`, `[1]`, `true`},
		"reason":        {`null`, `7`, `{}`},
		"timeoutId":     {`null`, `7`, `""`},
		"dueAt":         {`null`, `7`, `""`, `"yesterday"`, `"2026-03-01"`, `"2026-03-01T12:00:00"`},
		"version":       {`null`, `"7"`, `7.0`, `-1`},
		"reservationId": {`null`, `7`, `""`, `"res-1 "`}, "paymentId": {`null`, `7`, `""`}, "refundId": {`null`, `7`, `""`},
		"shipmentId": {`null`, `7`, `""`}, "commandId": {`null`, `7`, `""`},
		"lines": {
			`null`, `{}`, `[]`, `"sku-1"`, `[null]`, `[7]`, `[{}]`, `[{"sku":"sku-1"}]`, `[{"quantity":1}]`,
			`[{"sku":"","quantity":1}]`, `[{"sku":null,"quantity":1}]`, `[{"sku":"sku-1","quantity":0}]`,
			`[{"sku":"sku-1","quantity":-1}]`, `[{"sku":"sku-1","quantity":1.0}]`, `[{"sku":"sku-1","quantity":"1"}]`,
			`[{"sku":"sku-1","quantity":null}]`, `[{"SKU":"sku-1","quantity":1}]`, `[{"sku":"sku-1","Quantity":1}]`,
			`[{"sku":"sku-1","quantity":1},{"sku":"sku-2"}]`,
		},
	}
	for _, on := range types {
		for _, name := range append([]string{"orderId"}, members[on]...) {
			var object map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(bodyOf(on, theOrder, facts), &object))
			with := func(raw string) workflow.Envelope {
				e := letter(on)
				if raw == "" {
					delete(object, name)
				} else {
					object[name] = json.RawMessage(raw)
				}
				var err error
				e.Body, err = json.Marshal(object)
				require.NoError(t, err)
				return e
			}
			require.NotEmpty(t, wrong[name])
			for _, raw := range wrong[name] {
				requireMalformed(t, with(raw), string(on))
			}
			requireMalformed(t, with(""), string(on), name, "missing")
			if name != "orderId" {
				object[strings.ToUpper(name)] = json.RawMessage(`"` + name + `"`)
				requireMalformed(t, with(""), "missing")
			}
		}
	}
}

func TestAnEmptyReasonIsAReason(t *testing.T) {
	t.Parallel()
	e := letter(workflow.PaymentFailed)
	e.Body = []byte(`{"orderId":"order-42","reason":""}`)
	m, err := e.Decode()
	require.NoError(t, err)
	r := workflow.Apply(workflow.Order{ID: theOrder, Status: workflow.AwaitingPayment}, m, nil)
	require.Equal(t, "the payment failed", r.Decisions[0].Reason)
}

func TestFieldsThatAreNotKnownAreIgnoredAndKept(t *testing.T) {
	t.Parallel()
	e := letter(workflow.PaymentCaptured)
	e.Body = []byte(`{"orderId":"order-42","paymentId":"pay-1","amount":"whatever","deep":{"a":[1,2]}}`)
	m, err := e.Decode()
	require.NoError(t, err)
	require.Equal(t, workflow.Facts{PaymentID: "pay-1"}, m.Facts)
	require.Equal(t, string(e.Body), string(m.Body))
}

func TestIdentitiesAreSoundOrTheMessageIsRejected(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 128)
	bad := map[string]string{ // identity: what is said about it
		"":                            "missing",
		" ":                           "space",
		"  \t":                        "space",
		"m-1 ":                        "space",
		" m-1":                        "space",
		"m\x00-1":                     "printed",
		"m-1\n2":                      "printed",
		"m\u200b1":                    "printed",
		"m\xff1":                      "printed",
		"m\u00a01":                    "printed",
		long + "x":                    "128",
		strings.Repeat("ö", 129):      "128",
		strings.Repeat("😀", 64) + "x": "128", // a pair of units each, as the broker counts
	}
	for id, says := range bad {
		for name, set := range map[string]func(*workflow.Envelope){
			"MessageId":            func(e *workflow.Envelope) { e.ID = id },
			"SessionId":            func(e *workflow.Envelope) { e.OrderID = id },
			"CorrelationId":        func(e *workflow.Envelope) { e.Conversation = id },
			"ParentMessageId":      func(e *workflow.Envelope) { e.ParentID = id },
			"OriginatingMessageId": func(e *workflow.Envelope) { e.OriginID = id },
		} {
			e := letter(workflow.PaymentCaptured)
			set(&e)
			if id == "" && name != "MessageId" && name != "SessionId" {
				_, err := e.Decode()
				require.NoError(t, err, "an absent %s has a default", name)
				continue
			}
			requireMalformed(t, e, name, says)
		}
	}
	good := []string{long, strings.Repeat("ö", 128), strings.Repeat("😀", 64), "m 1", "m1", "M1", `x'; DROP TABLE orders; --`, "Ünïcode"}
	for _, id := range good {
		e := letter(workflow.PaymentCaptured)
		e.ID, e.Conversation, e.ParentID, e.OriginID = id, id, id, id
		m, err := e.Decode()
		require.NoError(t, err)
		require.Equal(t, e, m.Envelope, "kept as it is")
	}
}

func TestAnOrderIDIsShortEnoughForWhatIsDerivedFromIt(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		strings.Repeat("x", 96): true, strings.Repeat("x", 97): false,
		"A.z_0~-9": true, "order 42": false, "order:42": false, "order/42": false, "örder": false,
		`42'`: false, `42"`: false, "42;": false, "42%": false, "+": false, "-": true,
		".": false, "..": false, "...": true, ".4": true, // which an address takes for a place
	} {
		e := letter(workflow.PaymentCaptured)
		e.OrderID, e.Body = id, bodyOf(e.Type, id, facts)
		m, err := e.Decode()
		if !ok {
			require.ErrorIs(t, err, workflow.ErrMalformed, id)
			continue
		}
		require.NoError(t, err, id)
		require.Equal(t, id, m.OrderID)
	}
}

func TestNoMessageTakesAnIDByWhichTheOrderHearsItself(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		workflow.DeadlineID(theOrder, workflow.InventoryTimeout, 1),
		workflow.DeadlineID(theOrder, workflow.PaymentTimeout, 1),
		workflow.DeadlineID(theOrder, workflow.ShipmentTimeout, 12),
		workflow.DeadlineID(theOrder, workflow.CompensationTimeout, 2),
		workflow.ActionID(theOrder, workflow.Retry, 7),
		workflow.ActionID(theOrder, workflow.ResolveCancelled, 7),
		workflow.ActionID(theOrder, workflow.ResolveCompleted, 7),
		workflow.ActionID(theOrder, workflow.MessageType(workflow.RetryMessage), 7),
		workflow.ActionID(theOrder, workflow.MessageType(workflow.SkipMessage), 7),
		workflow.ActionID(theOrder, workflow.MessageType(workflow.SendAgain), 7),
		workflow.ActionID(theOrder, workflow.MessageType(workflow.DiscardCommand), 7),
		workflow.DeathID(workflow.CommandID(theOrder, workflow.CapturePayment, 1), 1),
	} {
		e := letter(workflow.PaymentCaptured)
		e.ID = id
		requireMalformed(t, e, id, "its own messages")
		e = letter(workflow.PaymentDeadlineExpired) // which speaks of a deadline of another name
		e.ID, e.Body = id, workflow.DeadlineBody(theOrder, "order-42:payment-timeout:99", noon)
		requireMalformed(t, e, id, "its own messages")
	}
	for _, id := range []string{ // another order's, a service's own, and a command's, which never comes in
		"order-43:payment-timeout:1", "order-42-payment-timeout:1", "order-42:captured", "order-42:capture-payment:1",
	} {
		e := letter(workflow.PaymentCaptured)
		e.ID = id
		_, err := e.Decode()
		require.NoError(t, err, id)
	}
}

func TestNoMessageIsAnOperatorsAction(t *testing.T) {
	t.Parallel()
	for _, kind := range workflow.ActionKinds() {
		a := workflow.Action{ID: "m-1", Kind: kind, OrderID: theOrder, Target: "m-0", Reason: "as agreed", Actor: "ada"}
		require.Empty(t, a.Fault())
		requireMalformed(t, a.Message().Envelope, string(kind), "not known")
	}
}

func TestTheSessionIsTheOrder(t *testing.T) {
	t.Parallel()
	e := letter(workflow.PaymentCaptured)
	e.OrderID = "order-43"
	requireMalformed(t, e, "order-42", "order-43")
	e.OrderID = "Order-42"
	requireMalformed(t, e)
}

func TestAnAbsentOriginOrSelfIsTheMessageItself(t *testing.T) {
	t.Parallel()
	for _, origin := range []string{"", "self", "SELF", "Self"} {
		e := letter(workflow.PaymentCaptured)
		e.OriginID, e.ParentID, e.Schema = origin, origin, ""
		m, err := e.Decode()
		require.NoError(t, err)
		require.Equal(t, "m-1", m.OriginID)
		require.Equal(t, "m-1", m.ParentID)
		require.Equal(t, "1", m.Schema)
	}
}

func TestAnAbsentConversationStaysAbsent(t *testing.T) {
	t.Parallel()
	e := letter(workflow.PaymentCaptured)
	e.Conversation = ""
	m, err := e.Decode()
	require.NoError(t, err)
	require.Empty(t, m.Conversation)
}

func TestASchemaOrTypeThatIsNotKnownIsRefused(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"2", "0", "1.0", " 1", "one"} {
		e := letter(workflow.PaymentCaptured)
		e.Schema = schema
		requireMalformed(t, e, "SchemaVersion", schema)
	}
	for _, on := range []workflow.MessageType{"", "paymentcaptured", "PaymentCaptured ", "CapturePayment", "CancelOrder", "Nonsense"} {
		e := letter(workflow.PaymentCaptured)
		e.Type = on
		requireMalformed(t, e, "Subject")
	}
}

func TestABodyIsOneJSONObject(t *testing.T) {
	t.Parallel()
	sound := string(letter(workflow.PaymentCaptured).Body)
	quoted := func(s string) string {
		b, err := json.Marshal(s)
		require.NoError(t, err)
		return string(b)
	}
	for name, c := range map[string]struct {
		body string
		says string // empty: it is accepted
	}{
		"as it is":                         {sound, ""},
		"with space around":                {" \r\n" + sound + "\t\n", ""},
		"with a byte order mark":           {"\ufeff" + sound, ""},
		"a text that holds it":             {quoted(sound), ""},
		"a text that holds it with spaces": {" " + quoted("\n "+sound+" ") + " ", ""},
		"a text in a text":                 {quoted(quoted(sound)), "not a JSON object"},
		"nothing":                          {"", "empty"},
		"spaces":                           {" \n", "empty"},
		"an empty text":                    {`""`, "not JSON"},
		"null":                             {"null", "not a JSON object"},
		"a list":                           {"[" + sound + "]", "not a JSON object"},
		"a number":                         {"7", "not a JSON object"},
		"two":                              {sound + sound, "not JSON"},
		"cut short":                        {sound[:len(sound)-1], "not JSON"},
		"no JSON":                          {"hello", "not JSON"},
		"a text cut short":                 {`"{`, "not JSON"},
		"a text with more behind it":       {quoted(sound) + "{}", "not JSON"},
		"invalid UTF-8":                    {`{"orderId":"order-42","paymentId":"` + "\xff" + `"}`, "UTF-8"},
		"UTF-16":                           {"\xff\xfe{\x00}\x00", "UTF-8"},
		"half a surrogate pair in an ID":   {`{"orderId":"order-42","paymentId":"\ud800"}`, "paymentId"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := letter(workflow.PaymentCaptured)
			e.Body = []byte(c.body)
			if c.says != "" {
				requireMalformed(t, e, c.says)
				return
			}
			m, err := e.Decode()
			require.NoError(t, err)
			require.Equal(t, sound, string(m.Body))
			require.Equal(t, "pay-1", m.Facts.PaymentID)
		})
	}
}

func TestABodyIsNestedAtMostSixtyFourDeep(t *testing.T) {
	t.Parallel()
	nested := func(deep int) workflow.Envelope { // the object itself is one level
		e := letter(workflow.PaymentCaptured)
		lists := strings.Repeat("[", deep-1) + strings.Repeat("]", deep-1)
		e.Body = fmt.Appendf(nil, `{"orderId":"order-42","paymentId":"pay-1","deep":%s}`, lists)
		return e
	}
	_, err := nested(workflow.MaxNesting).Decode()
	require.NoError(t, err)
	requireMalformed(t, nested(workflow.MaxNesting+1), "nested")
	requireMalformed(t, nested(100_000), "nested")

	e := letter(workflow.PaymentCaptured)
	e.Body = fmt.Appendf(nil, `{"orderId":"order-42","paymentId":"pay-1","text":"\"%s"}`, strings.Repeat("[{", 100))
	_, err = e.Decode()
	require.NoError(t, err, "brackets inside a text are text")

	inside, err := json.Marshal(string(nested(workflow.MaxNesting + 1).Body))
	require.NoError(t, err)
	e.Body = inside
	requireMalformed(t, e, "nested")
}

func TestADueTimeIsReadInUTC(t *testing.T) {
	t.Parallel()
	e := letter(workflow.PaymentDeadlineExpired)
	e.Body = []byte(`{"orderId":"order-42","timeoutId":"t","dueAt":"2026-03-01T14:30:00.25+02:30"}`)
	m, err := e.Decode()
	require.NoError(t, err)
	require.Equal(t, noon.Add(250*time.Millisecond), m.Facts.DueAt)
}

func TestWhatIsWrittenHereIsReadHere(t *testing.T) {
	t.Parallel()
	e := letter(workflow.PaymentDeadlineExpired)
	e.Body = workflow.DeadlineBody(theOrder, facts.TimeoutID, noon.In(time.FixedZone("somewhere", 3600)))
	m, err := e.Decode()
	require.NoError(t, err)
	require.Equal(t, workflow.Facts{TimeoutID: facts.TimeoutID, DueAt: noon}, m.Facts)

	e = letter(workflow.Retry)
	e.Body = workflow.ActionBody(theOrder, 7, `they said "now"`)
	m, err = e.Decode()
	require.NoError(t, err)
	require.Equal(t, workflow.Facts{Version: 7, Reason: `they said "now"`}, m.Facts)
}
