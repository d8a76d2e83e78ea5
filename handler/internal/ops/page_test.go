package ops

import (
	"io/fs"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestThePolicyAllowsTheShellsOneStyleAndOneScriptAndNoOther(t *testing.T) {
	t.Parallel()
	shell, policy := New(false).Shell()
	inside := func(element string) string {
		found := regexp.MustCompile(`(?s)<`+element+`>(.*?)</`+element+`>`).FindAllSubmatch(shell, -1)
		require.Len(t, found, 1)
		return string(found[0][1])
	}
	style, script := inside("style"), inside("script")
	require.Contains(t, style, "prefers-color-scheme: dark")
	require.Contains(t, script, "'use strict'")
	require.Equal(t, "default-src 'none'; style-src '"+hash(style)+"'; script-src '"+hash(script)+"'; img-src data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'", policy)
	require.Equal(t, "sha256-LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=", hash("hello"), "as browsers do it")
	require.NotContains(t, string(shell), "{{")
}

func TestNothingIsLoadedFromElsewhereAndNothingIsStyledOrHandledInline(t *testing.T) {
	t.Parallel()
	require.NoError(t, fs.WalkDir(assets, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := asset(strings.TrimPrefix(path, "assets/"))
		require.NotRegexp(t, `https?://`, strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), path)
		if strings.HasSuffix(path, ".tmpl") || strings.HasSuffix(path, ".html") {
			require.NotRegexp(t, `(?i)\s(style|on[a-z]+|srcdoc)\s*=`, text, path)
			require.NotRegexp(t, `(?i)<(img|iframe|object|embed|base|meta http-equiv)`, text, path)
		}
		if strings.HasSuffix(path, ".js") {
			require.NotRegexp(t, `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|localStorage|\.style\b`, text)
		}
		return nil
	}))
}

func TestTheScriptIsSoundJavaScript(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("NOT RUN: node is not installed")
	}
	out, err := exec.CommandContext(t.Context(), "node", "--check", "assets/page.js").CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestTheShellHoldsNoDataAndIsTheSameForAll(t *testing.T) {
	t.Parallel()
	shell, _ := New(false).Shell()
	again, _ := New(true).Shell()
	require.Equal(t, shell, again)
	for _, row := range workflow.Table() {
		require.NotContains(t, string(shell), string(row.Status))
	}
}

func TestNothingInATextFromOutsideIsHidden(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain, Zoë, 注文 ✓\n\tnext": "plain, Zoë, 注文 ✓\n\tnext",
		"exe.\u202efdp":            `exe.\u{202e}fdp`,
		"zero\u200bwidth\x00\r":    `zero\u{200b}width\u{0}\u{d}`,
		"not\xffUTF-8":             `not\u{fffd}UTF-8`,
		"no-break\u00a0space":      `no-break\u{a0}space`,
	} {
		require.Equal(t, want, visible(text))
	}
	require.Equal(t, "Completed", visible(workflow.Completed))
}

func TestAnOrdersIDIsShortInItsOwnStoryAndNowhereElse(t *testing.T) {
	t.Parallel()
	require.Equal(t, "capture-payment:1", short("order-4", "order-4:capture-payment:1"))
	require.Equal(t, "order-42:capture-payment:1", short("order-4", "order-42:capture-payment:1"))
	require.Equal(t, "order-4:", short("order-4", "order-4:"))
	require.Equal(t, "#/orders/a~b.c_d-e", orderLink("a~b.c_d-e"))
	require.Equal(t, "#/messages/rejected/a%2F%22b%3F%23", rejectionLink(`a/"b?#`))
}

func TestAListsAddressSaysAllThatIsAskedOfIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "#/orders", ordersLink(workflow.Search{Top: 7, After: "x"}, false, ""))
	require.Equal(t, "#/orders?stuck=true", ordersLink(workflow.Search{}, true, ""))
	require.Equal(t, "#/orders?blocked=true", ordersLink(workflow.Search{Blocked: true}, false, ""))
	asked := workflow.Search{
		Statuses: []workflow.Status{workflow.Completed, workflow.Cancelled}, Prefix: "order-", Blocked: true,
		CreatedFrom: noon, CreatedTo: noon.Add(1), UpdatedFrom: noon.Add(2), UpdatedTo: noon.Add(3),
	}
	link := ordersLink(asked, true, "t/k")
	require.Contains(t, link, "status=Completed,Cancelled")
	query, err := url.ParseQuery(strings.TrimPrefix(link, "#/orders?"))
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"status": {"Completed,Cancelled"}, "idPrefix": {"order-"}, "blocked": {"true"}, "stuck": {"true"}, "continuationToken": {"t/k"},
		"createdTimeFrom": {"2026-07-19T12:00:00Z"}, "createdTimeTo": {"2026-07-19T12:00:00.000000001Z"},
		"lastUpdatedTimeFrom": {"2026-07-19T12:00:00.000000002Z"}, "lastUpdatedTimeTo": {"2026-07-19T12:00:00.000000003Z"},
	}, query)
	require.Equal(t, "#/messages?kind=dead&continuationToken=a%2Bb", messagesLink("dead", "a+b"))
}
