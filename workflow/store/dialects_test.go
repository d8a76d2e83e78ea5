package store

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// The two databases are told the same in two dialects. What follows holds one
// against the other, without either.

func TestBothDatabasesHaveTheSameTablesAndColumns(t *testing.T) {
	t.Parallel()
	columns := func(path string) (all []string) {
		schema, err := migrations.ReadFile(path)
		require.NoError(t, err)
		var table string
		for line := range strings.Lines(string(schema)) {
			if m := regexp.MustCompile(`^CREATE TABLE (?:dbo\.)?(\w+)`).FindStringSubmatch(line); m != nil {
				table = m[1]
			}
			if m := regexp.MustCompile(`^  \[?([a-z_]+)\]? +(TEXT|INTEGER|BLOB|nvarchar|bigint|int|datetime2|varbinary)\b`).FindStringSubmatch(line); m != nil {
				all = append(all, table+"."+m[1])
			}
		}
		slices.Sort(all)
		return all
	}
	require.Equal(t, columns("migrations/sqlite/00001_orders.sql"), columns("migrations/sqlserver/00001_orders.sql"))
}

// index is an index as both databases understand it.
var index = regexp.MustCompile(`(?m)^CREATE (UNIQUE )?INDEX (\w+) ON (?:dbo\.)?(\w+) \(([^)]*)\)(?: INCLUDE \([^)]*\))?(?: WHERE (.*))?;$`)

func TestBothDatabasesHaveTheSameIndexesOverTheSameRows(t *testing.T) {
	t.Parallel()
	indexes := func(path string) map[string]string {
		schema, err := migrations.ReadFile(path)
		require.NoError(t, err)
		all := make(map[string]string)
		for _, m := range index.FindAllStringSubmatch(strings.ReplaceAll(string(schema), "N'", "'"), -1) {
			all[m[2]] = fmt.Sprintf("%s%s (%s) WHERE %s", m[1], m[3], m[4], m[5])
		}
		require.Len(t, all, strings.Count(string(schema), "INDEX "), "each is understood")
		return all
	}
	lite := indexes("migrations/sqlite/00001_orders.sql")
	require.Equal(t, lite, indexes("migrations/sqlserver/00001_orders.sql"))
	require.Contains(t, lite, "outbox_waiting")
}

func TestBothDatabasesAllowTheSameStatesAndKnowTheSameWords(t *testing.T) {
	t.Parallel()
	states := regexp.MustCompile(`CHECK \(state IN \(([^)]*)\)\)`)
	for _, path := range []string{"migrations/sqlite/00001_orders.sql", "migrations/sqlserver/00001_orders.sql"} {
		schema, err := migrations.ReadFile(path)
		require.NoError(t, err)
		m := states.FindStringSubmatch(strings.ReplaceAll(string(schema), "N'", "'"))
		require.NotNil(t, m, path)
		require.ElementsMatch(t, []string{
			workflow.DispatchWaiting, workflow.DispatchSent, workflow.DispatchClosed, workflow.DispatchRecall, workflow.DispatchDead,
		}, strings.Split(strings.ReplaceAll(m[1], "'", ""), ", "))
	}
	for name, text := range texted(sqliteTexts) {
		for _, word := range regexp.MustCompile(`'[^']*'`).FindAllString(text, -1) {
			require.Contains(t, vocabulary, word, "%s", name)
		}
	}
}

// vocabulary is what the statements say in quotes, and the process means by it.
var vocabulary = []string{
	"'" + workflow.DispatchWaiting + "'", "'" + workflow.DispatchSent + "'", "'" + workflow.DispatchClosed + "'",
	"'" + workflow.DispatchRecall + "'", "'" + workflow.DispatchDead + "'",
	"'" + string(workflow.NotStarted) + "'", "'" + string(workflow.Completed) + "'", "'" + string(workflow.Cancelled) + "'",
	"'" + string(workflow.Held) + "'", "'" + string(workflow.Blocked) + "'", "'" + string(workflow.Stale) + "'", "'" + string(workflow.Skipped) + "'",
	"'" + string(workflow.Rejected) + "'", "''", "'it came before it was armed'",
	"'" + string(workflow.CancellationRequested) + "'", "'" + string(workflow.Retry) + "'",
	"'" + string(workflow.ResolveCancelled) + "'", "'" + string(workflow.ResolveCompleted) + "'",
}

var comment = regexp.MustCompile(`--[^\n]*`)

// texted are the statements of a database by their names.
func texted(of texts) map[string]string {
	all := map[string]string{"settle": of.settle(2), "insertOutbox": of.insertOutbox(2), "listed": of.listed(2)}
	fields := reflect.ValueOf(of)
	for _, field := range reflect.VisibleFields(fields.Type()) {
		if text := fields.FieldByIndex(field.Index); text.Kind() == reflect.String {
			all[field.Name] = comment.ReplaceAllString(strings.ReplaceAll(text.String(), "N'", "'"), "")
		}
	}
	return all
}

// TestBothDatabasesSayTheSameOfTheSameColumns holds each statement against its
// counterpart: the tables, columns and words of the process that it names, and
// what it compares and sets, but for the forms in which the dialects differ.
func TestBothDatabasesSayTheSameOfTheSameColumns(t *testing.T) {
	t.Parallel()
	schema, err := migrations.ReadFile("migrations/sqlite/00001_orders.sql")
	require.NoError(t, err)
	columns := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^(?:  |CREATE TABLE )([a-z_]+)\b`).FindAllStringSubmatch(string(schema), -1) {
		columns[m[1]] = true
	}
	word := regexp.MustCompile(`'[^']*'|\w+`)
	says := func(text string) (all []string) {
		for _, w := range word.FindAllString(text, -1) {
			if columns[w] || slices.Contains(vocabulary, w) {
				all = append(all, w)
			}
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	lite, server := texted(sqliteTexts), texted(sqlServerTexts)
	differ := map[string][]string{ // what one of them says that the other need not
		"purgeJournal": {"place", "revision"}, "purgeOutbox": {"seq"}, // DELETE TOP needs no key
	}
	for name := range lite {
		require.ElementsMatch(t, says(lite[name]), append(says(server[name]), differ[name]...), "%s:\n%s\n%s", name, lite[name], server[name])
	}
}

// TestBothDatabasesCompareAlike holds each condition against its counterpart.
func TestBothDatabasesCompareAlike(t *testing.T) {
	t.Parallel()
	condition := regexp.MustCompile(`(\w+) (=|<>|<=|>=|<|>|IS NOT|IS|IN) `)
	says := func(text string) (all []string) {
		for _, m := range condition.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1]+" "+m[2])
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	lite, server := texted(sqliteTexts), texted(sqlServerTexts)
	for name := range lite {
		switch name {
		case "claim", "load", "upsertRejected", "purgeJournal", "purgeOutbox", "line", "claimed": // other forms: TestEveryTSQLStatementIsParsed and the suite
			continue
		}
		require.Equal(t, says(lite[name]), says(server[name]), "%s:\n%s\n%s", name, lite[name], server[name])
	}
}

// TestBothDatabasesOrderAlike holds the order of each list against its
// counterpart: a page goes on behind the last row of the one before.
func TestBothDatabasesOrderAlike(t *testing.T) {
	t.Parallel()
	order := regexp.MustCompile(`ORDER BY ([a-z_., ]+(?: DESC)?(?:, [a-z_.]+(?: DESC)?)*)`)
	says := func(text string) (all []string) {
		for _, m := range order.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.TrimSpace(regexp.MustCompile(`\b[a-z]\.`).ReplaceAllString(m[1], "")))
		}
		return all
	}
	lite, server := texted(sqliteTexts), texted(sqlServerTexts)
	ordered := 0
	for name := range lite {
		if name == "purgeJournal" || name == "purgeOutbox" { // DELETE TOP has no order
			continue
		}
		ordered += len(says(lite[name]))
		require.Equal(t, says(lite[name]), says(server[name]), "%s:\n%s\n%s", name, lite[name], server[name])
	}
	require.Greater(t, ordered, 20)
}
