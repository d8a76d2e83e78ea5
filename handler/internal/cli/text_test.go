package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files anew")

// golden compares a text with the one in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestAnOrderIsShownWithWhyItWaitsAndWhatToType(t *testing.T) {
	t.Parallel()
	order, err := os.ReadFile(filepath.Join("testdata", "order.json"))
	require.NoError(t, err)
	d := sit(always(200, asJSON, string(order)))
	require.Zero(t, d.run(t, "orders", "show", "order-42"), &d.err)
	text := d.out.String()
	for _, says := range []string{
		"order-42 is NeedsAttention: only a person can decide what happens next\n",
		"  waits for   a person, about the money: retry, or resolve it to cancelled or completed\n",
		"  since       2026-07-19T09:30:00Z (2h 29m ago)\n",
		"  deadline    order-42:compensation-timeout:1, due 2026-07-21T09:30:00Z (in 1d 21h)\n",
		"  version     7,",
		"\nIt is stuck\n  - it waits for a person\n  - the broker refused 1 of its commands for good\n",
		"\nBlocked by m-8\\x1b[2J\n    panic: index out of range\\nat 0x1\n  behind it: m-9, m-10\n",
		"\nHeld until they matter\n  - m-early\n",
		"  order-42:refund-payment:2  dead   12",
		"Nonsense\\u202etxt",
		"      an operator retries\n      by ann\n      ⇒ order-42:refund-payment:2\n",
		"\nJournal, the last 8 of 9 lines\n",
		"\nPossible now, with a reason at the end\n  handler orders retry order-42 -message 'it'\\''s m-8' -version 7 -reason\n",
		"  handler orders send-again order-42 -command order-42:refund-payment:2 -version 7 -reason\n",
		"  handler orders fire-deadline order-42 -deadline order-42:compensation-timeout:1 -version 7 -reason\n",
		"  handler orders resolve order-42 -to cancelled -version 7 -reason\n",
	} {
		require.Contains(t, text, says)
	}
	require.NotContains(t, text, "api:order-placed", "the ninth line from the end is not shown")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "  handler ") { // what is copied is one line
			require.LessOrEqual(t, utf8.RuneCountInString(line), wide+1, line)
		}
	}
	golden(t, "order.txt", text)

	require.Zero(t, d.run(t, "orders", "show", "order-42", "-o", "json"))
	require.Equal(t, string(order)+"\n", d.out.String(), "as the API says it")
}

func TestAnOrderAtItsEndHasNothingToBeDone(t *testing.T) {
	t.Parallel()
	d := sit(always(200, asJSON, `{"orderId":"o","status":"Completed","meaning":"it is done","waitsFor":"","version":4,"since":"2026-07-19T11:59:57Z","createdAt":null,"deadline":null,"blockedBy":null,"allowed":[]}`))
	require.Zero(t, d.run(t, "orders", "show", "o"), &d.err)
	require.Equal(t, "o is Completed: it is done\n  waits for   nothing\n  since       2026-07-19T11:59:57Z (3s ago)\n"+
		"  version     4, known since -, last decided about -\n\nNothing is to be done about it now.\n", d.out.String())
	d = sit(always(200, asJSON, `{"orderId":"o","status":"AwaitingPayment","version":4,"blockedBy":{"messageId":"m","reason":"a panic"},"line":["m","m-2"]}`))
	require.Zero(t, d.run(t, "orders", "show", "o"), &d.err)
	require.Contains(t, d.out.String(), "Blocked by m\n    a panic\n  behind it: m-2\n")
	for _, foreign := range []string{`{}`, `[]`, `{"orderId":"o","status":"Completed"}`, `{"orderId":"o","version":1}`, `{"status":"Completed","version":1}`,
		`{"orderId":"o","status":"Completed","version":1.5}`, `{"orderId":7}`} {
		d := sit(always(200, asJSON, foreign))
		require.Equal(t, exitFailed, d.run(t, "orders", "show", "o"), foreign)
		require.Empty(t, d.out.String())
	}
}

func TestNoTextLeavesItsLineOrMovesTheCursor(t *testing.T) {
	t.Parallel()
	const hostile = `a\u001b[31mb\r\nc\u0007\u009b2J\u202ed\u200be\ufeff\u2028f`
	const harmless = `a\x1b[31mb\r\nc\a\u009b2J\u202ed\u200be\ufeff\u2028f`
	list := `{"items":[{"orderId":"` + hostile + `","status":"` + hostile + `","version":1,"stuck":["` + hostile + `"]}]}`
	for _, c := range []struct {
		line, kind, body string
		status           int
	}{
		{"orders list", asJSON, list, 200},
		{"stuck", asJSON, list, 200},
		{"orders show o", asJSON, `{"orderId":"` + hostile + `","status":"Completed","version":1,"allowed":[{"action":"retry","messageId":"` + hostile + `"}]}`, 200},
		{"orders cancel o -reason r", asJSON, strings.ReplaceAll(cancelled, "order-42", hostile), 202},
		{"orders cancel o -reason r", asProblem, `{"detail":"` + hostile + `","remedy":"` + hostile + `","version":1,"allowed":[{"action":"` + hostile + `"}]}`, 409},
		{"rejected discard x -reason r", asJSON, `{"id":"` + hostile + `","action":"` + hostile + `"}`, 200},
		{"rejected show x", asJSON, `{"id":"x","reason":"` + hostile + `","bodyText":"` + hostile + `","bodyIsWhole":true}`, 200},
		{"health", asJSON, `{"status":"` + hostile + `","degraded":["` + hostile + `"]}`, 200},
		{"process", asJSON, `{"statuses":[{"status":"` + hostile + `","means":"` + hostile + `"}]}`, 200},
		{"summary", asJSON, `{"byStatus":{"` + hostile + `":1},"stuck":{"` + hostile + `":1},"readAt":"` + hostile + `"}`, 200},
		{"orders diagram o", "text/plain", "stateDiagram\n\x1b[2J", 200},
		{"summary", "text/\x1b[2Jhtml", "", 200},
		{"summary", "", "", 302},
	} {
		d := sit(always(c.status, c.kind, c.body, "Location", "\x1b[2J", "Link", `</?continuationToken=%1b%5b2J>; rel="next"`))
		d.run(t, strings.Fields(c.line)...)
		text := d.out.String() + d.err.String()
		require.NotEmpty(t, text)
		for _, r := range text {
			require.False(t, unprintable(r) && r != '\n', "%s: %q in %q", c.line, r, text)
		}
	}
	d := sit(always(200, asJSON, list))
	require.Zero(t, d.run(t, "orders", "list"))
	require.Contains(t, d.out.String(), harmless+"  "+harmless)
	require.Equal(t, "größer → 大", plain("größer → 大"))
}

func TestARejectedMessageIsShownWithItsBody(t *testing.T) {
	t.Parallel()
	d := sit(always(200, asJSON, `{"id":"abc","times":3,"reason":"it is no JSON","orderId":"","deliveries":1,"size":20,"bodyText":"two\tthings\r\n{\"a\":1}","bodyIsWhole":false}`))
	require.Zero(t, d.run(t, "rejected", "show", "abc"))
	require.Equal(t, "id             abc\nreason         it is no JSON\ntimes          3\ndeliveries     1\nsize           20\n\ntwo    things\n{\"a\":1}\n\nNot all of the body was kept.\n", d.out.String())
	d = sit(always(200, asJSON, `{"id":"abc","bodyText":null,"bodyBase64":"AAE=","bodyIsWhole":true}`))
	require.Zero(t, d.run(t, "rejected", "show", "abc"))
	require.Equal(t, "id             abc\n\nThe body is no text; -o json has its bytes in base64.\n", d.out.String())
	require.Equal(t, exitFailed, sit(always(200, asJSON, `{}`)).run(t, "rejected", "show", "abc"))
}

func TestWhatWasBroughtBackIsCountedAndWhatIsLeftIsAFailure(t *testing.T) {
	t.Parallel()
	d := sit(always(200, asJSON, `{"action":"redrive","handled":0,"outcomes":{},"failed":[],"more":false,"trouble":[]}`))
	require.Zero(t, d.run(t, "dead-letters", "redrive", "-reason", "r", "-order", "order-24"))
	require.Equal(t, "handled 0\nthere are none of those\n", d.out.String())
	d = sit(always(200, asJSON, `{"action":"redrive","handled":3,"outcomes":{"Applied":2,"Duplicate":1},"failed":[],"more":true,"trouble":[]}`))
	require.Zero(t, d.run(t, "dead-letters", "redrive", "-reason", "r"))
	require.Equal(t, "handled 3\n  Applied                    2\n  Duplicate                  1\n\nThere may be more: the same again goes on.\n", d.out.String())
	for _, left := range []string{
		`"failed":[{"subscription":"payment-result","orderId":"o","messageId":"m","type":"PaymentCaptured","why":"busy"}],"trouble":[]`,
		`"failed":[],"trouble":["the broker is away"]`,
	} {
		d := sit(always(200, asJSON, `{"action":"redrive","handled":0,"outcomes":{},"more":false,`+left+`}`))
		require.Equal(t, exitFailed, d.run(t, "dead-letters", "redrive", "-reason", "r"))
		require.Contains(t, d.out.String(), "handled 0\n\n")
		require.Regexp(t, "payment-result  o      m        PaymentCaptured\n      busy|  - the broker is away", d.out.String())
		require.Empty(t, d.err.String())
		require.Equal(t, exitFailed, d.run(t, "dead-letters", "redrive", "-reason", "r", "-o", "json"))
		require.Contains(t, d.out.String(), `{"action":"redrive"`)
	}
	list := sit(always(200, asJSON, `{"counts":{},"deadLetters":[{"subscription":"payment-result","orderId":"o","messageId":"m","type":"T","reason":"MaxDeliveryCountExceeded","description":"ten times"}],"next":null}`))
	require.Equal(t, exitFound, list.run(t, "dead-letters", "list", "-fail"))
	require.Equal(t, "SUBSCRIPTION    ORDER  MESSAGE  TYPE  SENT\npayment-result  o      m        T     -\n    MaxDeliveryCountExceeded\n    ten times\n", list.out.String())
	require.Zero(t, list.run(t, "dead-letters", "list", "-all", "-o", "json"))
	require.True(t, strings.HasPrefix(list.out.String(), `{"deadLetters":[{"subscription"`), "%s", &list.out)

	part := sit(always(200, asJSON, `{"counts":{"order-placed":0,"payment-result":null,"shipment-result":null},"deadLetters":[],"next":null}`))
	require.Equal(t, exitFailed, part.run(t, "dead-letters", "list"), "nobody knows that there are none")
	require.Equal(t, "orderflow: this is not all, for it is not known what there is of payment-result, shipment-result\n", part.err.String())
}

func TestWhatIsPossibleLaterIsShownWithItsTime(t *testing.T) {
	t.Parallel()
	const allowed = `"allowed":[{"action":"send-again","commandId":"o:a:1","notBefore":"2026-07-19T12:00:01Z"},{"action":"cancel"},
		{"action":"send-again","commandId":"o:b:1","notBefore":"2026-07-19T12:00:00Z"}]`
	d := sit(always(200, asJSON, `{"orderId":"o","status":"AwaitingPayment","version":2,`+allowed+`}`))
	require.Zero(t, d.run(t, "orders", "show", "o"))
	require.Contains(t, d.out.String(), "\nPossible now, with a reason at the end\n  handler orders cancel o -version 2 -reason\n"+
		"  handler orders send-again o -command o:b:1 -version 2 -reason\n"+
		"\nPossible from 2026-07-19T12:00:01Z on\n  handler orders send-again o -command o:a:1 -version 2 -reason\n")
	d = sit(always(409, asProblem, `{"detail":"no","version":2,`+allowed+`}`))
	require.Equal(t, exitRefused, d.run(t, "orders", "cancel", "o", "-reason", "r"))
	require.Contains(t, d.err.String(), "  from 2026-07-19T12:00:01Z on: handler orders send-again o -command o:a:1 ")
	require.Contains(t, d.err.String(), "  handler orders send-again o -command o:b:1 ")
}

func TestTheSummaryCounts(t *testing.T) {
	t.Parallel()
	d := sit(always(200, asJSON, `{"byStatus":{"Completed":12,"AwaitingPayment":3},"backlog":{"waiting":2,"lagMs":61500.5,"dead":1,"blocked":4,"early":5,"overdue":6},"rejected":7,"deadLetters":8,"stuck":{"dead":1},"stuckIsPartial":true,"readAt":"2026-07-19T12:00:00Z"}`))
	require.Zero(t, d.run(t, "summary"))
	require.Equal(t, `Orders at 2026-07-19T12:00:00Z
  AwaitingPayment            3
  Completed                 12

Not done
  waiting                    2  messages to be sent, the first of them for 1m 1s
  dead                       1  commands that were refused for good
  blocked                    4  orders that a message blocks
  early                      5  messages that came before they matter
  overdue                    6  deadlines that passed and did not come back
  rejected                   7  messages that were refused for good
  dead letters               8  messages that the broker gave up

Stuck
  dead                       1
  not all were looked at: there are too many
`, d.out.String())
	d = sit(always(200, asJSON, `{"byStatus":{},"stuck":{},"backlog":{"lagMs":0},"rejected":100,"rejectedIsPartial":true,"deadLetters":null}`))
	require.Zero(t, d.run(t, "summary"))
	require.Contains(t, d.out.String(), "messages to be sent\n")
	require.Contains(t, d.out.String(), "Stuck\n  nothing\n")
	require.Contains(t, d.out.String(), "  100  messages that were refused for good, or more\n")
	require.Contains(t, d.out.String(), "    -  messages that the broker gave up\n")
	require.Equal(t, exitFailed, sit(always(200, asJSON, `{}`)).run(t, "summary"))
}

func TestAListIsAlignedAndItsWordsStandBelow(t *testing.T) {
	t.Parallel()
	why := strings.Repeat("because the payment service does not answer ", 4)
	d := sit(always(200, asJSON, `{"items":[
		{"orderId":"order-1","status":"AwaitingPayment","version":2,"since":"2026-07-19T09:30:00.123456Z","deadlineAt":"2026-07-19T11:30:00+02:00","stuck":["`+why+`","and more"],"problem":"hidden by the others"},
		{"orderId":"order-größer","status":"Cancelled","version":12345678,"since":"2026-07-19T09:30:00Z","deadlineAt":null,"stuck":[],"problem":"a problem"}]}`))
	require.Zero(t, d.run(t, "orders", "list"))
	golden(t, "orders.txt", d.out.String())
	require.Contains(t, d.out.String(), "  12345678  ")
	require.Equal(t, 2, strings.Count(d.out.String(), "2026-07-19T09:30:00Z  "), "to the second, in UTC")
	lines := strings.Split(d.out.String(), "\n")
	require.Equal(t, strings.Index(lines[0], "STATUS"), strings.Index(lines[1], "AwaitingPayment"))
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), wide)
	}
	require.NotContains(t, d.out.String(), "hidden")
}
