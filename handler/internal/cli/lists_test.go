package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// longList is an app with a list of so many orders. Before the orders there are
// pages without any.
func longList(orders, empty int) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		top, from := 50, 0
		_, _ = fmt.Sscan(r.URL.Query().Get("top"), &top)
		_, _ = fmt.Sscan(r.URL.Query().Get("continuationToken"), &from)
		var of []string
		next := from + 1 // tokens count pages that are empty, then orders
		if from >= empty {
			for next = from; next < empty+orders && next < from+top; next++ {
				of = append(of, fmt.Sprintf("order-%d", next-empty))
			}
		}
		var headers []string
		if next < empty+orders {
			headers = []string{"Link", fmt.Sprintf(`</api/orders?continuationToken=0>; rel="prev", <https://evil.example/api/orders?continuationToken=%d>; rel="next"`, next)}
		}
		var b strings.Builder
		switch r.URL.Query().Get("format") {
		case "csv":
			b.WriteString("orderId\r\n")
			for _, id := range of {
				b.WriteString(id + "\r\n")
			}
			return reply(200, "text/csv; charset=utf-8; header=present", b.String(), headers...), nil
		case "ndjson":
			for _, id := range of {
				fmt.Fprintf(&b, "{\"orderId\":%q}\n", id)
			}
			return reply(200, "application/x-ndjson", b.String(), headers...), nil
		}
		for i, id := range of {
			fmt.Fprintf(&b, "%s{\"orderId\":%q,\"status\":\"Completed\",\"version\":4}", ","[:min(i, 1)], id)
		}
		return reply(200, asJSON, `{"items":[`+b.String()+`],"next":"x"}`, headers...), nil
	}
}

func TestAListIsOnePageAndAHintOrAllOfThem(t *testing.T) {
	t.Parallel()
	d := sit(longList(2500, 0))
	both := &d.out
	d.Err = both
	require.Zero(t, d.run(t, "orders", "list", "-top", "2"))
	require.True(t, strings.HasSuffix(both.String(), "-continue 2\n"), "on a terminal the hint is the last line: %s", both)
	d.Err = &d.err
	require.Zero(t, d.run(t, "orders", "list", "-top", "2"))
	require.Equal(t, "ORDER    STATUS     VERSION  SINCE  DEADLINE\norder-0  Completed  4        -      -\norder-1  Completed  4        -      -\n", d.out.String())
	require.Equal(t, "orderflow: there is more: add -all, or -continue 2\n", d.err.String())
	require.Zero(t, d.run(t, "orders", "list", "-top", "2", "-continue", "2498"))
	require.Contains(t, d.out.String(), "order-2499")
	require.Empty(t, d.err.String(), "it was the last")

	for form, lines := range map[string]int{"table": 2501, "csv": 2501, "ndjson": 2500, "json": 1} {
		d := sit(longList(2500, 3))
		require.Zero(t, d.run(t, "orders", "list", "-all", "-o", form), &d.err)
		require.Len(t, d.asked, 6, "three empty pages, and three of a thousand")
		require.Empty(t, d.err.String())
		require.Equal(t, lines, strings.Count(d.out.String(), "\n"), form)
		if form != "json" {
			continue
		}
		var whole struct {
			Items []struct{ OrderID string }
			Next  *string
		}
		require.NoError(t, json.Unmarshal(d.out.Bytes(), &whole))
		require.Len(t, whole.Items, 2500)
		require.Equal(t, "order-2499", whole.Items[2499].OrderID)
		require.Nil(t, whole.Next)
	}
	for _, asked := range d.asked {
		require.True(t, strings.HasPrefix(asked, "GET /api/orders"), "the address in the answer is not followed")
	}
}

func TestOnePageInAnotherFormIsWhatTheAPISaid(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"json": `{"items":[{"orderId":"order-0","status":"Completed","version":4}],"next":"x"}` + "\n",
		"csv":  "orderId\r\norder-0\r\n", "ndjson": "{\"orderId\":\"order-0\"}\n",
	} {
		d := sit(longList(9, 0))
		require.Zero(t, d.run(t, "orders", "list", "-top", "1", "-o", form))
		require.Equal(t, want, d.out.String())
	}
}

func TestWithFailAListThatHasAnythingIsExitCodeSix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ orders, empty, code int }{{0, 0, exitDone}, {0, 1, exitDone}, {1, 0, exitFound}, {3, 4, exitFound}} {
		for _, form := range []string{"table", "json", "csv", "ndjson"} {
			d := sit(longList(c.orders, c.empty))
			require.Equal(t, c.code, d.run(t, "stuck", "-fail", "-o", form), "%+v %s", c, form)
			require.Zero(t, d.run(t, "stuck", "-o", form))
		}
	}
	d := sit(longList(0, 0))
	require.Zero(t, d.run(t, "stuck"))
	require.Equal(t, "orderflow: there are none\n", d.err.String())
	require.Empty(t, d.out.String())
	d = sit(longList(1, 1))
	require.Zero(t, d.run(t, "stuck"))
	require.Equal(t, "orderflow: there is more: add -all, or -continue 1\n", d.err.String(), "an empty page is not the last")

	history := sit(always(200, asJSON, `{"items":[{"messageId":"m"}]}`))
	require.Equal(t, exitFound, history.run(t, "orders", "history", "o", "-fail", "-o", "json"))
	require.True(t, strings.HasPrefix(history.out.String(), `{"items":[{"messageId":"m"}]}`), "as the API says it: %s", &history.out)
	require.Equal(t, 1, strings.Count(history.out.String(), "}]}"))
	require.Equal(t, []string{"GET /api/orders/o/history?format=json"}, history.asked, "it has no pages")
}

func TestAListThatBreaksOffIsNeverTakenForAWholeOne(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*http.Request) (*http.Response, error){
		"it fails":            always(400, asProblem, `{"detail":"the token is too old"}`),
		"it is another":       always(200, "text/html", "<h1>"),
		"it is broken":        always(200, asJSON, `{"items":[{"orderId"`),
		"it has no items":     always(200, asJSON, `{}`),
		"it goes on in place": always(200, asJSON, `{"items":[]}`, "Link", `</api/orders?continuationToken=1>; rel="next"`),
	} {
		whole := longList(2, 0)
		d := sit(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("continuationToken") != "" {
				return then(r)
			}
			return whole(r)
		})
		require.NotZero(t, d.run(t, "orders", "list", "-all", "-top", "1", "-o", "json"), name)
		require.NotEmpty(t, d.err.String(), name)
		require.False(t, json.Valid(d.out.Bytes()), name)
	}
	d := sit(always(200, "text/csv", ""))
	require.Equal(t, exitFailed, d.run(t, "orders", "list", "-o", "csv"))
	d = sit(func(*http.Request) (*http.Response, error) {
		r := reply(200, asJSON, "")
		r.Body = http.MaxBytesReader(nil, r.Body, 0)
		r.Body = broken{}
		return r, nil
	})
	require.Equal(t, exitFailed, d.run(t, "health"))
	require.Contains(t, d.err.String(), "broke off")
}

// broken is a body that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
func (broken) Close() error             { return nil }
