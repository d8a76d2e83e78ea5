package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// everythingSent is every text that the program can send to SQL Server, by what
// it is for: each statement of the table in a request of its own, whole requests
// as they are made for messages, and a migration from the first to the last.
func everythingSent(t *testing.T) map[string]string {
	t.Helper()
	sent := make(map[string]string)
	args := make([]any, 50) // as many as any statement takes
	for i := range args {
		args[i] = relative(time.Second)
	}
	for name, text := range statements() {
		switch {
		case name == "claimed": // needs what the claim declares
			sent[name] = transactionOf(batch{{sqlServerTexts.claim, args, anyRows}}, []question{{text: text, args: args}}).text.String()
		case strings.HasPrefix(text, "SELECT"), name == "load", name == "the version":
			sent[name] = transactionOf(nil, []question{{text: text, args: args}}).text.String()
		default:
			sent[name] = transactionOf(batch{{text, args, 1}}, nil).text.String()
		}
	}
	sent["lock the migration"], sent["unlock the migration"] = lockMigration, unlockMigration

	s, server, _ := wire(t, Options{})
	_, requests := server.during(func() {
		ctx, order := t.Context(), "order-42"
		for _, m := range []workflow.Message{
			placed(t, order), reserved(t, order), said(t, order, "early", workflow.ShipmentConfirmed, `,"shipmentId":"s"`),
			said(t, order, "refused", workflow.InventoryReserved, `,"reservationId":"other"`),
			said(t, order, "captured", workflow.PaymentCaptured, `,"paymentId":"p"`),
		} {
			_, err := s.Handle(ctx, m)
			require.NoError(t, err)
		}
		_, _ = s.Story(ctx, order) // the fake server knows no answer to what follows
		_, _ = s.Claim(ctx, "t", workflow.Want{Commands: true, Deadlines: true}, 1, time.Minute)
		require.NoError(t, s.Mark(ctx, "t", []workflow.Mark{{Sent: true}, {Sent: true, Sequence: 1}, {GiveBack: true}, {Error: "e"}}))
	})
	for n, r := range requests {
		sent[fmt.Sprint("request ", n)] = r.text
	}
	for n, r := range migrated(t) {
		sent[fmt.Sprint("migration ", n)] = r.text
	}
	return sent
}

// statements are all texts by their names; those that take a list with one item
// and with three.
func statements() map[string]string {
	all := map[string]string{"the version": askVersion, "the rights": askRights}
	for _, n := range []int{1, 3} {
		all[fmt.Sprint("settle ", n)], all[fmt.Sprint("insertOutbox ", n)] = sqlServerTexts.settle(n), sqlServerTexts.insertOutbox(n)
		all[fmt.Sprint("listed ", n)] = sqlServerTexts.listed(n)
	}
	fields := reflect.ValueOf(sqlServerTexts)
	for _, field := range reflect.VisibleFields(fields.Type()) {
		if text := fields.FieldByIndex(field.Index); text.Kind() == reflect.String {
			all[field.Name] = text.String()
		}
	}
	return all
}

// migrated are the requests by which an empty database is migrated.
func migrated(t *testing.T) (requests []tdsRequest) {
	t.Helper()
	made := false
	server := startTDS(t, func(r tdsRequest) tdsAnswer {
		switch {
		case strings.Contains(r.text, "CREATE TABLE "+versionTable):
			made = true
		case strings.Contains(r.text, "FROM "+versionTable) && !made:
			return tdsAnswer{number: 208, class: 16}
		case strings.HasPrefix(r.text, "SELECT MAX(version_id)"):
			return tdsAnswer{sets: []tdsRows{rowsOf([]any{int64(0)})}}
		case strings.HasPrefix(r.text, "SELECT version_id"):
			return tdsAnswer{sets: []tdsRows{rowsOf([]any{int64(0), int64(1)})}}
		}
		return tdsAnswer{}
	})
	_, requests = server.during(func() {
		applied, err := Migrate(t.Context(), server.address(""))
		require.NoError(t, err)
		require.Len(t, applied, 1)
	})
	return requests
}

func TestAMigrationRunsBetweenTheTakingAndTheGivingUpOfItsLock(t *testing.T) {
	t.Parallel()
	requests := migrated(t)
	require.Contains(t, requests[0].text, "sp_getapplock")
	require.Contains(t, requests[len(requests)-1].text, "sp_releaseapplock")
	tables := 0
	for _, r := range requests[1 : len(requests)-1] {
		tables += strings.Count(r.text, "CREATE TABLE dbo.")
	}
	require.Equal(t, 5, tables, "four, and the one of versions")
}

// checker is where the parser of T-SQL is installed.
const checker = "testdata/tsql"

// faults has the parser read texts, and returns what is wrong with each. Without
// the parser the test is not run.
func faults(t *testing.T, texts []string) [][]string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT RUN: the T-SQL parser needs node")
	}
	if _, err := os.Stat(filepath.Join(checker, "node_modules")); errors.Is(err, os.ErrNotExist) {
		t.Skip("NOT RUN: the T-SQL parser is not installed; run npm ci in workflow/store/" + checker)
	}
	in, err := json.Marshal(texts)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), node, "check.js")
	cmd.Dir = checker
	cmd.Stdin = strings.NewReader(string(in))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var found [][]string
	require.NoError(t, json.Unmarshal(out, &found))
	require.Len(t, found, len(texts))
	return found
}

// slips are what the parser must find, or it proves nothing.
var slips = []string{
	`SELECT a FROM dbo.t ORDER a;`,
	`UPDATE dbo.t SET a = 1 WHERE ;`,
	`INSERT INTO dbo.t (a, b) VALUES (1, 2;`,
	`CREATE TABLE dbo.t (a int NOT NULL,, b int);`,
	`IF @@ROWCOUNT <> 1 THRO 50001, N'x', 1;`,
	`INSERT INTO dbo.t (function) VALUES (1);`,
}

func TestEveryTSQLStatementIsParsed(t *testing.T) {
	t.Parallel()
	sent := everythingSent(t)
	names := slices.Sorted(maps.Keys(sent))
	texts := slices.Clone(slips)
	for _, name := range names {
		texts = append(texts, sent[name])
	}
	for i, wrong := range faults(t, texts) {
		if i < len(slips) {
			require.NotEmpty(t, wrong, "the parser overlooks a slip: %s", slips[i])
			continue
		}
		require.Empty(t, wrong, "%s:\n%s", names[i-len(slips)], texts[i])
	}
}

// TestNoStatementUsesWhatOnlySomeServersUnderstandOrWhatHasBitten holds every
// text against a list of forms, in Go alone.
func TestNoStatementUsesWhatOnlySomeServersUnderstandOrWhatHasBitten(t *testing.T) {
	t.Parallel()
	denied := []struct{ form, why string }{
		{`LIMIT`, "another dialect's"},
		{`RETURNING`, "another dialect's"},
		{`ON\s+CONFLICT`, "another dialect's"},
		{`FOR\s+UPDATE`, "another dialect's"},
		{`::`, "another dialect's"},
		{"`", "another dialect's"},
		{`\|\|`, "another dialect's"},
		{`MERGE`, "it races without a hint"},
		{`OUTPUT`, "fails on a table with a trigger, and reads joins badly"},
		{`RAISERROR`, "does not end the request, even with XACT_ABORT"},
		{`HOLDLOCK|UPDLOCK|READPAST|NOLOCK|ROWLOCK|TABLOCKX?|XLOCK`, "correctness does not hang on hints (docs/adr/0010)"},
		{`OPTION\s*\(`, "no query hints"},
		{`WAITFOR`, "nothing waits on the server"},
		{`GETDATE|GETUTCDATE|SYSDATETIME|SYSDATETIMEOFFSET`, "time is SYSUTCDATETIME()"},
		{`IDENTITY|NEWSEQUENTIALID|SCOPE_IDENTITY|NEXT\s+VALUE`, "order is given by the revision, under its lock"},
		{`\w+\s*[+-]=`, "not understood everywhere"},
		{`CREATE\s+OR\s+ALTER`, "not understood everywhere"},
		{`WITH\s+VALUES`, "not understood everywhere"},
		{`JSON_OBJECT|JSON_ARRAY`, "not understood everywhere"},
		{`IS\s+(NOT\s+)?DISTINCT`, "not understood everywhere"},
		{`GO`, "a word of tools"},
		{`\?`, "a placeholder that was not bound"},
		{`(_at|since)\s*(=|<>|!=)\s*(CAST|@p|DATEADD)[^,]*\n?(WHERE|AND)`, "times are not compared for equality"},
	}
	for name, text := range everythingSent(t) {
		if strings.Contains(text, "goose_db_version") && strings.Contains(text, "IDENTITY") {
			continue // goose's own table
		}
		for _, d := range denied {
			form := d.form
			if regexp.MustCompile(`^\w`).MatchString(form) {
				form = `\b(` + form + `)\b`
			}
			require.NotRegexp(t, `(?i)`+form, text, "%s: %s", name, d.why)
		}
	}
}

func TestWhatIsSearchedByATextIsComparedWithTheColumnsOwnType(t *testing.T) {
	t.Parallel()
	// The length of each column that is searched by, as the migrations say it.
	schema, err := migrations.ReadFile("migrations/sqlserver/00001_orders.sql")
	require.NoError(t, err)
	searched := regexp.MustCompile(`\b(order_id|message_id|token|rejection_id) (?:=|IN) (\(?CAST\([^)]*\)|\S+)`)
	length := func(column string) string {
		m := regexp.MustCompile(column + `\s+(nvarchar\(\d+\))\s+COLLATE Latin1_General_100_BIN2`).FindStringSubmatch(string(schema))
		require.NotNil(t, m, column)
		return m[1]
	}
	found := 0
	for name, text := range statements() {
		for _, m := range searched.FindAllStringSubmatch(text, -1) {
			with, is := strings.CutPrefix(strings.TrimPrefix(m[2], "("), "CAST(")
			if !is {
				require.Regexp(t, `^(@(order|message|deadline|token)|\w\.(order|message)_id|NULL)`, m[2], "%s: %s", name, m[0])
				continue
			}
			found++
			want := length(m[1])
			if m[1] == "order_id" && name == "rejected" {
				want = "nvarchar(128)" // anything may have been said
			}
			require.Contains(t, with, want, "%s: %s", name, m[0])
		}
	}
	require.Greater(t, found, 12)
}

func TestEveryIdentifierIsComparedByCodePoint(t *testing.T) {
	t.Parallel()
	schema, err := migrations.ReadFile("migrations/sqlserver/00001_orders.sql")
	require.NoError(t, err)
	for line := range strings.Lines(string(schema)) {
		if regexp.MustCompile(`^\s+(order_id|message_id|token|rejection_id|purpose|state|outcome|\w*status|fingerprint)\s+nvarchar\(\d`).MatchString(line) {
			if !strings.Contains(line, "rejected") && !strings.HasPrefix(strings.TrimSpace(line), "fingerprint    nvarchar(64)   ") {
				require.Contains(t, line, "COLLATE Latin1_General_100_BIN2")
			}
		}
	}
}
