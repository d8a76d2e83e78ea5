package functions_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

var noon = time.Date(2026, 7, 19, 12, 0, 0, 0, time.UTC)

// ago is a clock that stands at noon, and what was so long before.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

func (w *world) atNoon() functions.App {
	a := w.app()
	a.Now = func() time.Time { return noon }
	return a
}

func pageOf[T any](next string, items ...T) workflow.Page[T] {
	return workflow.Page[T]{Items: items, Next: next}
}

func found(next string, items ...workflow.Listed) func(context.Context, workflow.Search) (workflow.Page[workflow.Listed], error) {
	return func(context.Context, workflow.Search) (workflow.Page[workflow.Listed], error) {
		return pageOf(next, items...), nil
	}
}

func listed(id string, status workflow.Status) workflow.Listed {
	return workflow.Listed{
		Order: workflow.Order{ID: id, Status: status, Version: 2, CustomerID: "Zoë"}, Revision: 3,
		CreatedAt: ago(2 * time.Hour), Since: ago(time.Hour), UpdatedAt: ago(time.Minute),
	}
}

func TestOrdersAreListedAsJSONWithWhatMakesThemStuckInWords(t *testing.T) {
	t.Parallel()
	stuck := listed("order-2", workflow.AwaitingPayment)
	stuck.BlockedBy, stuck.Order.Armed, stuck.DeadlineAt = "m-7", "order-2:payment-timeout:1", ago(2*time.Minute)
	stuck.Order.Problem = "order-2:capture-payment:1 could not be sent: <gone> & away"
	w := world{}
	w.find = found("", listed("order-1", workflow.Completed), stuck)
	answer := ask(t, w.atNoon(), http.MethodGet, "/api/orders", "")
	require.Equal(t, 200, answer.Code)
	require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	require.Equal(t, "private, no-cache", answer.Header().Get("Cache-Control"))
	require.Empty(t, answer.Header().Get("Link"))
	require.JSONEq(t, `{"items": [
		{"orderId": "order-1", "status": "Completed", "version": 2, "revision": 3, "createdAt": "2026-07-19T10:00:00Z",
		 "since": "2026-07-19T11:00:00Z", "updatedAt": "2026-07-19T11:59:00Z", "deadlineAt": null, "blockedBy": "", "problem": "", "stuck": []},
		{"orderId": "order-2", "status": "AwaitingPayment", "version": 2, "revision": 3, "createdAt": "2026-07-19T10:00:00Z",
		 "since": "2026-07-19T11:00:00Z", "updatedAt": "2026-07-19T11:59:00Z", "deadlineAt": "2026-07-19T11:58:00Z", "blockedBy": "m-7",
		 "problem": "order-2:capture-payment:1 could not be sent: <gone> & away", "stuck": [
			"message m-7 could not be handled and blocks it",
			"its deadline order-2:payment-timeout:1 passed more than 1m ago and has had no effect"]}
	], "continuationToken": null, "next": null}`, answer.Body.String())
	require.NotContains(t, answer.Body.String(), "Zoë", "a list tells nothing of customers")
	require.Contains(t, answer.Body.String(), "<gone> & away", "it is read by people")
}

func TestAnEmptyListIsAListInEveryForm(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/orders":                            `{"items":[],"continuationToken":null,"next":null}`,
		"/api/orders?format=ndjson":              "",
		"/api/operations/stuck":                  `{"items":[],"continuationToken":null,"next":null}`,
		"/api/operations/outbox?format=csv":      "orderId,id,type,state,attempts,refusals,deaths,nextAttemptAt,sentAt,closedAt,lastError\r\n",
		"/api/operations/deadlines?format=csv":   "orderId,id,type,purpose,dueAt,state,attempts,refusals,deaths,nextAttemptAt,sentAt,closedAt,lastError\r\n",
		"/api/operations/held?kind=early":        `{"items":[],"continuationToken":null,"next":null}`,
		"/api/operations/rejected?format=ndjson": "",
	} {
		var w world
		answer := w.get(t, path)
		require.Equal(t, 200, answer.Code)
		require.Equal(t, want, answer.Body.String(), path)
	}
}

func TestAListInLinesHasOneObjectInEachLine(t *testing.T) {
	t.Parallel()
	w := world{}
	w.find = found("", listed("order-1", workflow.Completed), listed("order-2", workflow.Cancelled))
	answer := w.get(t, "/api/orders?format=ndjson")
	require.Equal(t, "application/x-ndjson", answer.Header().Get("Content-Type"))
	lines := strings.Split(strings.TrimSuffix(answer.Body.String(), "\n"), "\n")
	require.Len(t, lines, 2)
	for i, line := range lines {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		require.Equal(t, fmt.Sprintf("order-%d", i+1), o["orderId"])
		require.Len(t, o, 11)
	}
}

func TestAListInCSVIsOneThatSpreadsheetsReadAndTakeNothingInItForAFormula(t *testing.T) {
	t.Parallel()
	w := world{story: storyOf(workflow.Story{Journal: []workflow.Entry{
		{At: noon, MessageID: `=cmd|'/c calc'!A1`, Reason: `she said "no", twice`, Emitted: []string{"a", "b"}, Version: -1},
		{MessageID: "+1", Type: "-2", ParentID: "@SUM(A1)", Reason: "\tx", Outcome: "\rx"},
		{MessageID: " =1", Type: "＝1", ParentID: "\ufeff=1", Reason: "a\r\nb", Outcome: "\x00", From: "\u00a0@x", Said: "=2"},
		{MessageID: "plain", Reason: "a = b - c"},
	}})}
	answer := w.get(t, "/api/orders/order-42/history?format=csv")
	require.Equal(t, "text/csv; charset=utf-8; header=present", answer.Header().Get("Content-Type"))
	text := answer.Body.String()
	require.True(t, strings.HasPrefix(text, "at,messageId,type,parentId,outcome,reason,from,to,version,emitted,function,actor,said\r\n"))
	require.True(t, strings.HasSuffix(text, "\r\n"))
	require.Equal(t, strings.Count(text, "\n"), strings.Count(text, "\r\n"), "every line ends as RFC 4180 has it")
	require.Contains(t, text, `"she said ""no"", twice"`)
	require.Contains(t, text, "\"a\r\nb\"")
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.Equal(t, []string{"2026-07-19T12:00:00Z", `'=cmd|'/c calc'!A1`, "", "", "", `she said "no", twice`, "", "", "'-1", "a; b", "", "", ""}, rows[1])
	require.Equal(t, []string{"", "'+1", "'-2", "'@SUM(A1)", "'\rx", "'\tx", "", "", "0", "", "", "", ""}, rows[2])
	require.Equal(t, []string{"", "' =1", "'＝1", "'\ufeff=1", "'\x00", "a\nb", "'\u00a0@x", "", "0", "", "", "", "'=2"}, rows[3])
	require.Equal(t, "a = b - c", rows[4][5])
}

func TestAListGoesOnWhereItEndedWithTheSameFiltersOnly(t *testing.T) {
	t.Parallel()
	w := world{}
	w.find = found("cursor/7=")
	answer := w.get(t, "/api/orders?status=Completed&top=1&format=csv")
	link := answer.Header().Get("Link")
	require.Regexp(t, `^</api/orders\?.+>; rel="next"$`, link)

	first := object(t, w.get(t, "/api/orders?status=Completed&top=1"))
	token := first["continuationToken"].(string)
	next := first["next"].(string)
	parsed, err := url.Parse(next)
	require.NoError(t, err)
	require.Equal(t, "/api/orders", parsed.Path)
	require.Equal(t, url.Values{"status": {"Completed"}, "top": {"1"}, "continuationToken": {token}}, parsed.Query())

	w.find = found("")
	require.Nil(t, object(t, w.get(t, next))["next"])
	require.Equal(t, "cursor/7=", w.searches[len(w.searches)-1].After)
	require.Equal(t, 200, w.get(t, "/api/orders?status=Completed&top=7&format=ndjson&continuationToken="+token).Code, "how much and in which form may change")

	asked := len(w.searches)
	for _, path := range []string{
		"/api/orders?status=Cancelled&continuationToken=" + token,
		"/api/orders?continuationToken=" + token,
		"/api/operations/stuck?status=Completed&continuationToken=" + token,
		"/api/orders?status=Completed&continuationToken=" + token[1:],
		"/api/orders?status=Completed&continuationToken=%25%25",
		"/api/orders?status=Completed&continuationToken=" + token[:10],
	} {
		require.Contains(t, aProblem(t, 400, w.get(t, path)), "continuationToken")
	}
	require.Len(t, w.searches, asked)
}

func TestEveryFilterReachesTheSearch(t *testing.T) {
	t.Parallel()
	var w world
	require.Equal(t, 200, w.get(t, "/api/orders?status=Completed,%20Cancelled,Completed&idPrefix=order-4&blocked=true&top=1000&stuck=false"+
		"&createdTimeFrom=2026-07-19T10:00:00Z&createdTimeTo=2026-07-19T12:00:00%2B01:00"+
		"&lastUpdatedTimeFrom=2026-07-19T10:00:00.5Z&lastUpdatedTimeTo=2026-07-19T12:00:00+01:00").Code)
	hour := noon.Add(-time.Hour)
	require.Equal(t, []workflow.Search{{
		Statuses: []workflow.Status{workflow.Completed, workflow.Cancelled}, Prefix: "order-4", Blocked: true, Top: 1000,
		CreatedFrom: ago(2 * time.Hour), CreatedTo: hour, UpdatedFrom: ago(2 * time.Hour).Add(500 * time.Millisecond), UpdatedTo: hour,
	}}, w.searches)

	w.searches = nil
	require.Equal(t, 200, w.get(t, "/api/orders?status=cancelled,needsAttention,Cancelled").Code)
	require.Equal(t, []workflow.Status{workflow.Cancelled, workflow.NeedsAttention}, w.searches[0].Statuses, "whatever its case")

	w.searches = nil
	require.Equal(t, 200, w.get(t, "/api/orders?status=&idPrefix=&top=").Code, "a filter without a value is none")
	require.Equal(t, []workflow.Search{{Top: 50}}, w.searches)
}

func TestAFilterThatIsWrongIsNamedAndSaysWhatItMayBe(t *testing.T) {
	t.Parallel()
	const inject = `';DROP TABLE orders--`
	for query, want := range map[string]string{
		"status=complete":                      "NotStarted, AwaitingInventory",
		"status=Completed,":                    "NeedsAttention",
		"status=BackOut":                       "Cancelled",
		"status=" + url.QueryEscape(inject):    "Completed",
		"idPrefix=" + url.QueryEscape(inject):  "letters, digits",
		"idPrefix=order%25":                    "letters, digits",
		"idPrefix=" + strings.Repeat("x", 97):  "1 to 96",
		"top=0":                                "1 to 1000",
		"top=1001":                             "1 to 1000",
		"top=-1":                               "1 to 1000",
		"top=1e2":                              "1 to 1000",
		"top=99999999999999999999":             "1 to 1000",
		"stuck=yes":                            "false, true",
		"blocked=1":                            "false, true",
		"format=xml":                           "json, csv, ndjson",
		"createdTimeFrom=yesterday":            "RFC 3339",
		"createdTimeTo=2026-07-19":             "RFC 3339",
		"lastUpdatedTimeFrom=2026-07-19T10:00": "RFC 3339",
		"lastUpdatedTimeTo=1752919200":         "RFC 3339",
		"continuationToken=" + "%F0%9F%98%80":  "same filters",
		"createdTimeFrom=2026-07-19T10:00:00Z&createdTimeTo=2026-07-19T10:00:00Z":                "after createdTimeFrom",
		"lastUpdatedTimeFrom=2026-07-19T10:00:00Z&lastUpdatedTimeTo=2026-07-19T09:00:00%2B00:00": "after lastUpdatedTimeFrom",
		"createdTimeFrom=9999-12-31T23:59:59-00:01":                                              "RFC 3339", // it is another year in UTC
		"createdTimeFrom=0001-01-01T00:00:00%2B00:01":                                            "RFC 3339",
	} {
		var w world
		p := problemOf(t, 400, w.get(t, "/api/orders?"+query))
		name, _, _ := strings.Cut(query, "=")
		if strings.HasPrefix(want, "after") {
			name = strings.Replace(strings.TrimPrefix(want, "after "), "From", "To", 1)
		}
		require.Contains(t, p["detail"], "the parameter "+name+" ", query)
		require.Contains(t, p["remedy"], want, query)
		require.Empty(t, w.searches, query)
		require.NotContains(t, w.log.String(), "DROP")
	}
	for path, want := range map[string]string{
		"/api/operations/outbox?state=closed":                "waiting, dead, sent, recall",
		"/api/operations/deadlines?state=dead":               "waiting, sent, recall",
		"/api/operations/held?kind=Held":                     "all, early, blocked",
		"/api/operations/rejected?top=x":                     "1 to 1000",
		"/api/orders/order-42/history?format=pdf":            "json, csv, ndjson",
		"/api/operations/stuck?format=html":                  "json, csv, ndjson",
		"/api/operations/stuck?status=x":                     "NeedsAttention",
		"/api/operations/rejected?continuationToken=AAAAAAA": "same filters",
	} {
		var w world
		require.Contains(t, problemOf(t, 400, w.get(t, path))["remedy"], want, path)
	}
}

func TestStuckOrdersAreLookedForPageByPageAndNeverMoreToldThanAskedFor(t *testing.T) {
	t.Parallel()
	well, ill := listed("well", workflow.AwaitingPayment), listed("ill", workflow.NeedsAttention)
	all := slices.Repeat([]workflow.Listed{well}, 2500)
	for _, at := range []int{1, 700, 1200, 1201, 1202, 2400} {
		all[at] = ill
		all[at].Order.ID = strconv.Itoa(at)
	}
	w := world{}
	w.find = func(_ context.Context, s workflow.Search) (page workflow.Page[workflow.Listed], err error) {
		begin, _ := strconv.Atoi(s.After)
		end := min(begin+s.Top, len(all))
		if page.Items = all[begin:end]; end < len(all) {
			page.Next = strconv.Itoa(end)
		}
		return page, nil
	}
	pages := func(path string) (told []string) {
		for path != "" {
			got := object(t, ask(t, w.atNoon(), http.MethodGet, path, ""))
			var ids []string
			for _, item := range got["items"].([]any) {
				ids = append(ids, item.(map[string]any)["orderId"].(string))
			}
			told = append(told, strings.Join(ids, " "))
			path, _ = got["next"].(string)
		}
		return told
	}
	require.Equal(t, []string{"1 700 1200 1201 1202 2400"}, pages("/api/operations/stuck"))
	require.Equal(t, []int{50, 1000, 1000, 1000}, tops(w.searches), "many are looked at, however few are asked for")
	w.searches = nil
	ask(t, w.atNoon(), http.MethodGet, "/api/operations/stuck?top=1", "")
	require.Equal(t, []int{1, 1000, 1}, tops(w.searches), "and no more once so many are found")
	require.Equal(t, []string{"1 700 1200 1201", "1202 2400"}, pages("/api/orders?stuck=true&top=4"), "none twice, and none left out")
	require.Equal(t, []string{"1", "700", "1200", "1201", "1202", "2400", ""}, pages("/api/orders?stuck=true&top=1"))
	for _, s := range w.searches {
		require.True(t, s.Oldest, "those that nothing happens to are the likeliest")
		require.NotContains(t, s.Statuses, workflow.Completed)
		require.Contains(t, s.Statuses, workflow.NeedsAttention)
		require.Contains(t, s.Statuses, workflow.NotStarted)
	}

	w.searches = nil
	require.Equal(t, 200, w.get(t, "/api/orders?stuck=true&status=Completed").Code)
	require.Equal(t, []workflow.Status{workflow.Completed}, w.searches[0].Statuses)
}

func tops(searches []workflow.Search) (all []int) {
	for _, s := range searches {
		all = append(all, s.Top)
	}
	return all
}

func TestALookForStuckOrdersEndsThoughNoneIsFound(t *testing.T) {
	t.Parallel()
	w := world{}
	w.find = found("more", listed("well", workflow.AwaitingPayment))
	got := object(t, ask(t, w.atNoon(), http.MethodGet, "/api/operations/stuck", ""))
	require.Empty(t, got["items"])
	require.NotNil(t, got["next"], "it is not the end")
	require.Len(t, w.searches, 10)
}

func TestATokenThatTheSourceDoesNotKnowIsTheCallersMistake(t *testing.T) {
	t.Parallel()
	w := world{}
	w.find = found("more")
	next := object(t, w.get(t, "/api/orders"))["next"].(string)
	w.find = func(context.Context, workflow.Search) (workflow.Page[workflow.Listed], error) {
		return workflow.Page[workflow.Listed]{}, fmt.Errorf("list orders: %w", workflow.ErrBadInput)
	}
	require.Contains(t, aProblem(t, 400, w.get(t, next)), "continuationToken")
}

func TestAListThatCannotBeReadMayBeAskedForAgainAndTellsNoSecrets(t *testing.T) {
	t.Parallel()
	away := errors.New("sqlserver://sa:s3cret@db: away")
	w := world{story: func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, away }}
	w.find = func(context.Context, workflow.Search) (workflow.Page[workflow.Listed], error) {
		return workflow.Page[workflow.Listed]{}, away
	}
	w.summary = func(context.Context) (workflow.Summary, error) { return workflow.Summary{}, away }
	w.dispatches = func(string, bool, int, string) (workflow.Page[workflow.DispatchAt], error) {
		return workflow.Page[workflow.DispatchAt]{}, away
	}
	w.kept = func(workflow.Outcome, int, string) (workflow.Page[workflow.Kept], error) {
		return workflow.Page[workflow.Kept]{}, away
	}
	w.office.rejections = func(int, string) (workflow.Page[workflow.Refused], error) {
		return workflow.Page[workflow.Refused]{}, away
	}
	w.rejection = func(string) (workflow.Refused, error) { return workflow.Refused{}, away }
	for _, e := range functions.Endpoints() {
		if e.Method != http.MethodGet || e.Function == "health" || e.Function == "ops" || e.Path == "operations/process" {
			continue
		}
		answer := w.get(t, "/api/"+strings.ReplaceAll(e.Path, "{id}", "order-42"))
		aProblem(t, 503, answer)
		require.Equal(t, "5", answer.Header().Get("Retry-After"))
		require.NotContains(t, answer.Body.String(), "s3cret")
	}
}
