package functions_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// opens says whether the host, by the routes in the function.json files, would
// take a request through a function: an independent reading of ASP.NET's rules.
func (b binding) opens(method, path string) bool {
	if !slices.Contains(b.Methods, strings.ToLower(method)) {
		return false
	}
	have := strings.Split(strings.Trim(strings.TrimPrefix(strings.ToLower(path), "/api"), "/"), "/")
	for i, want := range strings.Split(b.Route, "/") {
		there := i < len(have) && have[i] != ""
		switch {
		case strings.HasPrefix(want, "{*"):
			return true
		case !there:
			return strings.HasSuffix(want, "?}")
		case strings.HasSuffix(want, ":alpha}"):
			if !regexp.MustCompile(`^[a-z]*$`).MatchString(have[i]) {
				return false
			}
		case !strings.HasPrefix(want, "{") && want != have[i]:
			return false
		}
	}
	return len(have) <= len(strings.Split(b.Route, "/"))
}

// opening lists the functions through which the host would take a request.
func opening(found map[string][]binding, method, path string) []string {
	var all []string
	for name, bindings := range found {
		if bindings[0].Type == "httpTrigger" && bindings[0].opens(method, path) {
			all = append(all, name)
		}
	}
	return all
}

func TestEachPathOfTheAPIIsOpenedByTheKeyOfTheFunctionThatServesItAndByNoOther(t *testing.T) {
	t.Parallel()
	found, served := folders(t), 0
	for _, e := range functions.Endpoints() {
		methods := []string{e.Method}
		if e.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, method := range methods {
			for _, id := range []string{"order-42", "Orders", "operations", "%2E%2Fx", "history"} {
				path := "/api/" + strings.ReplaceAll(e.Path, "{id}", id)
				for _, written := range []string{path, path + "/", strings.ToUpper(path)} {
					require.Equal(t, []string{e.Function}, opening(found, method, written), "%s %s", method, written)
					served++
				}
			}
		}
	}
	require.Greater(t, served, 400)
}

func TestWhateverIsAskedForTheFunctionThatServesItIsTheOneWhoseKeyOpenedIt(t *testing.T) {
	t.Parallel()
	found := folders(t)
	parts := []string{"orders", "operations", "health", "x", "cancel", "retry", "history", "rejected", "resubmit", "discard", "live", "summary", "page", "ops"}
	paths := []string{"/api/orders", "/api/operations", "/api/health", "/api/ops", "/api/ops/x"}
	for _, a := range parts[:3] {
		for _, b := range parts {
			paths = append(paths, "/api/"+a+"/"+b)
			for _, c := range parts {
				paths = append(paths, "/api/"+a+"/"+b+"/"+c, "/api/"+a+"/"+b+"/"+c+"/discard")
			}
		}
	}
	for _, path := range paths {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			keys := opening(found, method, path)
			require.LessOrEqual(t, len(keys), 1, "%s %s", method, path)
			var w world
			ask(t, w.app(), method, path, "")
			if len(keys) == 1 {
				require.Equal(t, keys[0], w.logged(t)["function"], "%s %s", method, path)
			}
		}
	}
}

func TestReadingKeysReadOnly(t *testing.T) {
	t.Parallel()
	acting := 0
	for _, e := range functions.Endpoints() {
		switch e.Function {
		case "orders", "operations", "ops", "health":
			require.Equal(t, http.MethodGet, e.Method, e.Path)
		default:
			require.Equal(t, http.MethodPost, e.Method, e.Path)
			acting++
		}
		if e.Method != http.MethodGet {
			continue
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			w := world{
				story: storyOf(workflow.Story{Order: workflow.Order{Status: workflow.NeedsAttention}}),
				pile:  &pile{letters: []workflow.DeadLetter{given(1, "order-placed", "order-42")}},
			}
			ask(t, w.app(), method, "/api/"+strings.ReplaceAll(e.Path, "{id}", "order-42"), `{"reason":"why"}`,
				"X-HTTP-Method-Override", "POST", "X-HTTP-Method", "POST", "X-Method-Override", "POST", "If-Match", `"0"`)
			require.Empty(t, w.messages)
			require.Empty(t, w.actions)
			require.Empty(t, w.fired)
			require.Empty(t, w.dealings)
			require.Empty(t, w.pile.asked)
		}
	}
	require.Equal(t, 11, acting)
}

func TestWhatIsOpenToEverybodyHasNoPlaceForAnotherPath(t *testing.T) {
	t.Parallel()
	open := 0
	for name, bindings := range folders(t) {
		if bindings[0].Type != "httpTrigger" || bindings[0].AuthLevel != "anonymous" {
			continue
		}
		open++
		for _, segment := range strings.Split(bindings[0].Route, "/") {
			require.Regexp(t, `^([a-z-]+|\{[a-z]+:alpha\??\})$`, segment,
				`%s: the host forwards ..\orders, given for a parameter that may be anything, as another path`, name)
		}
	}
	require.Equal(t, 2, open)
}

func TestPathsThatAreNotThereSayWhatIs(t *testing.T) {
	t.Parallel()
	for line, there := range map[string]string{
		"GET /api/operations":                     "GET /api/operations/summary",
		"GET /api/operations/everything":          "GET /api/operations/summary",
		"POST /api/operations/rejected":           "", // there, and only read
		"POST /api/operations/rejected/r-1/purge": "POST /api/operations/rejected/{id}/discard",
		"GET /api/orders/order-42/x":              "GET /api/orders/{id}/history",
		"POST /api/orders/order-42/terminate":     "POST /api/orders/{id}/cancel",
		"GET /api/health/other":                   "GET /api/health/live",
		"GET /api/orders/a/history/b":             "GET /api/orders/{id}/history",
		"PUT /api/orders/a/b/c":                   "GET /api/orders/{id}",
	} {
		var w world
		method, path, _ := strings.Cut(line, " ")
		answer := ask(t, w.app(), method, path, "")
		if there == "" {
			aProblem(t, 405, answer)
			continue
		}
		require.Contains(t, problemOf(t, 404, answer)["remedy"], there, line)
		require.Equal(t, "WARN", w.logged(t)["level"])
	}
}

func TestAPathThatCouldBeReadInTwoWaysIsNone(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/api/orders/../operations/summary", "/api/orders/%2E%2E/history", "/api/orders/./history", "/api/orders/.",
		"/api//orders", "/api/orders//history", "/api/orders/order-42//", "/api%2Forders", "/api/health/../orders", "/API/orders/%2e",
	} {
		var w world
		r := newRequest(t, http.MethodGet, "/", http.NoBody)
		var err error
		r.URL, err = url.Parse("http://localhost" + path)
		require.NoError(t, err)
		settled(t, 404, send(w.app().Handler(), r))
		require.Empty(t, w.searches)
	}
}

func TestParametersThatAreNotKnownAreRefusedAndThoseThatAreAreNamed(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"GET /api/orders?stauts=Completed":      "stauts",
		"GET /api/orders?Status=Completed":      "Status",
		"GET /api/orders?top=1&top=2":           "top is there more than once",
		"GET /api/orders?top=%zz":               "cannot be read",
		"GET /api/orders?a;b":                   "cannot be read",
		"GET /api/orders/order-42?format=csv":   "format",
		"GET /api/operations/outbox?kind=early": "kind",
		"GET /api/health/live?x":                "x",
		"POST /api/orders?dryRun=true":          "dryRun",
		"POST /api/orders/order-42/cancel?x=1":  "x",
	} {
		var w world
		method, path, _ := strings.Cut(line, " ")
		p := problemOf(t, 400, ask(t, w.app(), method, path, `{"reason":"why"}`))
		require.Contains(t, p["detail"], want, line)
		require.Contains(t, p["remedy"], "parameters")
		require.Empty(t, w.searches)
		require.Empty(t, w.messages)
	}
}

func TestAKeyInTheQueryIsTheHostsAndIsNeitherToldNorLogged(t *testing.T) {
	t.Parallel()
	var w world
	w.find = func(context.Context, workflow.Search) (workflow.Page[workflow.Listed], error) {
		return workflow.Page[workflow.Listed]{Next: "more"}, nil
	}
	answer := w.get(t, "/api/orders?code=s3cret&clientId=default&status=Completed")
	require.Equal(t, 200, answer.Code)
	for _, text := range []string{answer.Body.String(), answer.Header().Get("Link"), w.log.String()} {
		require.NotContains(t, text, "s3cret")
	}
	require.Contains(t, answer.Header().Get("Link"), "status=Completed")
}

func TestNoAnswerClaimsExactlyOnce(t *testing.T) {
	t.Parallel()
	claim := regexp.MustCompile(`(?i)exactly.once`)
	for _, e := range functions.Endpoints() {
		w := world{story: storyOf(workflow.Story{}), pile: &pile{}}
		answer := ask(t, w.app(), e.Method, "/api/"+strings.ReplaceAll(e.Path, "{id}", "order-42"), `{"reason":"why"}`)
		require.NotRegexp(t, claim, answer.Body.String(), "%s %s", e.Method, e.Path)
		require.NotRegexp(t, claim, w.log.String())
		require.Equal(t, "nosniff", answer.Header().Get("X-Content-Type-Options"))
		require.NotEmpty(t, answer.Header().Get("Cache-Control"))
	}
}

// storyOf is what is told of any order.
func storyOf(s workflow.Story) func(context.Context, string) (workflow.Story, error) {
	return func(_ context.Context, id string) (workflow.Story, error) {
		s.Order.ID = id
		return s, nil
	}
}
