package functions_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// sketch draws what it is given as Go prints it.
type sketch struct{}

func (sketch) Shell() (text []byte, policy string) {
	return []byte("<!doctype html>"), "default-src 'none'"
}

func (sketch) Overview(s workflow.Summary, stuck workflow.Page[workflow.Flagged], rejected workflow.Page[workflow.Refused], degraded []string, deadLetters int) []byte {
	return fmt.Appendf(nil, "%v, %d stuck next=%s%s, %d rejected, %q, %d dead letters", s.ByStatus, len(stuck.Items), stuck.Next, why(stuck), len(rejected.Items), degraded, deadLetters)
}

func (sketch) Orders(asked workflow.Search, stuck bool, found workflow.Page[workflow.Flagged]) []byte {
	return fmt.Appendf(nil, "%v %s %v:%s next=%s", asked.Statuses, asked.Prefix, stuck, why(found), found.Next)
}

func (sketch) Order(s workflow.Story, stuck []workflow.Stuck) []byte {
	return fmt.Appendf(nil, "%s %v", s.Order.ID, stuck)
}

func (sketch) Tabs(kind string, b workflow.Backlog, rejected workflow.Page[workflow.Refused], deadLetters int) []byte {
	return fmt.Appendf(nil, "%s of dead=%d rejected=%d%s dead letters=%d: ", kind, b.Dead, len(rejected.Items), rejected.Next, deadLetters)
}

func (sketch) Dispatches(kind string, deadlines, first bool, page workflow.Page[workflow.DispatchAt]) []byte {
	return fmt.Appendf(nil, "%s deadlines=%v first=%v items=%d next=%s", kind, deadlines, first, len(page.Items), page.Next)
}

func (sketch) Kept(kind string, first bool, page workflow.Page[workflow.Kept]) []byte {
	return fmt.Appendf(nil, "%s first=%v items=%d next=%s", kind, first, len(page.Items), page.Next)
}

func (sketch) Rejections(kind string, first bool, page workflow.Page[workflow.Refused]) []byte {
	return fmt.Appendf(nil, "%s first=%v items=%d next=%s", kind, first, len(page.Items), page.Next)
}

func (sketch) DeadLetters(kind string, first bool, counts map[string]int, page workflow.Page[workflow.DeadLetter]) []byte {
	return fmt.Appendf(nil, "%s first=%v counts=%v items=%v next=%s", kind, first, counts, page.Items, page.Next)
}

func (sketch) Rejected(m workflow.Refused) []byte {
	return fmt.Appendf(nil, "%s %s", m.ID, html.EscapeString(m.Reason))
}

func why(page workflow.Page[workflow.Flagged]) (all string) {
	for _, f := range page.Items {
		all += " " + f.Order.ID
		for _, s := range f.Stuck {
			all += " (" + s.Why + ")"
		}
	}
	return all
}

func TestThePagesShellNeedsNoKeyAndNoData(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api/ops", "/api/ops/", "/api/OPS"} {
		answer := ask(t, functions.App{Page: sketch{}}, http.MethodGet, path, "") // there is no database behind it
		require.Equal(t, 200, answer.Code)
		require.Equal(t, "text/html; charset=utf-8", answer.Header().Get("Content-Type"))
		require.Equal(t, "default-src 'none'", answer.Header().Get("Content-Security-Policy"))
		require.Equal(t, "no-referrer", answer.Header().Get("Referrer-Policy"))
		require.Equal(t, "nosniff", answer.Header().Get("X-Content-Type-Options"))
	}
	var w world
	aProblem(t, 404, w.get(t, "/api/ops/page"))
	aProblem(t, 405, ask(t, w.app(), http.MethodPost, "/api/ops", "{}"))
	aProblem(t, 400, w.get(t, "/api/ops?status=Completed"))
	require.Equal(t, 200, w.get(t, "/api/ops?code=k").Code, "the host's own parameter is no matter")
}

func TestWhatIsShownInThePageMayDoNothingByItself(t *testing.T) {
	t.Parallel()
	for _, e := range functions.Endpoints() {
		if !strings.HasPrefix(e.Path, "operations/page/") {
			continue
		}
		require.Equal(t, "operations", e.Function)
		w := refusing(refused())
		w.story = storyOf(paying())
		answer := w.get(t, "/api/"+strings.ReplaceAll(e.Path, "{id}", "0a1b"))
		require.Equal(t, 200, answer.Code, e.Path)
		require.Equal(t, "default-src 'none'; frame-ancestors 'none'", answer.Header().Get("Content-Security-Policy"))
		require.Equal(t, "no-referrer", answer.Header().Get("Referrer-Policy"))
		require.Equal(t, "text/html; charset=utf-8", answer.Header().Get("Content-Type"))
		require.Empty(t, answer.Header().Get("X-Signed-In"))
		aProblem(t, 400, w.get(t, "/api/"+strings.ReplaceAll(e.Path, "{id}", "0a1b")+"?statuss=Completed"))
		aProblem(t, 405, ask(t, w.app(), http.MethodPost, "/api/operations/page/overview", `{"reason":"why"}`))
	}
}

func TestThePageIsToldWhoHasSignedIn(t *testing.T) {
	t.Parallel()
	var w world
	answer := w.get(t, "/api/operations/page/overview", "X-Ms-Client-Principal-Name", "ann@example.org", "X-Operator", "bob")
	require.Equal(t, "ann@example.org", answer.Header().Get("X-Signed-In"))
}

func TestTheOverviewTellsWhatHealthAndTheListsTell(t *testing.T) {
	t.Parallel()
	w := world{}
	w.summary = func(context.Context) (workflow.Summary, error) {
		return workflow.Summary{ByStatus: map[workflow.Status]int{workflow.Completed: 7}, Backlog: workflow.Backlog{Dead: 1, Lag: 6 * time.Minute}}, nil
	}
	w.find = found("", listed("well", workflow.AwaitingPayment), listed("ill", workflow.NeedsAttention))
	w.office.rejections = func(top int, after string) (workflow.Page[workflow.Refused], error) {
		require.Equal(t, 100, top)
		require.Empty(t, after)
		return pageOf("", refused()), nil
	}
	answer := ask(t, w.atNoon(), http.MethodGet, "/api/operations/page/overview", "")
	require.Equal(t, `map[Completed:7], 1 stuck next= ill (it waits for a person: retry what failed, or resolve it to cancelled or completed), 1 rejected, `+
		`["the broker refused commands for good" "messages have waited more than 5 minutes to be sent"], -1 dead letters`, answer.Body.String())
	require.NotContains(t, w.searches[0].Statuses, workflow.Completed)

	var many []workflow.Listed
	for range 101 {
		many = append(many, listed("ill", workflow.NeedsAttention))
	}
	for _, of := range []struct {
		orders []workflow.Listed
		next   string
		told   string
	}{{many[:100], "", " 100 stuck next="}, {many, "", " 100 stuck next=more"}, {many[:1], "on", " 5 stuck next=more"}, {nil, "on", " 0 stuck next=more"}} {
		w.find = found(of.next, of.orders...)
		require.Contains(t, ask(t, w.atNoon(), http.MethodGet, "/api/operations/page/overview", "").Body.String(), of.told)
	}
}

func TestThePageListsOrdersAsTheAPIDoes(t *testing.T) {
	t.Parallel()
	w := world{}
	w.find = found("more", listed("order-1", workflow.NeedsAttention))
	path := "/api/operations/page/orders"
	answer := w.get(t, path+"?status=NeedsAttention,Cancelled&idPrefix=order-&blocked=true&createdTimeFrom=2026-07-19T10:00:00Z&lastUpdatedTimeTo=2026-07-20T10:00:00Z&top=7")
	begins, _, _ := strings.Cut(answer.Body.String(), " next=")
	require.Equal(t, "[NeedsAttention Cancelled] order- false: order-1 (it waits for a person: retry what failed, or resolve it to cancelled or completed)", begins)
	require.Equal(t, workflow.Search{
		Statuses: []workflow.Status{workflow.NeedsAttention, workflow.Cancelled}, Prefix: "order-", Blocked: true, Top: 7,
		CreatedFrom: time.Date(2026, 7, 19, 10, 0, 0, 0, time.UTC), UpdatedTo: time.Date(2026, 7, 20, 10, 0, 0, 0, time.UTC),
	}, w.searches[0])

	first := w.get(t, path+"?idPrefix=order-")
	_, next, _ := strings.Cut(first.Body.String(), " next=")
	require.Equal(t, 200, w.get(t, path+"?idPrefix=order-&continuationToken="+next).Code)
	require.Equal(t, "more", w.searches[len(w.searches)-1].After)
	aProblem(t, 400, w.get(t, path+"?idPrefix=other-&continuationToken="+next))

	w.searches, w.find = nil, found("", listed("well", workflow.AwaitingPayment), listed("ill", workflow.NeedsAttention))
	answer = w.get(t, path+"?stuck=true")
	require.Contains(t, answer.Body.String(), "true: ill (")
	require.NotContains(t, answer.Body.String(), "well")
	for query, remedy := range map[string]string{"status=Newer": "NeedsAttention", "idPrefix=%3Cscript%3E": "letters, digits", "top=0": "1 to 1000", "stuck=yes": "false, true", "format=csv": "the parameters of this path are"} {
		require.Contains(t, problemOf(t, 400, w.get(t, path+"?"+query))["remedy"], remedy)
	}
}

func TestThePageShowsAnOrderAndWhyItIsStuck(t *testing.T) {
	t.Parallel()
	w := world{story: storyOf(workflow.Story{Order: workflow.Order{Status: workflow.AwaitingPayment}, Since: ago(13 * time.Hour)})}
	answer := ask(t, w.atNoon(), http.MethodGet, "/api/operations/page/orders/order-42", "")
	require.Equal(t, "order-42 [{unanswered it has waited more than 12h for the payment service's answer to CapturePayment}]", answer.Body.String())
	w.story = func(context.Context, string) (workflow.Story, error) { return workflow.Story{}, workflow.ErrNoOrder }
	require.Contains(t, problemOf(t, 404, w.get(t, "/api/operations/page/orders/order-43"))["detail"], "nothing is known")
	for _, id := range []string{"%3Cscript%3E", `%22onload=x`, "a%2Fb", strings.Repeat("o", 97)} {
		aProblem(t, 400, w.get(t, "/api/operations/page/orders/"+id))
	}
}

func TestThePageListsMessagesOfEachKind(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct{ asked, told string }{
		"":          {"dead commands", "dead deadlines=false"},
		"dead":      {"dead commands", "dead deadlines=false"},
		"waiting":   {"waiting commands", "waiting deadlines=false"},
		"deadlines": {"waiting deadlines", "deadlines deadlines=true"},
		"scheduled": {"sent deadlines", "scheduled deadlines=true"},
		"recalled":  {"recall deadlines", "recalled deadlines=true"},
		"early":     {"Held", "early"},
		"blocked":   {"Blocked", "blocked"},
		"rejected":  {"rejections", "rejected"},
	} {
		var asked []string
		w := world{count: func(context.Context) (workflow.Backlog, error) { return workflow.Backlog{Dead: 3}, nil }}
		w.dispatches = func(state string, deadlines bool, top int, after string) (workflow.Page[workflow.DispatchAt], error) {
			asked = append(asked, fmt.Sprint(state, map[bool]string{true: " deadlines", false: " commands"}[deadlines], top, after))
			return pageOf("more", workflow.DispatchAt{}), nil
		}
		w.kept = func(outcome workflow.Outcome, top int, after string) (workflow.Page[workflow.Kept], error) {
			asked = append(asked, fmt.Sprint(outcome, top, after))
			return pageOf("more", workflow.Kept{}), nil
		}
		w.office.rejections = func(top int, after string) (workflow.Page[workflow.Refused], error) {
			if top == 100 { // to be counted
				return pageOf("+", refused(), refused()), nil
			}
			asked = append(asked, fmt.Sprint("rejections", top, after))
			return pageOf("more", workflow.Refused{}), nil
		}
		path := "/api/operations/page/messages?top=2&kind=" + kind
		first := w.get(t, path).Body.String()
		told, next, _ := strings.Cut(first, " next=")
		_, told, _ = strings.Cut(told, " of dead=3 rejected=2+ dead letters=-1: ")
		require.Equal(t, want.told+" first=true items=1", told)
		second := w.get(t, path+"&continuationToken="+next).Body.String()
		require.Contains(t, second, want.told+" first=false items=1")
		require.Equal(t, []string{want.asked + "2", want.asked + "2more"}, asked)
	}
	uncounted := world{count: func(context.Context) (workflow.Backlog, error) { return workflow.Backlog{}, workflow.ErrTransient }}
	aProblem(t, 503, uncounted.get(t, "/api/operations/page/messages?kind=dead"))
	uncounted = world{}
	uncounted.office.rejections = func(int, string) (workflow.Page[workflow.Refused], error) {
		return workflow.Page[workflow.Refused]{}, workflow.ErrTransient
	}
	aProblem(t, 503, uncounted.get(t, "/api/operations/page/messages?kind=dead"))
	var w world
	require.Contains(t, problemOf(t, 400, w.get(t, "/api/operations/page/messages?kind=everything"))["remedy"], "dead, blocked, early, rejected")
}

func TestThePageShowsWhatTheBrokerGaveUp(t *testing.T) {
	t.Parallel()
	letter := func(subscription string, sequence int64) workflow.DeadLetter {
		l := workflow.DeadLetter{Subscription: subscription}
		l.Delivery.Sequence = sequence
		return l
	}
	w := world{pile: &pile{letters: []workflow.DeadLetter{letter("order-placed", 7), letter("payment-result", 3), letter("payment-result", 4)}}}
	a := w.app()
	h := a.Handler()
	path := "/api/operations/page/messages?kind=dead-letters&top=2"
	first := send(h, newRequest(t, http.MethodGet, path, http.NoBody)).Body.String()
	require.Contains(t, first, "dead-letters of dead=0 rejected=0 dead letters=3: dead-letters first=true counts=map[")
	require.Contains(t, first, " order-placed:1 ")
	require.Contains(t, first, " payment-result:2 ")
	require.Equal(t, 2, strings.Count(first, "{order-placed")+strings.Count(first, "{payment-result"))
	_, next, _ := strings.Cut(first, " next=")
	second := send(h, newRequest(t, http.MethodGet, path+"&continuationToken="+next, http.NoBody)).Body.String()
	require.Contains(t, second, "first=false")
	require.Contains(t, second, "payment-result")
	require.NotContains(t, second, "{order-placed")
	require.True(t, strings.HasSuffix(second, " next="))

	require.Eventually(t, func() bool {
		overview := send(h, newRequest(t, http.MethodGet, "/api/operations/page/overview", http.NoBody)).Body.String()
		return strings.Contains(overview, `["the broker gave up messages for order-placed, payment-result, which can be brought back"], 3 dead letters`)
	}, 10*time.Second, 5*time.Millisecond)

	dead := send(h, newRequest(t, http.MethodGet, "/api/operations/page/messages?kind=dead", http.NoBody)).Body.String()
	require.Contains(t, dead, "dead of dead=0 rejected=0 dead letters=3: ", "as they were last counted")

	none := world{pile: &pile{away: map[string]error{}}}
	for _, s := range functions.Subscriptions() {
		none.pile.away[s.Name] = workflow.ErrTransient
	}
	aProblem(t, 503, none.get(t, path))
}

func TestThePageShowsARejectedMessage(t *testing.T) {
	t.Parallel()
	w := refusing(refused())
	require.Equal(t, 200, w.get(t, "/api/operations/page/rejected/0a1b").Code)
	var none world
	aProblem(t, 404, none.get(t, "/api/operations/page/rejected/0a1b"))
}
