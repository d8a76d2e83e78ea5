package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// operating are the pages on how to operate Orderflow, by path.
func operating(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../docs/operating/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	pages := make(map[string]string)
	for _, path := range paths {
		path = strings.TrimPrefix(filepath.ToSlash(path), "../")
		pages[path] = document(t, path)
	}
	return pages
}

func TestWhatTheOperatingPagesAskAndDoIsThereToBeAskedAndDone(t *testing.T) {
	t.Parallel()
	served := make(map[string]bool)
	for _, e := range functions.Endpoints() {
		served[e.Method+" "+regexp.MustCompile(`\{\w+\}`).ReplaceAllString(e.Path, "*")] = true
	}
	parameters := make(map[string]bool)
	for _, e := range functions.Endpoints() {
		for _, name := range e.Query {
			parameters[name] = true
		}
	}
	asked := 0
	for path, text := range operating(t) {
		for _, m := range regexp.MustCompile(`\b(ask|act) '?((?:orders|operations|health)[\w/-]*)(?:\?([^'\s]+))?`).FindAllStringSubmatch(text, -1) {
			method := map[string]string{"ask": "GET ", "act": "POST "}[m[1]]
			require.True(t, served[method+strings.Replace(strings.Replace(m[2], "order-42", "*", 1), "ID", "*", 1)], "%s: %s", path, m[0])
			for parameter := range strings.SplitSeq(m[3], "&") {
				name, _, _ := strings.Cut(parameter, "=")
				require.True(t, name == "" || parameters[name], "%s: %s", path, m[0])
			}
			asked++
		}
		for _, m := range regexp.MustCompile(`go run \./handler (\w+)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, usage, "\n  handler "+m[1], path)
		}
	}
	require.Greater(t, asked, 20)
}

func TestWhatTheOperatingPagesTakeFromTheEnvironmentIsSetByOneOfThem(t *testing.T) {
	t.Parallel()
	set := regexp.MustCompile(`\b([A-Z][A-Z_]+)=`)
	block := regexp.MustCompile("(?s)```sh\n.*?```")
	names := make(map[string]bool) // that the page of names sets
	pages := operating(t)
	for _, text := range block.FindAllString(pages["docs/operating/README.md"], -1) {
		for _, m := range set.FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
	}
	used := 0
	for path, text := range pages {
		own := map[string]bool{"USER": true, "PWD": true, "PATH": true}
		for _, m := range set.FindAllStringSubmatch(text, -1) {
			own[m[1]] = true
		}
		for _, m := range regexp.MustCompile(`\$\{?([A-Z][A-Z_]+)`).FindAllStringSubmatch(text, -1) {
			require.True(t, names[m[1]] || own[m[1]], "%s: $%s is not set anywhere", path, m[1])
			used++
		}
	}
	require.Greater(t, used, 40)
	outputs := templates(t)["main.bicep"].declared
	asked := regexp.MustCompile(`\$\(output (\w+)\)`).FindAllStringSubmatch(pages["docs/operating/README.md"], -1)
	require.Len(t, asked, 6)
	for _, m := range asked {
		require.Equal(t, "output", outputs[m[1]], "%s is no output of the templates", m[1])
	}
}

func TestWhatTheOperatingPagesNameIsThere(t *testing.T) {
	t.Parallel()
	anchor := regexp.MustCompile(`[^a-z0-9 -]`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	for path, text := range operating(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			file, part, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(path), file))
				_, err := os.Stat("../" + target)
				require.NoError(t, err, "%s links to %s", path, m[1])
			}
			if part != "" {
				var parts []string
				for _, h := range heading.FindAllStringSubmatch(document(t, target), -1) {
					parts = append(parts, strings.ReplaceAll(anchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
				}
				require.Contains(t, parts, part, "%s links to %s", path, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`(?:infra|docs|\.github)/[\w./-]+\.\w+`).FindAllString(text, -1) {
			_, err := os.Stat("../" + m)
			require.NoError(t, err, "%s names %s", path, m)
		}
	}
}

func TestTheCommandsOfTheOperatingPagesAreThere(t *testing.T) {
	t.Parallel()
	shown := 0
	for path, text := range operating(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^|`|# )handler ([a-z][a-z-]*(?: [a-z][a-z-]+)?)").FindAllStringSubmatch(text, -1) {
			typed := enter(t, nil, append(strings.Fields(m[1]), "-h")...)
			require.Zero(t, typed.code, "%s: handler %s: %s", path, m[1], typed.err)
			shown++
		}
	}
	require.Greater(t, shown, 15)
}

func TestWhatIsPractisedBreaksAndIsMended(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile(`(?m)^db "(.*)"`).FindAllStringSubmatch(document(t, "docs/operating/runbooks.md"), -1)
	require.Len(t, found, 4)
	path, settings := databaseWith(t)
	s, err := store.Open(t.Context(), path, store.Options{Now: time.Now})
	require.NoError(t, err)
	defer s.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	defer db.Close()
	do := func(statement string) {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
	say := func(what workflow.MessageType, order, body string) workflow.Decision {
		m, err := workflow.Envelope{ID: string(what), Type: what, OrderID: order, Body: []byte(`{"orderId": "` + order + `", ` + body + `}`)}.Decode()
		require.NoError(t, err)
		decision, err := s.Handle(t.Context(), m)
		require.NoError(t, err)
		return decision
	}

	do(found[0][1])
	placeIn(t, s, "practise-1")
	say(workflow.InventoryReserved, "practise-1", `"reservationId": "r"`)
	blocked := say(workflow.PaymentCaptured, "practise-1", `"paymentId": "p"`)
	require.Equal(t, workflow.Blocked, blocked.Outcome, blocked.Reason)
	do(found[1][1])
	retried := enter(t, settings, "orders", "retry", "practise-1", "-message", string(workflow.PaymentCaptured), "-reason", "the trigger is gone")
	require.Zero(t, retried.code, retried.err)
	require.Equal(t, 1, number(t.Context(), db, `SELECT COUNT(*) FROM orders WHERE order_id = 'practise-1' AND status = 'AwaitingShipment'`))

	const size = `SELECT length(body) FROM outbox WHERE message_id = 'practise-2:capture-payment:1'`
	do(found[2][1])
	placeIn(t, s, "practise-2")
	say(workflow.InventoryReserved, "practise-2", `"reservationId": "r"`)
	require.Greater(t, number(t.Context(), db, size), 256<<10, "more than the broker takes")
	do(`UPDATE outbox SET state = 'dead' WHERE message_id = 'practise-2:capture-payment:1'`)
	do(found[3][1])
	require.Less(t, number(t.Context(), db, size), 1<<10, "what it was")
}
