package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
)

// complaint asks the API for something that it refuses before it looks at any
// order, and returns what it says to do instead.
func complaint(t *testing.T, method, path, body string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	functions.App{}.Handler().ServeHTTP(w, r)
	var p problem
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), w.Body)
	require.Less(t, p.Status, 500, w.Body)
	return p.Remedy
}

// notForOperators are the API's paths that no verb is for.
func notForOperators(path string) bool {
	return path == "POST /api/orders" || // places an order
		strings.HasPrefix(path, "GET /api/operations/page/") || strings.HasPrefix(path, "GET /api/ops") // for a browser
}

func TestThereIsAVerbForEachPathOfTheAPIAndForNoOther(t *testing.T) {
	t.Parallel()
	var api, cli []string
	for _, area := range []string{"orders", "operations", "health"} {
		there, found := strings.CutPrefix(complaint(t, http.MethodGet, area+"/a/b/c/d", ""), "there are ")
		require.True(t, found)
		for path := range strings.SplitSeq(there, ", ") {
			if !notForOperators(path) {
				api = append(api, path)
			}
		}
	}
	require.Greater(t, len(api), 20)
	for _, v := range verbs() {
		cli = append(cli, v.method+" /api/"+v.path)
	}
	slices.Sort(cli)
	slices.Sort(api)
	require.Equal(t, api, slices.Compact(cli))
}

func TestEachVerbHasTheFlagsThatItsPathKnows(t *testing.T) {
	t.Parallel()
	for _, v := range verbs() {
		path := strings.Replace(v.path, "{id}", "order-42", 1)
		var flags, known []string
		if v.acts() {
			for _, f := range v.body {
				flags = append(flags, f.name)
			}
			if v.within != "" {
				flags = append(flags, v.within)
			}
			flags = append(flags, "reason")
			says := complaint(t, v.method, path, `{"reason":"why","nonsense":""}`)
			_, fields, found := strings.Cut(says, "its fields are ")
			require.True(t, found, "%s: %s", &v, says)
			known = strings.Split(fields, ", ")
		} else {
			for _, f := range v.query {
				flags = append(flags, f.name)
			}
			if v.list != nil {
				flags = append(flags, "format")
			}
			if v.paged {
				flags = append(flags, "top", "continuationToken")
			}
			says := complaint(t, v.method, path+"?nonsense=1", "")
			if _, names, found := strings.Cut(says, "the parameters of this path are "); found {
				known = strings.Split(names, ", ")
			}
		}
		require.ElementsMatch(t, known, flags, &v)
	}
}

func TestTheOperatorsGuideNamesTheFunctionWhoseKeyEachVerbNeeds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/operators.md")
	require.NoError(t, err)
	for _, v := range verbs() {
		require.Contains(t, string(text), fmt.Sprintf("\n| `%s /api/%s` | `%s`", v.method, v.path, v.function), &v)
	}
}

func TestTheGuideToTheCommandLineIsTrue(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	guide := string(file)
	for code, says := range exits() {
		require.Contains(t, guide, fmt.Sprintf("\n| %d | %s |\n", code, says))
	}
	shown := make(map[string]bool)
	row := regexp.MustCompile("(?m)^\\| .* \\| (?:`#/.*`)? ?\\| `handler (.*)` \\| `(.*)` \\|$")
	for _, found := range row.FindAllStringSubmatch(guide, -1) {
		d := sit(always(200, "image/png", ""))
		d.run(t, strings.Fields(found[1])...)
		require.Len(t, d.asked, 1, "%s: %s", found[1], &d.err)
		verb, _, _ := strings.Cut(found[1], " -")
		words := strings.Fields(verb)
		v := find(words[0], append(words, "")[1])
		if v == nil {
			v = find(words[0], "")
		}
		require.Equal(t, found[2], v.method+" /api/"+v.path)
		shown[v.String()] = true
	}
	readme, err := os.ReadFile("../../../README.md")
	require.NoError(t, err)
	some := row.FindAllString(string(readme), -1)
	require.Greater(t, len(some), 5)
	for _, line := range some {
		require.Contains(t, guide, line+"\n", "the README's rows are the guide's")
	}
	for _, v := range verbs() {
		require.Contains(t, guide, v.String())
		if !strings.HasPrefix(v.says, "the same as ") {
			require.True(t, shown[v.String()], "%s is in the table", &v)
		}
	}
	for _, command := range regexp.MustCompile("(?m)(?:^|`)handler(?:/handler)? ([a-z][^`\n]*)").FindAllStringSubmatch(guide, -1) {
		words := strings.Fields(strings.ReplaceAll(command[1], "'asked by phone'", "r"))
		if words[0] == "help" {
			continue
		}
		d := sit(always(200, "image/png", ""))
		code := d.run(t, words...)
		require.NotEqual(t, exitUsage, code, "%s: %s", command[0], &d.err)
	}
}
