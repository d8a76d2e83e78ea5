package store

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// words shortens statements to their first words: "INSERT journal".
func words(ran []string) []string {
	var short []string
	for _, text := range ran {
		f := strings.Fields(strings.NewReplacer("INTO ", "", "SELECT o.", "load ", "SELECT message_id", "held").Replace(text))
		switch f[0] {
		case "INSERT", "UPDATE":
			short = append(short, f[0]+" "+f[1])
		default:
			short = append(short, strings.TrimSuffix(f[0], ","))
		}
	}
	return short
}

func TestWhatAMessageCosts(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	handle := func(m workflow.Message) func() {
		return func() {
			_, err := s.Handle(t.Context(), m)
			require.NoError(t, err)
		}
	}
	for _, order := range []string{"order-0", "order-1"} { // the first time, statements are prepared
		for _, c := range []struct {
			what string
			m    workflow.Message
			runs string
		}{
			{"an order begins", placed(t, order), "load, BEGIN, INSERT orders, INSERT journal, INSERT outbox, COMMIT"},
			{"a step is taken", reserved(t, order), "load, BEGIN, UPDATE orders, INSERT journal, UPDATE outbox, INSERT outbox, COMMIT"},
			{"a duplicate", reserved(t, order), "load"},
			{"a message is held", said(t, order, "early", workflow.ShipmentConfirmed, `,"shipmentId":"s"`), "load, BEGIN, UPDATE orders, INSERT journal, COMMIT"},
			{"a stale message", said(t, order, "stale", workflow.InventoryReserved, `,"reservationId":"res-9001"`), "load, held, BEGIN, UPDATE orders, INSERT journal, COMMIT"},
			{"a conflict", said(t, order, order+":reserved", workflow.InventoryReserved, `,"reservationId":"other"`), "load, BEGIN, INSERT rejected, COMMIT"},
			{"a refusal", said(t, order, "refused", workflow.InventoryReserved, `,"reservationId":"other"`), "load, held, BEGIN, INSERT rejected, UPDATE orders, COMMIT"},
			{"a held message is taken up", said(t, order, "captured", workflow.PaymentCaptured, `,"paymentId":"p"`), "load, held, BEGIN, UPDATE orders, INSERT journal, UPDATE journal, UPDATE outbox, INSERT outbox, COMMIT"},
		} {
			ran, prepared := spy.during(handle(c.m))
			require.Equal(t, c.runs, strings.Join(words(ran), ", "), c.what)
			if order == "order-1" {
				require.Zero(t, prepared, "%s: its statements are prepared once", c.what)
			}
			work := len(ran) - strings.Count(c.runs, "BEGIN") - strings.Count(c.runs, "COMMIT") - strings.Count(c.runs, "held")
			require.LessOrEqual(t, work, 6, c.what)
		}
	}
}

func TestWhatTheOutboxCosts(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{})
	for n := range 10 {
		_, err := s.Handle(t.Context(), placed(t, fmt.Sprint("order-", n)))
		require.NoError(t, err)
	}
	var claimed []workflow.Claimed
	ran, _ := spy.during(func() {
		var err error
		claimed, err = s.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 100, time.Minute)
		require.NoError(t, err)
	})
	require.Len(t, claimed, 10)
	require.Equal(t, []string{"BEGIN", "UPDATE outbox", "COMMIT", "SELECT"}, words(ran))
	ran, _ = spy.during(func() {
		var marks []workflow.Mark
		for _, c := range claimed {
			marks = append(marks, workflow.Mark{OrderID: c.OrderID, Seq: c.Seq, Sent: true})
		}
		require.NoError(t, s.Mark(t.Context(), "t", marks))
	})
	require.Len(t, ran, 12, "all marks of a batch share a commit")
}

// plan is how SQLite runs a statement.
func plan(t *testing.T, s *Store, text string, args ...any) string {
	t.Helper()
	rows, err := file(s).db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, args...)
	require.NoError(t, err)
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
		steps = append(steps, detail)
	}
	require.NoError(t, rows.Err())
	return strings.Join(steps, "\n")
}

// asked is a statement as it is run, and the indexes that it must read. Those of
// whole it may read from end to end: they hold nothing but exceptions, or what
// is counted anyway.
type asked struct {
	name, text string
	args       []any
	by, whole  []string
}

// everyAsked is every statement of SQLite's that looks for something.
func everyAsked(s *Store) []asked {
	at := formatTime(time.Now())
	return []asked{
		{"load", s.text.load, []any{"o", "m", "d"}, []string{"PRIMARY KEY (order_id=?)", "journal_by_message", "outbox_by_message", "journal_held", "journal_line"}, nil},
		{"held", s.text.held, []any{"o", 1}, []string{"(order_id=?)"}, nil},
		{"update the order", s.text.updateOrder, []any{1, "s", "{}", at, at, "o", 1}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"take up", s.text.takeUp, []any{1, 1, "o", "r", "f", "t", 1, "[]", at, "p", 1, "o", "m"}, []string{"journal_by_message (order_id=? AND message_id=?)"}, nil},
		{"early in its turn", s.text.early, []any{"r", "f", "t", 1, at, "p", 1, "o", "m"}, []string{"journal_by_message (order_id=? AND message_id=?)"}, nil},
		{"settle", s.text.settle(2), []any{at, 1, at, "o", "a", "b"}, []string{"outbox_by_message (order_id=? AND message_id=?)"}, nil},
		{"claim", s.text.claim, []any{"t", at, at, 100, 1, 1}, []string{"outbox_waiting (visible_at<?)", "p USING PRIMARY KEY (order_id=?)"}, nil},
		{"claimed", s.text.claimed, []any{"t"}, []string{"outbox_claimed (token=?)"}, nil},
		{"mark sent", s.text.markSent, []any{at, nil, "o", 1, "t", at, 1}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}, nil},
		{"mark failed", s.text.markFailed, []any{at, "e", 0, "o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}, nil},
		{"give back", s.text.giveBack, []any{at, "o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}, nil},
		{"renew", s.text.renew, []any{at, "t", at}, []string{"outbox_claimed (token=?)"}, nil},
		{"bury", s.text.bury, []any{"e", at, 1, "o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}, nil},
		{"touch the order", s.text.touchOrder, []any{at, "o", 1}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"block", s.text.block, []any{"m", "o"}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"into the line", s.text.line, []any{"r", "o", "m", at, 1}, []string{"journal USING PRIMARY KEY (order_id=?)", "p USING PRIMARY KEY (order_id=?)"}, nil},
		{"the first in the line", s.text.first, []any{"o"}, []string{"j USING PRIMARY KEY (order_id=?)"}, nil},
		{"a command", s.text.command, []any{"o", "m"}, []string{"outbox_by_message"}, nil},
		{"send again", s.text.sendAgain, []any{1, at, "o", "m", "dead"}, []string{"outbox_by_message"}, nil},
		{"discard", s.text.discard, []any{at, 1, "o", "m", "dead"}, []string{"outbox_by_message"}, nil},
		{"recalls", s.text.recalls, []any{at, 1}, []string{"outbox_recall (due_at>?)"}, nil},
		{"recalled", s.text.recalled, []any{"o", 1}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}, nil},
		{"lost deadlines", s.text.lost, []any{at, 1}, []string{"outbox_handed_over (due_at<?)", "journal_by_message (order_id=? AND message_id=?)"}, nil},
		{"resend", s.text.resend, []any{at, "o", 1, at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}, nil},
		{"forget recalls", s.text.forgetRecalls, []any{at}, []string{"outbox_recall"}, []string{"outbox_recall"}},
		{"too early", s.text.tooEarly, []any{at, 1}, []string{"journal_held_since (received_at<?)"}, nil},
		{"give up early", s.text.giveUpEarly, []any{"r", at, 1, "o", "m"}, []string{"journal_by_message (order_id=? AND message_id=?)"}, nil},
		{"lines", s.text.lines, []any{"", 1}, []string{"journal_line"}, []string{"journal_line"}},
		{"at rest", s.text.atRest, []any{at, 1, 1}, []string{"orders_at_rest (updated_at<?)"}, nil},
		{"purge", s.text.purge, []any{at, "o", 1}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"purge the journal", s.text.purgeJournal, []any{"o", 1}, []string{"PRIMARY KEY (order_id=?"}, nil},
		{"purge the outbox", s.text.purgeOutbox, []any{"o", 1}, []string{"PRIMARY KEY (order_id=?"}, nil},
		{"keep purging", s.text.keepPurging, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"the story's line", s.text.inLine, []any{"o"}, []string{"journal USING PRIMARY KEY (order_id=?)"}, nil},
		{"backlog", s.text.backlog, []any{at, at, at}, []string{"outbox_waiting (visible_at<?)", "outbox_dead", "orders_blocked", "journal_held", "outbox_handed_over (due_at<?)"}, []string{"outbox_dead", "orders_blocked", "journal_held"}},
		{"pending", s.text.pending, []any{at}, []string{"outbox_waiting"}, []string{"outbox_waiting"}},
		{"the story's order", s.text.story, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"the story's journal", s.text.journal, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"the story's outbox", s.text.outbox, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}, nil},
		{"the story's rejected", s.text.rejected, []any{"o"}, []string{"rejected_by_order (order_id=?)"}, nil},
		{"how often it died", s.text.deaths, []any{"o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}, nil},
		{"renewed", s.text.renewed, []any{"t", at}, []string{"outbox_claimed (token=?)"}, nil},
		{"give up an ID", s.text.giveUpID, []any{"o", "m"}, []string{"journal_by_message (order_id=? AND message_id=?)"}, nil},
		{"blame", s.text.blame, []any{"r", at, 1, "o", "m"}, []string{"journal_by_message (order_id=? AND message_id=?)"}, nil},
		{"the story's revision", s.text.revision, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}, nil},

		{"orders that have not ended", s.text.open, nil, []string{
			"COVERING INDEX orders_by_status (status<?)", "COVERING INDEX orders_by_status (status>? AND status<?)", "COVERING INDEX orders_by_status (status>?)",
		}, nil},
		{"orders that ended", s.text.ended, nil, []string{"COVERING INDEX orders_by_status (status=?)"}, nil},
		{"the newest of a status", s.text.newest, []any{"s", at, at, "o", at, at, "", 1}, []string{"COVERING INDEX orders_by_status (status=? AND updated_at>? AND updated_at<?)"}, nil},
		{"the newest that are blocked", s.text.newestBlocked, []any{"s", at, at, "o", at, at, "", 1}, []string{"orders_blocked (status=? AND updated_at>? AND updated_at<?)"}, nil},
		{"the oldest of a status", s.text.oldest, []any{"s", at, at, "o", at, at, "", 1}, []string{"COVERING INDEX orders_by_status (status=? AND updated_at>? AND updated_at<?)"}, nil},
		{"the oldest that are blocked", s.text.oldestBlocked, []any{"s", at, at, "o", at, at, "", 1}, []string{"orders_blocked (status=? AND updated_at>? AND updated_at<?)"}, nil},
		{"those with a prefix", s.text.prefixed, []any{"o", "p", 1}, []string{"PRIMARY KEY (order_id>? AND order_id<?)"}, nil},
		{"the orders of a page", s.text.listed(2), []any{"o", "p"}, []string{"o USING PRIMARY KEY (order_id=?)", "d USING PRIMARY KEY (order_id=?)", "h USING PRIMARY KEY (order_id=?)"}, nil},
		{"commands that wait", s.text.unsent, []any{at, "o", 1, 1, at}, []string{"outbox_waiting (visible_at>? AND visible_at<?)"}, nil},
		{"deadlines that wait", s.text.ahead, []any{at, "o", 1, 1}, []string{"outbox_waiting (visible_at>?)"}, nil},
		{"deadlines at the broker", s.text.handedOver, []any{at, "o", 1, 1}, []string{"outbox_handed_over (due_at>?)"}, nil},
		{"deadlines to be recalled", s.text.toRecall, []any{at, "o", 1, 1}, []string{"outbox_recall (due_at>?)"}, nil},
		{"dead commands", s.text.dead, []any{"o", 1, 1}, []string{"outbox_dead (order_id>?)"}, nil},
		{"commands that were sent", s.text.sent, []any{"o", 1, 1}, []string{"PRIMARY KEY (order_id>?)"}, nil},
		{"early messages", s.text.keptEarly, []any{"o", 1, 1, 1}, []string{"journal_held (order_id>?)"}, nil},
		{"messages in line", s.text.keptInLine, []any{"o", 1, 1, 1}, []string{"journal_line (order_id>?)"}, nil},
		{"rejected messages", s.text.rejections, []any{at, "r", 1}, []string{"rejected_open (first_at<?)"}, nil},
		{"a rejected message", s.text.rejection, []any{"r"}, []string{"PRIMARY KEY (rejection_id=?)"}, nil},
		{"settle a rejected message", s.text.settleRejected, []any{"r", "h", at, "b", "why", 1}, []string{"PRIMARY KEY (rejection_id=?)"}, nil},
		{"messages that were settled", s.text.settledLong, []any{at, 1, 1}, []string{"rejected_settled (settled_at<?)"}, nil},
		{"forget a settled message", s.text.forget, []any{"r", at}, []string{"PRIMARY KEY (rejection_id=?)"}, nil},
		{"unaudited decisions", s.text.unauditedJournal, []any{1}, []string{"journal_audit"}, []string{"journal_audit"}},
		{"unaudited sends", s.text.unauditedSent, []any{1}, []string{"outbox_audit_sent"}, []string{"outbox_audit_sent"}},
		{"unaudited deaths", s.text.unauditedDead, []any{1}, []string{"outbox_audit_dead"}, []string{"outbox_audit_dead"}},
		{"unaudited closings", s.text.unauditedClosed, []any{1}, []string{"outbox_audit_closed"}, []string{"outbox_audit_closed"}},
		{"unaudited rejections", s.text.unauditedRejected, []any{1}, []string{"rejected_audit"}, []string{"rejected_audit"}},
		{"unaudited settlements", s.text.unauditedSettled, []any{1}, []string{"rejected_audit_settled"}, []string{"rejected_audit_settled"}},
		{"a decision is audited", s.text.auditedJournal, []any{"o", 1, 1, 1}, []string{"PRIMARY KEY (order_id=? AND revision=? AND place=?)"}, nil},
		{"a send is audited", s.text.auditedSent, []any{"o", "m", 1}, []string{"outbox_by_message (order_id=? AND message_id=?)"}, nil},
		{"a death is audited", s.text.auditedDead, []any{"o", "m", 1}, []string{"outbox_by_message (order_id=? AND message_id=?)"}, nil},
		{"a closing is audited", s.text.auditedClosed, []any{"o", "m", 1}, []string{"outbox_by_message (order_id=? AND message_id=?)"}, nil},
		{"a rejection is audited", s.text.auditedRejected, []any{"r", 1}, []string{"PRIMARY KEY (rejection_id=?)"}, nil},
		{"a settlement is audited", s.text.auditedSettled, []any{"r", 1}, []string{"PRIMARY KEY (rejection_id=?)"}, nil},
	}
}

func TestWhatRunsForMessagesAndInTheBackgroundReadsAnIndex(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{})
	schema, err := migrations.ReadFile("migrations/sqlite/00001_orders.sql")
	require.NoError(t, err)
	seen := map[string]bool{ // what looks for nothing, and what reads all there is
		s.text.insertOrder: true, s.text.insertJournal: true, s.text.upsertRejected: true, s.text.list: true,
		s.text.clock: true,
	}
	for _, c := range everyAsked(s) {
		seen[c.text] = true
		how := plan(t, s, c.text, c.args...)
		for _, index := range c.by {
			require.Contains(t, how, index, "%s", c.name)
		}
		require.NotContains(t, how, "TEMP B-TREE FOR ORDER BY", "%s:\n%s", c.name, how)
		for step := range strings.Lines(how) {
			if !strings.HasPrefix(step, "SCAN ") || strings.HasPrefix(step, "SCAN CONSTANT ROW") || strings.HasPrefix(step, "SCAN k") {
				continue // SCAN k is the question itself
			}
			_, index, _ := strings.Cut(strings.TrimSpace(step), " INDEX ")
			require.Contains(t, c.whole, index, "%s:\n%s", c.name, how)
			require.Regexp(t, `INDEX `+index+` ON \w+ \([^)]*\) WHERE `, string(schema), "%s reads the whole of %s, which must be small", c.name, index)
		}
	}
	texts := reflect.ValueOf(sqliteTexts)
	for _, field := range reflect.VisibleFields(texts.Type()) {
		if text := texts.FieldByIndex(field.Index); text.Kind() == reflect.String {
			require.True(t, seen[text.String()], "%s is not looked at here", field.Name)
		}
	}
}

// crowd fills the outbox with so many rows that were sent, and so many that
// wait far ahead.
func crowd(t testing.TB, s *Store, sent, ahead int) {
	t.Helper()
	_, err := file(s).db.ExecContext(context.Background(), `
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 + ?2)
INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  purpose, due_at, state, visible_at, created_at, body)
SELECT printf('old-%07d', i / 6), i, printf('m-%07d', i), 'CapturePayment', 'c', 'p', 'o', '',
  IIF(i > ?1, 'p-' || i, NULL), IIF(i > ?1, '2126-01-01T00:00:00.000000Z', NULL),
  IIF(i > ?1, 'waiting', 'sent'), IIF(i > ?1, '2126-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'), '2026-01-01T00:00:00.000000Z', x'7b7d'
FROM n`, sent, ahead)
	require.NoError(t, err)
}

func TestAClaimBesideAMillionSentRowsAndManyDeadlinesAheadIsFast(t *testing.T) {
	t.Parallel()
	sent := 1_000_000 // takes some seconds to fill in
	if testing.Short() || raceEnabled {
		sent = 20_000
	}
	s := opened(t, Options{})
	crowd(t, s, sent, sent/50)
	for n := range 10 {
		_, err := s.Handle(t.Context(), placed(t, fmt.Sprint("order-", n)))
		require.NoError(t, err)
	}
	begun := time.Now()
	claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 100, time.Minute)
	took := time.Since(begun)
	require.NoError(t, err)
	require.Len(t, claimed, 10)
	require.Less(t, took, 500*time.Millisecond, "a scan would take longer, an index takes a few milliseconds")
	for _, c := range everyAsked(s) {
		if c.name == "claim" {
			require.Contains(t, plan(t, s, c.text, c.args...), "outbox_waiting (visible_at<?)", "whatever SQLite knows of the rows by now")
		}
	}
	begun = time.Now()
	swept, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, workflow.Swept{}, swept)
	b, err := s.Backlog(t.Context())
	require.NoError(t, err)
	require.Equal(t, 10, b.Waiting)
	require.Less(t, time.Since(begun), 500*time.Millisecond, "nor does anything else in the background read what is done")
}
