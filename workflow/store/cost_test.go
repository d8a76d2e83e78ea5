package store

import (
	"context"
	"fmt"
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

func TestWhatRunsForEveryMessageReadsAnIndex(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{})
	at := formatTime(time.Now())
	for _, c := range []struct {
		name, text string
		args       []any
		by         []string
	}{
		{"load", s.text.load, []any{"o", "m", "d"}, []string{"PRIMARY KEY (order_id=?)", "journal_by_message", "outbox_by_message", "journal_held", "journal_line"}},
		{"held", s.text.held, []any{"o"}, []string{"(order_id=?)"}},
		{"update the order", s.text.updateOrder, []any{1, "s", "{}", at, at, "o", 1}, []string{"PRIMARY KEY (order_id=?)"}},
		{"take up", s.text.takeUp, []any{1, 1, "o", "r", "f", "t", 1, "[]", at, "o", "m"}, []string{"journal"}},
		{"settle", s.text.settle(2), []any{at, at, "o", "a", "b"}, []string{"outbox_by_message (order_id=? AND message_id=?)"}},
		{"claim", s.text.claim, []any{"t", at, at, 100, 1, 1}, []string{"outbox_waiting (visible_at<?)", "p USING PRIMARY KEY (order_id=?)"}},
		{"claimed", s.text.claimed, []any{"t"}, []string{"outbox_claimed (token=?)"}},
		{"mark sent", s.text.markSent, []any{at, nil, "o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}},
		{"mark failed", s.text.markFailed, []any{at, "e", 0, "o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}},
		{"give back", s.text.giveBack, []any{at, "o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}},
		{"renew", s.text.renew, []any{at, "t", at}, []string{"outbox_claimed (token=?)"}},
		{"bury", s.text.bury, []any{"e", "o", 1, "t", at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}},
		{"touch the order", s.text.touchOrder, []any{at, "o", 1}, []string{"PRIMARY KEY (order_id=?)"}},
		{"block", s.text.block, []any{"m", "o"}, []string{"PRIMARY KEY (order_id=?)"}},
		{"into the line", s.text.line, []any{"r", "o", "m"}, []string{"journal USING PRIMARY KEY (order_id=?)", "p USING PRIMARY KEY (order_id=?)"}},
		{"the first in the line", s.text.first, []any{"o"}, []string{"j USING PRIMARY KEY (order_id=?)"}},
		{"a command", s.text.command, []any{"o", "m"}, []string{"outbox_by_message"}},
		{"send again", s.text.sendAgain, []any{1, at, "o", "m", "dead"}, []string{"outbox_by_message"}},
		{"discard", s.text.discard, []any{at, "o", "m", "dead"}, []string{"outbox_by_message"}},
		{"recalls", s.text.recalls, []any{at, 1}, []string{"outbox_recall (due_at>?)"}},
		{"recalled", s.text.recalled, []any{"o", 1}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}},
		{"lost deadlines", s.text.lost, []any{at, 1}, []string{"outbox_handed_over (due_at<?)", "j USING PRIMARY KEY (order_id=?)"}},
		{"resend", s.text.resend, []any{at, "o", 1, at}, []string{"PRIMARY KEY (order_id=? AND seq=?)"}},
		{"forget recalls", s.text.forgetRecalls, []any{at}, []string{"outbox_recall"}},
		{"too early", s.text.tooEarly, []any{at, 1}, []string{"journal_held_since (received_at<?)"}},
		{"give up early", s.text.giveUpEarly, []any{"r", at, "o", "m"}, []string{"journal"}},
		{"lines", s.text.lines, []any{1}, []string{"journal_line"}},
		{"at rest", s.text.atRest, []any{at, 1}, []string{"orders_at_rest (updated_at<?)"}},
		{"purge", s.text.purge, []any{at, "o", 1}, []string{"PRIMARY KEY (order_id=?)"}},
		{"purge the journal", s.text.purgeJournal, []any{"o", 1}, []string{"PRIMARY KEY (order_id=?"}},
		{"purge the outbox", s.text.purgeOutbox, []any{"o", 1}, []string{"PRIMARY KEY (order_id=?"}},
		{"keep purging", s.text.keepPurging, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}},
		{"the story's line", s.text.inLine, []any{"o"}, []string{"journal_line (order_id=?)"}},
		{"backlog", s.text.backlog, []any{at, at, at}, []string{"outbox_waiting (visible_at<?)", "outbox_dead", "orders_blocked", "journal_held", "outbox_handed_over (due_at<?)"}},
		{"pending", s.text.pending, []any{at}, []string{"outbox_waiting"}},
		{"the story's order", s.text.story, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}},
		{"the story's journal", s.text.journal, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}},
		{"the story's outbox", s.text.outbox, []any{"o"}, []string{"PRIMARY KEY (order_id=?)"}},
		{"the story's rejected", s.text.rejected, []any{"o"}, []string{"rejected_by_order (order_id=?)"}},
	} {
		how := plan(t, s, c.text, c.args...)
		for _, index := range c.by {
			require.Contains(t, how, index, "%s", c.name)
		}
		if c.name != "pending" { // which counts along the index
			asked := strings.NewReplacer("SCAN CONSTANT ROW", "", "SCAN k", "").Replace(how) // the question itself
			require.NotContains(t, asked, "SCAN ", "%s:\n%s", c.name, how)
			require.NotContains(t, how, "TEMP B-TREE FOR ORDER BY", "%s:\n%s", c.name, how)
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
SELECT 'old-' || (i / 6), i, 'm-' || i, 'CapturePayment', 'c', 'p', 'o', '',
  IIF(i > ?1, 'p-' || i, NULL), IIF(i > ?1, '2126-01-01T00:00:00.000000Z', NULL),
  IIF(i > ?1, 'waiting', 'sent'), IIF(i > ?1, '2126-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z'), '2026-01-01T00:00:00.000000Z', x'7b7d'
FROM n`, sent, ahead)
	require.NoError(t, err)
}

func TestAClaimBesideManySentRowsAndDeadlinesAheadIsFast(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{})
	crowd(t, s, 60_000, 30_000)
	for n := range 10 {
		_, err := s.Handle(t.Context(), placed(t, fmt.Sprint("order-", n)))
		require.NoError(t, err)
	}
	begun := time.Now()
	claimed, err := s.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 100, time.Minute)
	require.NoError(t, err)
	require.Len(t, claimed, 10)
	require.Less(t, time.Since(begun), time.Second, "a scan would take longer, an index takes a few milliseconds")
}
