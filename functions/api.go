package functions

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"orderflow/workflow"
)

// apiPath is the host's route prefix, in host.json.
const apiPath = "/api/"

// endpoint is one thing that the API does.
type endpoint struct {
	function string // whose key opens it
	method   string // GET, which HEAD is too, or POST
	path     string // below apiPath; {id} is any one segment
	query    []string
	serve    func(*call) reply
}

// endpoints is the one table from method and path to what serves it.
//
// A key opens a function, not a path, and the host does not say to its handler
// which function a request came through. So the table and the routes in the
// function.json files must agree, and a test compares them: what a key cannot
// open by the host's routes, it must not reach here by another reading of the
// same request. What keeps the three keys apart is
//
//   - the method: reading functions take GET and HEAD only, and nothing in this
//     table acts on those; the host forwards the method as it came, and no header
//     replaces it here;
//   - for placing, which has the weakest of the writing keys, a route without
//     parameters: there is nothing in it that could be read otherwise;
//   - for health, which is open to all, a parameter that is letters only. The
//     host forwards the path it has decoded, as .NET's Uri reads it again: a
//     parameter ..\orders would come here as /api/orders;
//   - for the page's shell, which is open to all too, no parameter at all.
//
// Reading one thing with the key for another, and likewise for acting, can be
// brought about in that way; it is not what the keys are to keep apart.
func endpoints() []endpoint {
	const (
		get, post     = http.MethodGet, http.MethodPost
		read, act     = "orders", workflow.OperatorsFunction
		look, operate = "operations", "operation-actions"
	)
	paged := []string{"format", "top", "continuationToken"}
	search := []string{"status", "idPrefix", "createdTimeFrom", "createdTimeTo", "lastUpdatedTimeFrom", "lastUpdatedTimeTo", "stuck", "blocked", "top", "continuationToken"}
	return []endpoint{
		{read, get, "orders", append([]string{"format"}, search...), listOrders},
		{read, get, "orders/{id}", nil, show},
		{read, get, "orders/{id}/history", []string{"format"}, history},
		{read, get, "orders/{id}/diagram", nil, diagram},

		{"place-order", post, "orders", nil, place},

		{act, post, "orders/{id}/cancel", nil, cancelOrder},
		{act, post, "orders/{id}/retry", nil, retryOrder},
		{act, post, "orders/{id}/resolve", nil, resolveOrder},
		{act, post, "orders/{id}/skip", nil, skipMessage},
		{act, post, "orders/{id}/send-again", nil, sendAgain},
		{act, post, "orders/{id}/discard", nil, discardCommand},
		{act, post, "orders/{id}/fire-deadline", nil, fireDeadline},

		{look, get, "operations/summary", nil, summary},
		{look, get, "operations/stuck", append([]string{"status", "idPrefix"}, paged...), listStuck},
		{look, get, "operations/outbox", append([]string{"state"}, paged...), listOutbox},
		{look, get, "operations/deadlines", append([]string{"state"}, paged...), listDeadlines},
		{look, get, "operations/held", append([]string{"kind"}, paged...), listHeld},
		{look, get, "operations/rejected", paged, listRejected},
		{look, get, "operations/rejected/{id}", nil, showRejected},
		{look, get, "operations/dead-letters", append([]string{"subscription"}, paged...), listDeadLetters},
		{look, get, "operations/process", nil, showProcess},

		{operate, post, "operations/rejected/{id}/resubmit", nil, resubmit},
		{operate, post, "operations/rejected/{id}/discard", nil, discardRejected},
		{operate, post, "operations/dead-letters/redrive", nil, redrive},

		{"ops", get, "ops", nil, opsShell},
		{look, get, "operations/page/overview", nil, opsOverview},
		{look, get, "operations/page/orders", search, opsOrders},
		{look, get, "operations/page/orders/{id}", nil, opsOrder},
		{look, get, "operations/page/messages", []string{"kind", "top", "continuationToken"}, opsMessages},
		{look, get, "operations/page/rejected/{id}", nil, opsRejected},

		{"health", get, "health/live", nil, live},
		{"health", get, "health/ready", nil, ready},
	}
}

// call is one request to the API, at its endpoint.
type call struct {
	App
	r     *http.Request
	rec   *record
	at    *endpoint
	id    string // what stands for {id} in the path
	query url.Values
}

// api finds what serves a request. It reads paths as the host does: in any case
// of letters, with or without a slash at the end.
type api []endpoint

// route is the function that a request is for; none for a path that is not the
// API's.
func (all api) route(r *http.Request) (function, bool) {
	segments, ok := segmentsOf(r.URL)
	if !ok {
		return function{}, false
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var here, area []*endpoint // those of the path, and of its first segment
	for n := range all {
		e := &all[n]
		if first, _, _ := strings.Cut(e.path, "/"); strings.EqualFold(first, segments[0]) {
			area = append(area, e)
		}
		id, matches := e.match(segments)
		switch {
		case matches && e.method == method:
			return function{name: e.function, forwarded: true, serve: e.open(id)}, true
		case matches:
			here = append(here, e)
		}
	}
	if area == nil {
		return function{}, false
	}
	refused := function{name: area[0].function, forwarded: true, serve: noSuchPath(area)}
	if here != nil {
		refused.serve = wrongMethod(here)
	}
	for _, e := range area {
		if e.method == method {
			refused.name = e.function // for the log: whose key the host took for it
		}
	}
	return refused, true
}

// segmentsOf are the decoded parts of a path below apiPath. A path that anybody
// could read in two ways, with empty parts or dots for parts, has none.
func segmentsOf(u *url.URL) ([]string, bool) {
	path := u.EscapedPath()
	if len(path) <= len(apiPath) || !strings.EqualFold(path[:len(apiPath)], apiPath) {
		return nil, false
	}
	segments := strings.Split(strings.TrimSuffix(path[len(apiPath):], "/"), "/")
	for i, s := range segments {
		decoded, err := url.PathUnescape(s)
		if err != nil || decoded == "" || decoded == "." || decoded == ".." {
			return nil, false
		}
		segments[i] = decoded
	}
	return segments, true
}

// match says whether a path is the endpoint's, and what stands for {id} in it.
func (e *endpoint) match(segments []string) (id string, matches bool) {
	parts := strings.Split(e.path, "/")
	if len(parts) != len(segments) {
		return "", false
	}
	for i, part := range parts {
		if part == "{id}" {
			id = segments[i]
		} else if !strings.EqualFold(part, segments[i]) {
			return "", false
		}
	}
	return id, true
}

// open serves a call once its query is one that is known here.
func (e *endpoint) open(id string) serveFunc {
	return func(a App, r *http.Request, rec *record) reply {
		c := &call{App: a, r: r, rec: rec, at: e, id: id}
		if wrong := c.readQuery(); wrong != "" {
			return rec.refuse(http.StatusBadRequest, wrong, knownParameters(e.query))
		}
		answer := e.serve(c)
		answer.header.Set("X-Content-Type-Options", "nosniff")
		return answer
	}
}

// readQuery reads the parameters. A name that is not known here is refused: a
// filter that is misspelt must not list everything.
func (c *call) readQuery() (wrong string) {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return "the query cannot be read"
	}
	for _, host := range []string{"code", "clientId"} { // the host's own, by which it takes a key
		delete(query, host)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case !slices.Contains(c.at.query, name):
			return "the parameter " + quote(name) + " is not known here"
		case len(query[name]) > 1:
			return "the parameter " + name + " is there more than once"
		}
	}
	c.query = query
	return ""
}

func knownParameters(names []string) string {
	if len(names) == 0 {
		return "leave the query out; this path has no parameters"
	}
	return "the parameters of this path are " + strings.Join(names, ", ")
}

func wrongMethod(here []*endpoint) serveFunc {
	return func(_ App, _ *http.Request, rec *record) reply {
		var allowed []string
		for _, e := range here {
			allowed = append(allowed, e.method)
			if e.method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
		}
		answer := rec.refuse(http.StatusMethodNotAllowed, "this path does not take this method", "use "+strings.Join(allowed, " or "))
		answer.header.Set("Allow", strings.Join(allowed, ", "))
		return answer
	}
}

func noSuchPath(area []*endpoint) serveFunc {
	return func(_ App, _ *http.Request, rec *record) reply {
		var there []string
		for _, e := range area {
			there = append(there, e.method+" "+apiPath+e.path)
		}
		return rec.refuse(http.StatusNotFound, "there is nothing at this path", "there are "+strings.Join(there, ", "))
	}
}

// aboutOrder notes which order a call is about, or says that it can be none.
func (c *call) aboutOrder() (refusal reply, ok bool) {
	c.rec.envelope.OrderID = c.id
	if workflow.OrderIDFault(c.id) != "" {
		return c.rec.refuse(http.StatusBadRequest, "what stands for an order in the path cannot be the ID of one",
			fmt.Sprintf("ask for an ID of 1 to %d letters, digits and . _ ~ -", workflow.MaxOrderIDLength)), false
	}
	return reply{}, true
}
