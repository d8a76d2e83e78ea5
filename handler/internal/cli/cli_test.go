package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// desk is a terminal with an app behind it that answers as a test says, and
// keeps what it was asked.
type desk struct {
	System
	answers  func(*http.Request) (*http.Response, error)
	asked    []string // method, path and query
	headers  []http.Header
	bodies   []string
	out, err bytes.Buffer
}

func (d *desk) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d.asked = append(d.asked, r.Method+" "+r.URL.RequestURI())
	d.headers, d.bodies = append(d.headers, r.Header), append(d.bodies, string(body))
	return d.answers(r)
}

const app = "https://app.example"

// sit is a desk where an app answers to everything alike.
func sit(answers func(*http.Request) (*http.Response, error)) *desk {
	d := &desk{answers: answers}
	d.System = System{
		In: strings.NewReader(""), Out: &d.out, Err: &d.err, User: "ann", URL: app, Network: d,
		Now:    func() time.Time { return time.Date(2026, 7, 19, 12, 0, 0, 0, time.UTC) },
		NewKey: func() string { return "fresh-key" },
	}
	return d
}

func (d *desk) run(t *testing.T, line ...string) int {
	t.Helper()
	d.out.Reset()
	d.err.Reset()
	return Run(t.Context(), line, d.System)
}

// reply is an answer with a body; headers are pairs.
func reply(status int, kind, body string, headers ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func always(status int, kind, body string, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return reply(status, kind, body, headers...), nil }
}

const (
	asJSON    = "application/json"
	asProblem = "application/problem+json"
	cancelled = `{"orderId":"order-42","action":"cancel","messageId":"operator:fresh-key","outcome":"Applied","reason":"cancelled","from":"AwaitingPayment","to":"Compensating","version":3,"repeated":false}`
)

func TestFlagsStandBeforeOrBehindTheArgument(t *testing.T) {
	t.Parallel()
	for _, line := range [][]string{
		{"orders", "cancel", "order-42", "-reason", "asked by phone", "-version", "2"},
		{"orders", "cancel", "-reason", "asked by phone", "-version", "2", "order-42"},
		{"orders", "cancel", "--reason=asked by phone", "order-42", "-version=2"},
		{"orders", "cancel", "-reason", "asked by phone", "-if-match", `"2"`, "--", "order-42"},
	} {
		d := sit(always(202, asJSON, cancelled))
		require.Zero(t, d.run(t, line...), &d.err)
		require.Equal(t, []string{"POST /api/orders/order-42/cancel"}, d.asked)
		require.JSONEq(t, `{"reason":"asked by phone"}`, d.bodies[0])
		h := d.headers[0]
		require.Equal(t, `"2"`, h.Get("If-Match"))
		require.Equal(t, "fresh-key", h.Get("Idempotency-Key"))
		require.Equal(t, "ann", h.Get("X-Operator"))
		require.Equal(t, "application/json", h.Get("Content-Type"))
		require.Equal(t, "order-42: cancel is Applied, AwaitingPayment → Compensating, version 3: cancelled\n    journalled as operator:fresh-key\n", d.out.String())
		require.Empty(t, d.err.String())
	}
}

func TestWhatIsTypedBecomesTheRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, asked, body string }{
		{"orders list -status Completed,Cancelled -prefix a+b -stuck -top 7 -continue TOKEN",
			"GET /api/orders?continuationToken=TOKEN&idPrefix=a%2Bb&status=Completed%2CCancelled&stuck=true&top=7", ""},
		{"orders list -created-from 2026-07-19T10:00:00+02:00 -updated-to 2026-07-20T10:00:00Z -blocked -o csv",
			"GET /api/orders?blocked=true&createdTimeFrom=2026-07-19T10%3A00%3A00%2B02%3A00&format=csv&lastUpdatedTimeTo=2026-07-20T10%3A00%3A00Z", ""},
		{"orders show -- -odd", "GET /api/orders/-odd", ""},
		{"orders history -- -odd -o csv", "GET /api/orders/-odd/history?format=csv", ""},
		{"orders show a/b?c#d", "GET /api/orders/a%2Fb%3Fc%23d", ""},
		{"orders history o -o ndjson", "GET /api/orders/o/history?format=ndjson", ""},
		{"orders retry o -reason r -actor bob", "POST /api/orders/o/retry", `{"reason":"r"}`},
		{"orders retry o -reason r -message m-1", "POST /api/orders/o/retry", `{"reason":"r","messageId":"m-1"}`},
		{"orders skip o -reason r -message m-1", "POST /api/orders/o/skip", `{"reason":"r","messageId":"m-1"}`},
		{"orders resolve o -reason <r> -to completed -version 9", "POST /api/orders/o/resolve", `{"reason":"<r>","to":"completed"}`},
		{"orders send-again o -reason r -command o:ship-order:1", "POST /api/orders/o/send-again", `{"reason":"r","commandId":"o:ship-order:1"}`},
		{"orders discard o -reason r -command o:ship-order:1", "POST /api/orders/o/discard", `{"reason":"r","commandId":"o:ship-order:1"}`},
		{"orders fire-deadline o -reason r", "POST /api/orders/o/fire-deadline", `{"reason":"r"}`},
		{"orders fire-deadline o -reason r -deadline o:payment-timeout:1", "POST /api/orders/o/fire-deadline", `{"reason":"r","deadlineId":"o:payment-timeout:1"}`},
		{"outbox list -state dead", "GET /api/operations/outbox?state=dead", ""},
		{"outbox resend o:ship-order:1 -reason r", "POST /api/orders/o/send-again", `{"reason":"r","commandId":"o:ship-order:1"}`},
		{"outbox discard o:ship-order:1 -reason r", "POST /api/orders/o/discard", `{"reason":"r","commandId":"o:ship-order:1"}`},
		{"held list -kind early", "GET /api/operations/held?kind=early", ""},
		{"held list -kind rejected -top 3", "GET /api/operations/rejected?top=3", ""},
		{"held resubmit abc -reason r", "POST /api/operations/rejected/abc/resubmit", `{"reason":"r"}`},
		{"rejected discard abc -reason r", "POST /api/operations/rejected/abc/discard", `{"reason":"r"}`},
		{"rejected list -all", "GET /api/operations/rejected?top=1000", ""},
		{"rejected list -all -top 5", "GET /api/operations/rejected?top=5", ""},
		{"dead-letters list -subscription order-placed -all", "GET /api/operations/dead-letters?subscription=order-placed&top=1000", ""},
		{"dead-letters redrive -reason r -order o -top 7", "POST /api/operations/dead-letters/redrive", `{"reason":"r","orderId":"o","top":"7"}`},
		{"deadlines list -state sent", "GET /api/operations/deadlines?state=sent", ""},
		{"stuck -prefix shop-", "GET /api/operations/stuck?idPrefix=shop-", ""},
		{"health live", "GET /api/health/live", ""},
		{"health", "GET /api/health/ready", ""},
	} {
		d := sit(always(200, "image/png", "no matter"))
		d.run(t, strings.Fields(c.line)...)
		require.Equal(t, []string{c.asked}, d.asked, c.line)
		if c.body == "" {
			require.Empty(t, d.bodies[0], c.line)
		} else {
			require.JSONEq(t, c.body, d.bodies[0], c.line)
		}
		if strings.Contains(c.line, "bob") {
			require.Equal(t, "bob", d.headers[0].Get("X-Operator"))
		}
	}
}

func TestAMistakeInTheCommandSaysWhatIsRightAndNothingIsAsked(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte(" \n"), 0o600))
	for _, c := range []struct{ line, says string }{
		{"orders", "handler orders cancel ORDER"},
		{"orders lst", "did you mean list?"},
		{"orders -o json list", "flags stand behind the whole command"},
		{"orders show", "handler orders show ORDER"},
		{"orders show a b", "handler orders show ORDER"},
		{"orders show ..", "handler orders show ORDER"},
		{"orders show .", "handler orders show ORDER"},
		{"orders show ", "handler orders show ORDER"},
		{"outbox resend :ship-order:1 -reason r", "which begins with its order"},
		{"outbox discard ..:ship-order:1 -reason r", "which begins with its order"},
		{"orders list order-42", `takes no argument "order-42"`},
		{"orders list -o yaml", "table, json, csv, ndjson"},
		{"orders show o -o csv", "table, json"},
		{"orders diagram o -o json", "text"},
		{"orders list -top 1001", "-top must be from 1 to 1000"},
		{"orders list -top -1", "-top must be from 1 to 1000"},
		{"orders list -nonsense", "-nonsense"},
		{"orders list -key secret", "others can read a key in a command line"},
		{"orders list -key=secret", "ORDERFLOW_KEY"},
		{"summary -top 3", "-top"},
		{"orders list -top 0", "1 to 1000"},
		{"summary -timeout 0s", "-timeout must be positive"},
		{"orders cancel o", "-reason is missing"},
		{"orders cancel o -reason", "needs an argument: -reason"},
		{"orders skip o -reason r", "-message is missing"},
		{"orders resolve o -reason r", "-to is missing: how it ends: completed|cancelled"},
		{"orders discard o -reason r", "-command is missing"},
		{"orders cancel o -reason r -version two", "-version must be a number"},
		{"orders cancel o -reason r -version -1", "-version must be a number"},
		{"orders cancel o -reason r -actor a\x1bb", "-actor must be printable"},
		{"orders cancel o -reason r -if-match \"a\x1b\"", "-if-match must be printable"},
		{"orders cancel o -reason r -idempotency-key a\x00", "-idempotency-key must be printable"},
		{"rejected discard x -reason r -version 3", "-version"},
		{"summary -url app.example", "begins with https://"},
		{"summary -url ftp://app.example", "begins with https://"},
		{"summary -url https://app.example?code=secret", "ORDERFLOW_KEY"},
		{"summary -url https://u:secret@app.example", "ORDERFLOW_KEY"},
		{"summary -url https://app.example -settings x", "name one"},
		{"dead-letters redrive -reason r -url=", "asked of an app"},
		{"summary -url= -key-file x", "-key-file is for an app"},
		{"summary -key-file /nowhere/key", "-key-file"},
		{"summary -key-file " + empty, "there is no key in it"},
	} {
		d := sit(always(200, asJSON, "{}"))
		line := strings.Split(c.line, " ")
		require.Equal(t, exitUsage, d.run(t, line...), c.line)
		require.Contains(t, d.err.String(), c.says, c.line)
		require.NotContains(t, d.err.String(), "secret")
		require.NotContains(t, d.err.String(), "\x1b")
		require.Empty(t, d.asked, c.line)
		require.Empty(t, d.out.String(), c.line)
	}
	d := sit(always(200, asJSON, "{}"))
	require.Equal(t, exitUsage, d.run(t, "orders", "cancel", "o", "-reason", "  "))
}

func TestHelpIsNoMistakeAndComesOfTheTable(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"orders -h": "handler orders fire-deadline ORDER", "orders help": "handler orders show ORDER",
		"orders cancel -h": "-idempotency-key KEY", "stuck --help": "-fail", "held list -h": "-kind all|early|blocked",
	} {
		d := sit(always(200, asJSON, "{}"))
		require.Zero(t, d.run(t, strings.Fields(line)...), line)
		require.Contains(t, d.out.String(), says, line)
		require.Empty(t, d.err.String(), line)
		require.Empty(t, d.asked)
	}
	all := Usage()
	for _, v := range verbs() {
		require.Contains(t, all, "  handler "+v.String())
		require.True(t, Knows(v.group))
	}
	require.False(t, Knows("serve"))
	require.Equal(t, "; did you mean orders?", Nearest("order", Words()))
	require.Equal(t, "; did you mean outbox?", Nearest("outbxo", Words()))
	require.Empty(t, Nearest("zebra", Words()))
}

func TestEachAnswerHasItsExitCode(t *testing.T) {
	t.Parallel()
	problem := func(more string) string { return `{"detail":"what is wrong","remedy":"what to do"` + more + `}` }
	allowed := `,"version":7,"allowed":[{"action":"retry","messageId":"m 1"},{"action":"resolve","to":"cancelled"},{"action":"terminate"}]`
	for _, c := range []struct {
		name   string
		answer *http.Response
		code   int
		says   []string
	}{
		{"accepted", reply(202, asJSON, cancelled), exitDone, nil},
		{"repeated", reply(200, asJSON, strings.Replace(cancelled, "false", "true", 1)), exitDone, nil},
		{"a wrong value", reply(400, asProblem, problem("")), exitUsage, []string{"what is wrong", "what to do"}},
		{"a version is needed", reply(428, asProblem, problem("")), exitUsage, []string{"-version is missing", "`handler orders show order-42`", "add -version"}},
		{"not there", reply(404, asProblem, problem("")), exitNotFound, []string{"what is wrong", "what to do"}},
		{"not possible", reply(409, asProblem, problem(allowed)), exitRefused, []string{
			"possible at version 7", "  handler orders retry order-42 -message 'm 1' -version 7 -reason",
			"  handler orders resolve order-42 -to cancelled -version 7 -reason", "  terminate"}},
		{"moved on", reply(412, asProblem, problem(allowed)), exitRefused, []string{"possible at version 7"}},
		{"not possible, and nothing else is", reply(409, asProblem, problem(`,"version":7`)), exitRefused, []string{"what to do"}},
		{"read-only", reply(403, asProblem, problem("")), exitNotAllowed, []string{"what is wrong"}},
		{"the host knows no such key", reply(401, "", ""), exitNotAllowed, []string{"order-actions", "ORDERFLOW_KEY"}},
		{"something is wrong there", reply(500, asProblem, problem("")), exitFailed, []string{"what is wrong", "-idempotency-key fresh-key"}},
		{"another site", reply(404, "text/html", "<h1>Not here"), exitFailed, []string{"does not answer as Orderflow does: 404 Not Found"}},
		{"another site that fails", reply(500, "text/html", "<h1>Oh"), exitFailed, []string{"500", "-idempotency-key fresh-key"}},
		{"a page for people", reply(200, "text/html", "<h1>Hi"), exitFailed, []string{"text/html and not application/json", "-idempotency-key fresh-key"}},
		{"it leads elsewhere", reply(307, "", "", "Location", "https://evil.example/"), exitFailed, []string{"leads to https://evil.example/"}},
		{"no JSON", reply(200, asJSON, `{"orderId":`), exitFailed, []string{"not one of Orderflow's", "-idempotency-key fresh-key"}},
		{"other JSON", reply(200, asJSON, `{"items":[]}`), exitFailed, []string{"not one of Orderflow's"}},
		{"a problem that is none", reply(409, asProblem, `[]`), exitFailed, []string{"409"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := sit(func(*http.Request) (*http.Response, error) { return c.answer, nil })
			require.Equal(t, c.code, d.run(t, "orders", "cancel", "order-42", "-reason", "r"), &d.err)
			require.Len(t, d.asked, 1, "it is not asked again")
			for _, says := range c.says {
				require.Contains(t, d.err.String(), says)
			}
			if c.code != exitDone {
				require.Empty(t, d.out.String())
			}
			if c.code != exitFailed || c.answer.StatusCode == 404 {
				require.NotContains(t, d.err.String(), "cannot be told", "it was not done")
			}
		})
	}
	d := sit(always(200, asJSON, strings.Replace(cancelled, "false", "true", 1)))
	require.Zero(t, d.run(t, "orders", "cancel", "order-42", "-reason", "r"))
	require.Contains(t, d.out.String(), "decided before, and nothing was done now")
}

func TestWhatToTypeNamesTheSameAppAgain(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "a key")
	require.NoError(t, os.WriteFile(key, []byte("k"), 0o600))
	d := sit(always(409, asProblem, `{"detail":"no","version":1,"allowed":[{"action":"cancel"}]}`))
	require.Equal(t, exitRefused, d.run(t, "orders", "retry", "-reason", "r", "-url", app, "-key-file", key, "--", "-odd"))
	require.Contains(t, d.err.String(), "handler orders cancel -version 1 -key-file '"+key+"' -url "+app+" -reason '' -- -odd\n")

	direct := sit(nil)
	direct.Open = func(context.Context, string) (Database, error) {
		return Database{API: d, Close: func() error { return nil }}, nil
	}
	require.Equal(t, exitRefused, direct.run(t, "orders", "retry", "o", "-reason", "r", "-url="))
	require.Contains(t, direct.err.String(), "handler orders cancel o -version 1 -url '' -reason\n")
}

// full is a disk on which there is no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left") }

func TestWhatCannotBePrintedIsAFailure(t *testing.T) {
	t.Parallel()
	d := sit(always(200, "text/csv", "orderId\r\norder-42\r\n"))
	d.Out = full{}
	require.Equal(t, exitFailed, d.run(t, "orders", "list", "-o", "csv"))
	require.Contains(t, d.err.String(), "no space left")
}
