package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// fill writes so many orders past the store, decided about a second apart: of a
// hundred 90 are Completed, 6 Cancelled, 3 wait for payment and 1 for a person.
// Each has two rows in the journal and three in the outbox.
func fill(t testing.TB, s *Store, orders int) {
	t.Helper()
	for _, statement := range []string{`
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
INSERT INTO orders (order_id, revision, version, status, created_at, since, updated_at, blocked_by, state)
SELECT printf('order-%07d', i), 4, 4,
  CASE WHEN i % 100 < 90 THEN 'Completed' WHEN i % 100 < 96 THEN 'Cancelled' WHEN i % 100 < 99 THEN 'AwaitingPayment' ELSE 'NeedsAttention' END,
  strftime('%Y-%m-%dT%H:%M:%S.000000Z', 1767225600 + i, 'unixepoch'), strftime('%Y-%m-%dT%H:%M:%S.000000Z', 1767225660 + i, 'unixepoch'),
  strftime('%Y-%m-%dT%H:%M:%S.000000Z', 1767225660 + i, 'unixepoch'), IIF(i % 20000 = 99, 'm', NULL),
  '{"schema":1,"order":{"conversation":"conv-7","customerId":"customer-9","currency":"EUR","amount":12990,"lines":[{"sku":"sku-1","quantity":2}],"effects":[{"kind":"goods","state":"held","ref":"reservation-9001"},{"kind":"money","state":"held","ref":"payment-1"}],"counts":{"reserve-inventory":1,"inventory-timeout":1,"capture-payment":1,"payment-timeout":1}}}'
FROM n`, `
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 * 2)
INSERT INTO journal (order_id, revision, place, message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent,
  fingerprint, outcome, reason, from_status, to_status, version, emitted, function, delivery_count, received_at, decided_at, body)
SELECT printf('order-%07d', (i + 1) / 2), 1 + i % 2, 0, printf('m-%07d', i), 'PaymentCaptured', 'conv-7', 'p', 'o', '1', '', 'f', 'Applied', 'r', 'f', 't', 1, '[]', 'f', 1,
  '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', zeroblob(150)
FROM n`, `
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 * 3)
INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at, state, visible_at, created_at, body)
SELECT printf('order-%07d', (i + 2) / 3), 1000 + i % 3, printf('c-%07d', i), 'CapturePayment', 'c', 'p', 'o', '',
  IIF(i % 3 = 2, 'payment-timeout', NULL), IIF(i % 3 = 2, '2026-01-02T00:00:00.000000Z', NULL), IIF(i % 3 = 2, 'closed', 'sent'),
  '2026-01-01T00:00:00.000000Z', '2026-01-01T00:00:00.000000Z', zeroblob(100)
FROM n`} {
		_, err := file(s).db.ExecContext(context.Background(), statement, orders)
		require.NoError(t, err)
	}
}

// looks are what operators ask of many orders.
var looks = []struct {
	what string
	at   func(context.Context, *Store) (int, error)
}{
	{"the first page of all orders", listing(workflow.Search{})},
	{"a page of all orders far behind", func(ctx context.Context, s *Store) (int, error) {
		return listing(workflow.Search{UpdatedTo: time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)})(ctx, s)
	}},
	{"1000 orders of long ago", listing(workflow.Search{Top: 1000, Oldest: true})},
	{"1000 orders", listing(workflow.Search{Top: 1000})},
	{"those of one status", listing(workflow.Search{Statuses: []workflow.Status{workflow.NeedsAttention}})},
	{"blocked ones", listing(workflow.Search{Blocked: true})},
	{"a prefix that few have", listing(workflow.Search{Prefix: "order-0000042"})},
	{"a prefix that all have", listing(workflow.Search{Prefix: "order-"})},
	{"a prefix that many have, of long ago", listing(workflow.Search{Prefix: "order-0000"})},
	{"created long ago, which is looked for among all", listing(workflow.Search{CreatedTo: time.Date(2026, 1, 1, 0, 10, 0, 0, time.UTC)})},
	{"the summary", func(ctx context.Context, s *Store) (int, error) {
		sum, err := s.Summary(ctx)
		return len(sum.ByStatus), err
	}},
	{"commands that were sent", func(ctx context.Context, s *Store) (int, error) {
		p, err := s.Dispatches(ctx, workflow.DispatchSent, false, 50, "")
		return len(p.Items), err
	}},
	{"armed deadlines", func(ctx context.Context, s *Store) (int, error) {
		p, err := s.Dispatches(ctx, "", true, 50, "")
		return len(p.Items), err
	}},
	{"what the audit lacks: nothing", func(ctx context.Context, s *Store) (int, error) {
		all, err := s.Unaudited(ctx, 500)
		return len(all), err
	}},
}

func listing(q workflow.Search) func(context.Context, *Store) (int, error) {
	return func(ctx context.Context, s *Store) (int, error) {
		p, err := s.Orders(ctx, q)
		return len(p.Items), err
	}
}

// BenchmarkLooks is what operators' lists cost beside many orders.
func BenchmarkLooks(b *testing.B) {
	for _, orders := range []int{200_000, 1_000_000} {
		s := opened(b, Options{})
		fill(b, s, orders)
		for _, look := range looks {
			b.Run(fmt.Sprintf("%d/%s", orders, look.what), func(b *testing.B) {
				rows := 0
				for b.Loop() {
					n, err := look.at(context.Background(), s)
					if err != nil {
						b.Fatal(err)
					}
					rows = n
				}
				b.ReportMetric(float64(rows), "rows")
			})
		}
	}
}
