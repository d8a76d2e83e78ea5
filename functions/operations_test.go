package functions_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

func TestTheSummaryCountsOrdersByStatusWhatIsNotDoneAndWhatIsStuck(t *testing.T) {
	t.Parallel()
	at := noon
	w := world{}
	w.summary = func(context.Context) (workflow.Summary, error) {
		return workflow.Summary{
			ByStatus: map[workflow.Status]int{workflow.Completed: 5, workflow.NeedsAttention: 2, "Newer": 1},
			Backlog:  workflow.Backlog{Waiting: 1, Lag: 1500 * time.Millisecond, Dead: 2, Blocked: 3, Early: 4, Overdue: 5}, ReadAt: at,
		}, nil
	}
	ill := listed("ill", workflow.NeedsAttention)
	ill.BlockedBy = "m-1"
	w.find = func(_ context.Context, s workflow.Search) (workflow.Page[workflow.Listed], error) {
		if s.After == "" {
			return pageOf("more", ill, listed("well", workflow.AwaitingPayment)), nil
		}
		return pageOf("", ill), nil
	}
	w.office.rejections = func(top int, after string) (workflow.Page[workflow.Refused], error) {
		require.Equal(t, 100, top)
		return workflow.Page[workflow.Refused]{Items: make([]workflow.Refused, 2), Next: "more"}, nil
	}
	answer := ask(t, w.atNoon(), http.MethodGet, "/api/operations/summary", "")
	require.JSONEq(t, `{
		"byStatus": {"NotStarted":0,"AwaitingInventory":0,"AwaitingPayment":0,"AwaitingShipment":0,"Compensating":0,"NeedsAttention":2,"Completed":5,"Cancelled":0,"Newer":1},
		"backlog": {"waiting":1,"lagMs":1500,"dead":2,"blocked":3,"early":4,"overdue":5},
		"stuck": {"attention":2,"blocked":2}, "stuckIsPartial": false, "readAt": "2026-07-19T12:00:00Z",
		"rejected": 2, "rejectedIsPartial": true, "deadLetters": null
	}`, answer.Body.String())
	tag := answer.Header().Get("ETag")
	at = at.Add(time.Hour)
	require.Equal(t, 304, ask(t, w.atNoon(), http.MethodGet, "/api/operations/summary", "", "If-None-Match", tag).Code, "that time has passed is no news")

	w.find = found("more", ill)
	w.searches = nil
	got := object(t, ask(t, w.atNoon(), http.MethodGet, "/api/operations/summary", ""))
	require.Equal(t, true, got["stuckIsPartial"])
	require.Len(t, w.searches, 5)
	require.True(t, w.searches[0].Oldest, "those are left out that are the least likely to be stuck")
}

func TestTheOutboxAndTheDeadlinesAreListedByState(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"outbox": "waiting commands", "outbox?state=waiting": "waiting commands", "outbox?state=dead": "dead commands",
		"outbox?state=sent": "sent commands", "outbox?state=recall": "recall deadlines",
		"deadlines": "waiting deadlines", "deadlines?state=sent": "sent deadlines", "deadlines?state=recall": "recall deadlines",
	} {
		var got string
		w := world{}
		w.dispatches = func(state string, deadlines bool, top int, after string) (workflow.Page[workflow.DispatchAt], error) {
			got = state + map[bool]string{false: " commands", true: " deadlines"}[deadlines]
			require.Equal(t, 50, top)
			require.Empty(t, after)
			return pageOf("", workflow.DispatchAt{OrderID: "order-42", Dispatch: workflow.Dispatch{
				Outgoing: workflow.Outgoing{ID: "order-42:capture-payment:1", Type: workflow.CapturePayment, Purpose: "p", DueAt: noon, Body: []byte("Zoë")},
				State:    state, Attempts: 3, Refusals: 2, Deaths: 1, NextAttemptAt: noon, LastError: "no such topic",
			}}), nil
		}
		answer := w.get(t, "/api/operations/"+query)
		require.Equal(t, want, got)
		item := object(t, answer)["items"].([]any)[0].(map[string]any)
		require.Equal(t, "order-42", item["orderId"])
		require.Equal(t, "no such topic", item["lastError"])
		if strings.HasPrefix(want, "waiting") {
			require.Equal(t, "2026-07-19T12:00:00Z", item["nextAttemptAt"])
		} else {
			require.Nil(t, item["nextAttemptAt"], "nothing will send it")
		}
		require.Equal(t, strings.HasSuffix(want, "deadlines"), item["dueAt"] != nil)
		require.NotContains(t, answer.Body.String(), "Zoë")
	}
}

func TestWhatIsHeldIsListedTheEarlyFirstThenTheLines(t *testing.T) {
	t.Parallel()
	early := workflow.Kept{OrderID: "order-1", Envelope: workflow.Envelope{ID: "m-1", Type: workflow.PaymentCaptured, Body: []byte(`{"x":"Zoë"}`)}, Size: 12, Outcome: workflow.Held, ReceivedAt: noon}
	line := workflow.Kept{OrderID: "order-2", Envelope: workflow.Envelope{ID: "m-2"}, Outcome: workflow.Blocked, Reason: "panic", Delivery: workflow.Delivery{Function: "f", Count: 8}}
	w := world{}
	w.kept = func(outcome workflow.Outcome, _ int, after string) (workflow.Page[workflow.Kept], error) {
		switch string(outcome) + after {
		case "Held":
			return pageOf("early:1", early), nil // whatever its tokens look like
		case "Heldearly:1":
			return pageOf("", early), nil
		case "Blocked":
			return pageOf("line:1", line), nil
		case "Blockedline:1":
			return pageOf("", line), nil
		}
		return workflow.Page[workflow.Kept]{}, nil
	}
	walk := func(path string) (ids []string) {
		for path != "" {
			answer := w.get(t, path)
			require.NotContains(t, answer.Body.String(), "Zoë")
			got := object(t, answer)
			for _, item := range got["items"].([]any) {
				ids = append(ids, item.(map[string]any)["messageId"].(string))
			}
			path, _ = got["next"].(string)
		}
		return ids
	}
	require.Equal(t, []string{"m-1", "m-1", "m-2", "m-2"}, walk("/api/operations/held"))
	require.Equal(t, []string{"m-1", "m-1"}, walk("/api/operations/held?kind=early"))
	require.Equal(t, []string{"m-2", "m-2"}, walk("/api/operations/held?kind=blocked"))
}

func TestAPageOfWhatWaitsIsFilledWithBothKinds(t *testing.T) {
	t.Parallel()
	all := map[workflow.Outcome][]string{workflow.Held: {"early-1", "early-2", "early-3"}, workflow.Blocked: {"line-1", "line-2", "line-3"}}
	w := world{}
	w.kept = func(outcome workflow.Outcome, top int, after string) (page workflow.Page[workflow.Kept], err error) {
		require.Positive(t, top)
		begin := 0
		if after != "" {
			begin = atoi(t, after)
		}
		end := min(begin+top, len(all[outcome]))
		for _, id := range all[outcome][begin:end] {
			page.Items = append(page.Items, workflow.Kept{Envelope: workflow.Envelope{ID: id}})
		}
		if end < len(all[outcome]) {
			page.Next = strconv.Itoa(end)
		}
		return page, nil
	}
	pages := func(top int) (ids []string) {
		for path := fmt.Sprintf("/api/operations/held?top=%d", top); path != ""; {
			got := object(t, w.get(t, path))
			page := []string{}
			for _, item := range got["items"].([]any) {
				page = append(page, item.(map[string]any)["messageId"].(string))
			}
			ids = append(ids, strings.Join(page, " "))
			path, _ = got["next"].(string)
		}
		return ids
	}
	require.Equal(t, []string{"early-1 early-2 early-3 line-1 line-2 line-3"}, pages(50))
	require.Equal(t, []string{"early-1 early-2 early-3 line-1 line-2 line-3"}, pages(6))
	require.Equal(t, []string{"early-1 early-2 early-3 line-1 line-2", "line-3"}, pages(5))
	require.Equal(t, []string{"early-1 early-2 early-3", "line-1 line-2 line-3"}, pages(3))
	require.Equal(t, []string{"early-1 early-2", "early-3 line-1", "line-2 line-3"}, pages(2))
	require.Equal(t, []string{"early-1", "early-2", "early-3", "line-1", "line-2", "line-3"}, pages(1))
	all[workflow.Held] = nil
	require.Equal(t, []string{"line-1 line-2 line-3"}, pages(50), "who asks what waits is not shown an empty page")
}

func TestTheProcessIsTold(t *testing.T) {
	t.Parallel()
	var w world
	got := object(t, w.get(t, "/api/operations/process"))["statuses"].([]any)
	require.Len(t, got, len(workflow.Table()))
	for i, row := range workflow.Table() {
		told := got[i].(map[string]any)
		require.Equal(t, string(row.Status), told["status"])
		require.Equal(t, row.Means, told["means"])
		require.Len(t, told["on"], len(row.On))
		require.Len(t, told["stale"], len(row.Stale))
		require.Len(t, told["early"], len(row.Early))
	}
}

func TestTheDiagramOfAnOrderMarksItsPlace(t *testing.T) {
	t.Parallel()
	w := about(paying())
	answer := w.get(t, "/api/orders/order-42/diagram")
	require.Equal(t, "text/plain; charset=utf-8", answer.Header().Get("Content-Type"))
	require.Equal(t, workflow.MermaidOf(paying().Order), answer.Body.String())
	require.Contains(t, answer.Body.String(), "class AwaitingPayment here")
}

func TestTheHistoryOfAnOrderIsItsJournal(t *testing.T) {
	t.Parallel()
	w := about(workflow.Story{Journal: []workflow.Entry{{At: noon, MessageID: "m-1", Outcome: workflow.Applied}, {MessageID: "m-2", Outcome: workflow.Stale}}})
	got := object(t, w.get(t, "/api/orders/order-42/history"))
	require.Len(t, got["items"], 2)
	require.Equal(t, "m-1", got["items"].([]any)[0].(map[string]any)["messageId"])
	require.Equal(t, []any{}, got["items"].([]any)[0].(map[string]any)["emitted"])
	require.Nil(t, got["next"])
}

func TestOneRequestAnswersWhyAnOrderIsStuckAndWhatCanBeDone(t *testing.T) {
	t.Parallel()
	s := stuckRefund()
	s.Since = ago(time.Hour)
	w := about(s)
	got := object(t, ask(t, w.atNoon(), http.MethodGet, "/api/orders/order-42", ""))
	require.Equal(t, "a person, about the money: retry, or resolve it to cancelled or completed", got["waitsFor"])
	require.Equal(t, []any{"it waits for a person, about the money: retry, or resolve it to cancelled or completed"}, got["stuck"])
	require.JSONEq(t, `[{"action":"retry"},{"action":"resolve","to":"cancelled"},{"action":"resolve","to":"completed"}]`, asJSON(got["allowed"]))
	require.Contains(t, asJSON(got["facts"]), "no luck")
}

func TestAReadSaysWhetherAnythingHasChanged(t *testing.T) {
	t.Parallel()
	for _, e := range functions.Endpoints() {
		if e.Method != http.MethodGet || e.Function == "health" {
			continue
		}
		path := "/api/" + strings.ReplaceAll(e.Path, "{id}", "0a1b")
		w := refusing(refused())
		w.story = storyOf(paying())
		if strings.HasSuffix(path, "dead-letters") { // which others count in the background: that is news, once
			w.pile = &pile{}
		}
		first := w.get(t, path)
		require.Equal(t, 200, first.Code, path)
		tag := first.Header().Get("ETag")
		require.Regexp(t, `^(W/)?"[0-9a-f-]+"$`, tag)
		require.Equal(t, "private, no-cache", first.Header().Get("Cache-Control"))
		for _, known := range []string{tag, `"x", ` + tag, "W/" + strings.TrimPrefix(tag, "W/"), "*"} {
			again := w.get(t, path, "If-None-Match", known)
			require.Equal(t, 304, again.Code, "%s %s", path, known)
			require.Empty(t, again.Body.Bytes())
			require.Equal(t, tag, again.Header().Get("ETag"))
			require.Equal(t, "private, no-cache", again.Header().Get("Cache-Control"))
			require.Empty(t, again.Header().Get("Content-Type"))
		}
		for _, other := range []string{`"x"`, strings.Trim(tag, `"`), `"` + tag} {
			require.Equal(t, 200, w.get(t, path, "If-None-Match", other).Code, "%s %s", path, other)
		}

		head := ask(t, w.app(), http.MethodHead, path, "")
		require.Equal(t, 200, head.Code)
		require.Empty(t, head.Body.Bytes())
		require.Equal(t, tag, head.Header().Get("ETag"))
		require.Equal(t, first.Header().Get("Content-Type"), head.Header().Get("Content-Type"))
		require.Equal(t, first.Body.Len(), atoi(t, head.Header().Get("Content-Length")))
		unchanged := ask(t, w.app(), http.MethodHead, path, "", "If-None-Match", tag)
		require.Equal(t, 304, unchanged.Code)
		require.Empty(t, unchanged.Header().Get("Content-Length"), "it would be that of the content")
	}
}

func TestWhatTheDispatcherDidToAnOrderChangesItsTagThoughItsVersionDoesNot(t *testing.T) {
	t.Parallel()
	s := paying()
	w := world{story: func(context.Context, string) (workflow.Story, error) { return s, nil }}
	tag := w.get(t, "/api/orders/order-42").Header().Get("ETag")
	require.True(t, strings.HasPrefix(tag, `"2-`))
	s.Outbox[1].Attempts++
	changed := w.get(t, "/api/orders/order-42", "If-None-Match", tag)
	require.Equal(t, 200, changed.Code)
	require.NotEqual(t, tag, changed.Header().Get("ETag"))
	require.True(t, strings.HasPrefix(changed.Header().Get("ETag"), `"2-`))
}
