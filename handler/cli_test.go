package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

// typed is a command and what came of it.
type typed struct {
	code     int
	out, err string
}

// enter runs a command in this process, with only these settings.
func enter(t *testing.T, environ map[string]string, line ...string) typed {
	t.Helper()
	var out, stderr bytes.Buffer
	code := run(t.Context(), line, environ, &out, &stderr)
	return typed{code, out.String(), stderr.String()}
}

// databaseWith is a database in which an order was placed.
func databaseWith(t *testing.T, orders ...string) (path string, settings map[string]string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "orders.db")
	s, err := store.Open(t.Context(), path, store.Options{Now: time.Now})
	require.NoError(t, err)
	for _, order := range orders {
		placeIn(t, s, order)
	}
	require.NoError(t, s.Close())
	return path, map[string]string{"SqlConnection": path}
}

func placeIn(t *testing.T, s *store.Store, order string) {
	t.Helper()
	m, err := workflow.Envelope{ID: "m1", Type: workflow.OrderPlaced, OrderID: order, Body: orderBody(order, 12990)}.Decode()
	require.NoError(t, err)
	_, err = s.Handle(t.Context(), m)
	require.NoError(t, err)
}

// decided counts what operators did to the orders of a database.
func decided(t *testing.T, path string) int {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	return number(t.Context(), db, `SELECT COUNT(*) FROM journal WHERE message_id LIKE 'operator:%'`)
}

func TestAnOperatorActsOnTheDatabaseWhileTheHandlerRunsOnItAndTheHandlerTells(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "orders.db")
	s := startServed(t, database, nil)
	answer, err := http.Post(s.url+"/api/orders", "application/json", bytes.NewReader(orderBody("order-42", 12990)))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusAccepted, answer.StatusCode)

	direct, remote := map[string]string{"SqlConnection": database}, map[string]string{"ORDERFLOW_URL": s.url, "SqlConnection": "/not/asked"}
	shown := enter(t, direct, "orders", "show", "order-42")
	require.Zero(t, shown.code, shown.err)
	require.Contains(t, shown.out, "order-42 is AwaitingInventory: ")
	require.Contains(t, shown.out, "  handler orders cancel order-42 -version 1 -reason\n")

	did := enter(t, direct, "orders", "cancel", "order-42", "-version", "1", "-reason", "asked by phone", "-actor", "ann")
	require.Zero(t, did.code, did.err)
	require.Contains(t, did.out, "order-42: cancel is Applied, AwaitingInventory → Cancelled, version 2: ")
	require.Contains(t, did.err, "acting on the database "+database+": deadlines that are armed take 24h0m0s for the warehouse")
	require.Contains(t, did.err, "not listed for an audit")

	history := enter(t, remote, "orders", "history", "order-42")
	require.Zero(t, history.code, history.err)
	require.Contains(t, history.out, "CancellationRequested")
	require.Contains(t, history.out, "    the customer cancelled: asked by phone\n    by ann\n")
	again := enter(t, remote, "orders", "cancel", "order-42", "-version", "1", "-reason", "asked by mail")
	require.Equal(t, exitRefusedThere, again.code, "it has moved on")
	require.Contains(t, again.err, "is at version 2 now")
	require.Empty(t, again.out)
	require.Equal(t, 3, enter(t, remote, "orders", "show", "order-43").code)
	require.Equal(t, 3, enter(t, direct, "orders", "show", "order-43").code)
	require.Empty(t, s.stderr.String())
}

// exitRefusedThere is the exit code for what the process does not allow.
const exitRefusedThere = 4

func TestAnAppAndItsDatabaseTellTheSame(t *testing.T) {
	t.Parallel()
	database, direct := databaseWith(t, "order-1", "order-2", "order-3")
	s := startServed(t, database, nil)
	_, _, err := s.post("order-placed", payload(t, "poison.not-json.json"))
	require.NoError(t, err)
	_, _, err = s.post("payment-result", payload(t, "payment-captured.binary.json"))
	require.NoError(t, err)
	remote := map[string]string{"ORDERFLOW_URL": s.url + "/"}
	rejected := enter(t, remote, "rejected", "list", "-o", "json")
	var list struct{ Items []struct{ ID string } }
	require.NoError(t, json.Unmarshal([]byte(rejected.out), &list), rejected)
	require.Len(t, list.Items, 1)

	for _, line := range []string{
		"orders list", "orders list -all -o json", "orders list -o csv", "orders list -o ndjson -top 2", "orders list -status Completed", "orders show order-1 -o json",
		"orders history order-2", "orders diagram order-3", "deadlines list", "deadlines list -state sent -o json", "held list", "held list -kind rejected",
		"rejected list", "rejected show " + list.Items[0].ID, "stuck", "process", "process -o json", "orders list -status Nonsense", "orders list -top 1 -continue nonsense",
	} {
		there, here := enter(t, remote, strings.Fields(line)...), enter(t, direct, strings.Fields(line)...)
		require.Equal(t, there, here, line)
		require.NotEmpty(t, here.out+here.err, line)
		if strings.Contains(line, "onsense") {
			require.Equal(t, exitUsage, here.code, line)
			continue
		}
		require.Zero(t, here.code, "%s: %s", line, here.err)
	}
	discarded := enter(t, direct, "rejected", "discard", list.Items[0].ID, "-reason", "it is noise")
	require.Zero(t, discarded.code, discarded.err)
	require.Contains(t, discarded.out, list.Items[0].ID+": discard is done\n")
	require.Equal(t, 3, enter(t, remote, "held", "discard", strings.Repeat("0", len(list.Items[0].ID)), "-reason", "it is noise").code)
	require.Zero(t, enter(t, remote, "rejected", "list", "-fail").code, "it was the only one")
	require.Contains(t, enter(t, remote, "health", "-fail").out, "ready")
}

func TestWhatIsPrintedAsPossibleCanBeTyped(t *testing.T) {
	t.Parallel()
	tried := 0
	for n := range 3 { // each line on an order of its own
		order := "-odd"
		_, direct := databaseWith(t, order)
		shown := enter(t, direct, "orders", "show", "--", order)
		require.Zero(t, shown.code, shown.err)
		_, lines, found := strings.Cut(shown.out, "\nPossible now, with a reason at the end\n")
		require.True(t, found)
		possible := strings.Split(strings.TrimSpace(lines), "\n")
		if n >= len(possible) {
			break
		}
		line := strings.Fields(strings.ReplaceAll(possible[n], "''", "because"))
		require.Equal(t, "handler", line[0])
		did := enter(t, direct, line[1:]...)
		require.Zero(t, did.code, "%s: %s", possible[n], did.err)
		tried++
	}
	require.GreaterOrEqual(t, tried, 2)
}

func TestACommandMakesNoDatabaseAndChangesNoSchema(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ connection, says string }{
		{filepath.Join(dir, "orders.db"), "no such file"},
		{filepath.Join(dir, "nowhere", "orders.db"), "no such file"},
		{dir, "is a directory"},
		{"postgres://h/db", "SqlConnection must be"},
		{"sqlserver://user:secret@" + swallowing(t) + "?encrypt=disable&database=d", "SQL Server"},
	} {
		got := enter(t, map[string]string{"SqlConnection": c.connection, "SqlTimeout": "1s"}, "summary")
		require.Equal(t, exitFailed, got.code, c.connection)
		require.True(t, strings.HasPrefix(got.err, "orderflow: SqlConnection"), got.err)
		require.Contains(t, got.err, c.says, c.connection)
		require.NotContains(t, got.err, "secret")
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)

	path, old := databaseWith(t, "order-42")
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `DELETE FROM goose_db_version WHERE version_id > 0`)
	require.NoError(t, err)
	got := enter(t, old, "orders", "list")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.err, "handler migrate up")
	require.Zero(t, number(t.Context(), db, `SELECT COUNT(*) FROM goose_db_version WHERE version_id > 0`))
}

func TestSettingsInAFileGoBeforeTheEnvironmentAndAPathInThemIsFromThere(t *testing.T) {
	t.Parallel()
	_, elsewhere := databaseWith(t, "order-elsewhere")
	path, _ := databaseWith(t, "order-42")
	file := filepath.Join(filepath.Dir(path), "local.settings.json")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(`{"IsEncrypted":false,"Values":{"SqlConnection":"orders.db","InventoryDeadline":"7h","AuditStorage":"UseDevelopmentStorage=true"}}`)
	elsewhere["ORDERFLOW_URL"] = "http://127.0.0.1:9"
	elsewhere["InventoryDeadline"], elsewhere["PaymentDeadline"] = "9h", "5h"
	got := enter(t, elsewhere, "orders", "list", "-settings", file)
	require.Zero(t, got.code, got.err)
	require.Contains(t, got.out, "order-42")
	require.NotContains(t, got.out, "elsewhere")
	got = enter(t, elsewhere, "orders", "cancel", "order-42", "-reason", "r", "-settings", file)
	require.Zero(t, got.code, got.err)
	require.Contains(t, got.err, "take 7h0m0s for the warehouse, 5h0m0s for the payment")
	about := (&settings{SQLConnection: "sqlserver://u:s3cret@h:1433?database=d&password=s3cret"}).about()
	require.Contains(t, about, `acting on the database "d" of the SQL Server h:1433: `)
	require.NotContains(t, about, "s3cret")
	require.Contains(t, got.err, "is listed for the audit")
	s, err := store.Open(t.Context(), path, store.Options{Now: time.Now, Audit: true})
	require.NoError(t, err)
	defer s.Close()
	events, err := s.Unaudited(t.Context(), 10)
	require.NoError(t, err)
	require.NotEmpty(t, events, "the audit of the app will have it")

	for text, says := range map[string]string{
		`{"IsEncrypted":true,"Values":{"SqlConnection":"x"}}`: "encrypted",
		`nonsense`:                       "no file of settings",
		`{"Values":{"SqlConnection":7}}`: "no file of settings",
		`{"Values":{"SqlConnection":"orders.db","PaymentDeadline":"7d"}}`: "PaymentDeadline must be",
		`{"Values":{"SqlConnection":"sqlserver://u:s3cret@h:port"}}`:      "SqlConnection",
	} {
		write(text)
		got := enter(t, nil, "summary", "-settings", file)
		require.Equal(t, exitFailed, got.code, text)
		require.Contains(t, got.err, says, text)
		require.NotContains(t, got.err, "s3cret")
	}
	require.Equal(t, exitFailed, enter(t, nil, "summary", "-settings", file+".not").code)
	write(`{"Values":{}}`)
	for _, line := range [][]string{{"summary"}, {"summary", "-settings", file}} {
		got := enter(t, nil, line...)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.err, "ORDERFLOW_URL")
		require.Contains(t, got.err, "SqlConnection")
	}
}

func TestAReadOnlyAppIsReadOnlyFromTheCommandLineToo(t *testing.T) {
	t.Parallel()
	path, direct := databaseWith(t, "order-42")
	direct["ReadOnly"] = "true"
	got := enter(t, direct, "orders", "cancel", "order-42", "-reason", "r")
	require.Equal(t, 5, got.code, got.err)
	require.Contains(t, got.err, "read-only")
	require.Zero(t, enter(t, direct, "orders", "show", "order-42").code)
	require.Zero(t, decided(t, path))
}

func TestAnActionWhoseAnswersAreLostIsDoneOnceAndTheLastTrySaysSo(t *testing.T) {
	t.Parallel()
	database, _ := databaseWith(t, "order-42")
	s := startServed(t, database, nil)
	var requests atomic.Int64
	var keys atomic.Value
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there, err := http.NewRequestWithContext(r.Context(), r.Method, s.url+r.URL.RequestURI(), r.Body)
		if err != nil {
			return
		}
		there.Header = r.Header
		keys.Store(r.Header.Get("x-functions-key"))
		answer, err := http.DefaultTransport.RoundTrip(there)
		if err != nil {
			return
		}
		defer answer.Body.Close()
		if requests.Add(1) < 3 {
			panic(http.ErrAbortHandler) // it was done, and the answer is lost
		}
		w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	defer front.Close()
	got := enter(t, map[string]string{"ORDERFLOW_URL": front.URL, "ORDERFLOW_KEY": "k-1"}, "orders", "cancel", "order-42", "-reason", "r", "-version", "1")
	require.Zero(t, got.code, got.err)
	require.Contains(t, got.out, "AwaitingInventory → Cancelled, version 2")
	require.Contains(t, got.out, "decided before, and nothing was done now")
	require.EqualValues(t, 3, requests.Load())
	require.Equal(t, "k-1", keys.Load())
	require.Equal(t, 1, decided(t, database))
}

func TestTheSameCommandFromManyAtOnceIsDoneOnce(t *testing.T) {
	t.Parallel()
	database, direct := databaseWith(t, "order-42")
	s := startServed(t, database, nil)
	var wg sync.WaitGroup
	results := make(chan typed, 12)
	for n := range cap(results) {
		environ := direct
		if n%2 == 0 {
			environ = map[string]string{"ORDERFLOW_URL": s.url}
		}
		wg.Go(func() {
			results <- enter(t, environ, "orders", "cancel", "order-42", "-reason", "r", "-idempotency-key", "once", "-version", "1", "-actor", "ann")
		})
	}
	wg.Wait()
	close(results)
	fresh := 0
	for r := range results {
		require.Zero(t, r.code, r.err)
		require.Contains(t, r.out, "AwaitingInventory → Cancelled, version 2")
		if !strings.Contains(r.out, "decided before") {
			fresh++
		}
	}
	require.Equal(t, 1, fresh)
	require.Equal(t, 1, decided(t, database))
}

func TestKilledAtAnyMomentACommandIsDoneOnceWhenItIsRepeatedUnderItsKey(t *testing.T) {
	t.Parallel()
	const orders = 10
	var ids []string
	for n := range orders {
		ids = append(ids, fmt.Sprintf("order-%d", n))
	}
	database, direct := databaseWith(t, ids...)
	for n, id := range ids {
		line := []string{"orders", "cancel", id, "-reason", "r", "-idempotency-key", "key", "-version", "1", "-actor", "ann"}
		p := start(t, direct, line...)
		select {
		case <-p.done:
		case <-time.After(time.Duration(n) * 8 * time.Millisecond):
		}
		p.kill()
		got := enter(t, direct, line...)
		require.Zero(t, got.code, got.err)
		require.Contains(t, got.out, "AwaitingInventory → Cancelled, version 2")
	}
	require.Equal(t, orders, decided(t, database))
}

func TestInterruptedACommandEndsAndSaysUnderWhichKeyToRepeatIt(t *testing.T) {
	t.Parallel()
	p := start(t, map[string]string{"ORDERFLOW_URL": "http://" + swallowing(t), "ORDERFLOW_KEY": "s3cr3t"}, "orders", "cancel", "order-42", "-reason", "r")
	select {
	case <-p.done:
		require.Fail(t, "nobody answers", &p.stderr)
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitFailed, p.exitCode(t, 5*time.Second))
	require.Contains(t, p.stderr.String(), "interrupt")
	require.Contains(t, p.stderr.String(), "the same command with -idempotency-key ")
	require.NotContains(t, p.stderr.String(), "s3cr3t")
	require.Empty(t, p.stdout.String())
}

func TestAWordThatIsNoSubcommandIsAnsweredWithTheNearest(t *testing.T) {
	t.Parallel()
	for word, says := range map[string]string{"order": "did you mean orders?", "sreve": "did you mean serve?", "migrat": "did you mean migrate?"} {
		got := enter(t, nil, word)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.err, says)
		require.Contains(t, got.err, "handler help")
	}
	help := enter(t, nil, "help")
	require.Zero(t, help.code)
	require.Contains(t, help.out, "handler migrate up|status")
	require.Contains(t, help.out, "handler orders show ORDER")
	require.Contains(t, enter(t, nil, "help", "stuck").out, "-timeout")
	require.Contains(t, enter(t, nil, "help", "orders").out, "handler orders skip ORDER")
}
