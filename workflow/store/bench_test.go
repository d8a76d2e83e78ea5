package store

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// opened is a store on a new database, closed with the test.
func opened(t testing.TB, options Options) *Store {
	t.Helper()
	if options.Now == nil {
		options.Now = time.Now
	}
	s, err := Open(context.Background(), filepath.Join(t.TempDir(), "orders.db"), options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// said is a sound message.
func said(t testing.TB, order, id string, kind workflow.MessageType, members string) workflow.Message {
	t.Helper()
	m, err := workflow.Envelope{
		ID: id, Type: kind, OrderID: order, Conversation: "conv-7",
		Body: fmt.Appendf(nil, `{"orderId":%q%s}`, order, members),
	}.Decode()
	require.NoError(t, err)
	return m
}

func placed(t testing.TB, order string) workflow.Message {
	return said(t, order, order+":placed", workflow.OrderPlaced,
		`,"customerId":"customer-9","currency":"EUR","amount":12990,"lines":[{"sku":"sku-1","quantity":2}]`)
}

func reserved(t testing.TB, order string) workflow.Message {
	return said(t, order, order+":reserved", workflow.InventoryReserved, `,"reservationId":"res-9001"`)
}

// BenchmarkHandle begins orders, one at a time and 64 at once, with commits
// shared and not, side by side: what grouping gains on this machine's disk.
func BenchmarkHandle(b *testing.B) {
	for _, inFlight := range []int{1, 64} {
		for _, most := range []int{1, groupMost} {
			b.Run(fmt.Sprintf("inflight=%d/group=%d", inFlight, most), func(b *testing.B) {
				s, spy := watched(b, Options{})
				file(s).writer.most = most
				messages := make([]workflow.Message, 0, b.N)
				for n := range b.N {
					messages = append(messages, placed(b, fmt.Sprint("order-", n)))
				}
				b.ResetTimer()
				ran, _ := spy.during(func() {
					var next atomic.Int64
					var wg sync.WaitGroup
					for range inFlight {
						wg.Go(func() {
							for n := next.Add(1) - 1; n < int64(b.N); n = next.Add(1) - 1 {
								if _, err := s.Handle(context.Background(), messages[n]); err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
				})
				b.StopTimer()
				commits := 0
				for _, text := range ran {
					if text == "COMMIT" {
						commits++
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
				b.ReportMetric(float64(b.N)/float64(commits), "orders/commit")
				b.ReportMetric(float64(len(ran))/float64(b.N), "statements/order")
			})
		}
	}
}

// BenchmarkTransition is one step of an order, alone; its allocations count.
func BenchmarkTransition(b *testing.B) {
	s := opened(b, Options{})
	messages := make([]workflow.Message, 0, b.N)
	for n := range b.N {
		_, err := s.Handle(context.Background(), placed(b, fmt.Sprint("order-", n)))
		require.NoError(b, err)
		messages = append(messages, reserved(b, fmt.Sprint("order-", n)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	b.ResetTimer()
	for n := range b.N {
		if _, err := s.Handle(ctx, messages[n]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkClaimBesideAMillionSentRows claims ten rows beside a million that
// were sent, and in turn ten of an otherwise empty table: how many times as long
// the one takes as the other.
func BenchmarkClaimBesideAMillionSentRows(b *testing.B) {
	crowded, empty := opened(b, Options{}), opened(b, Options{})
	crowd(b, crowded, 1_000_000, 0)
	took := make(map[*Store]time.Duration)
	claim := func(s *Store, token string) {
		begun := time.Now()
		claimed, err := s.Claim(context.Background(), token, workflow.Want{Commands: true, Deadlines: true}, 100, time.Minute)
		took[s] += time.Since(begun)
		if err != nil || len(claimed) != 10 {
			b.Fatal(len(claimed), err)
		}
		marks := make([]workflow.Mark, 0, 10)
		for _, c := range claimed {
			marks = append(marks, workflow.Mark{OrderID: c.OrderID, Seq: c.Seq, GiveBack: true})
		}
		require.NoError(b, s.Mark(context.Background(), token, marks))
	}
	for _, s := range []*Store{crowded, empty} {
		for n := range 10 {
			_, err := s.Handle(context.Background(), placed(b, fmt.Sprint("order-", n)))
			require.NoError(b, err)
		}
		claim(s, "first") // prepares
	}
	clear(took)
	n := 0
	for b.Loop() {
		n++
		claim(crowded, fmt.Sprint("token-", n))
		claim(empty, fmt.Sprint("token-", n))
	}
	b.ReportMetric(took[crowded].Seconds()/took[empty].Seconds(), "times-as-long")
	b.ReportMetric(float64(took[crowded].Microseconds())/float64(n), "µs/claim")
}

// BenchmarkDuplicate is a message that comes again.
func BenchmarkDuplicate(b *testing.B) {
	s := opened(b, Options{})
	m := placed(b, "order-42")
	_, err := s.Handle(context.Background(), m)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Handle(context.Background(), m); err != nil {
			b.Fatal(err)
		}
	}
}
