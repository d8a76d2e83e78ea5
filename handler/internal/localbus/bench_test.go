package localbus

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One message is a send, an accept, a receive, a complete and a close, which is
// two commits when nobody shares them.
func BenchmarkMessage(b *testing.B) {
	for _, workers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			topics := oneQueue()
			topics[0].DuplicateDetection = time.Minute
			bus, err := Open(b.TempDir()+"/bus.db", topics, time.Now)
			require.NoError(b, err)
			defer func() { require.NoError(b, bus.Close()) }()
			next := make(chan int)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for i := range next {
						m := message(fmt.Sprint("s", i%1000), fmt.Sprint(i))
						m.Body = make([]byte, 1<<10)
						if err := roundTrip(b, bus, m); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for i := range b.N {
				next <- i
			}
			close(next)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

func roundTrip(b *testing.B, bus *Bus, m Message) error {
	ctx := b.Context()
	if _, err := bus.Send(ctx, orders, m); err != nil {
		return err
	}
	s, err := bus.AcceptNextSession(ctx, orders, billing)
	if err != nil {
		return err
	}
	got, err := s.Receive(ctx)
	if err != nil {
		return err
	}
	if err := s.Complete(ctx, got); err != nil {
		return err
	}
	return s.Close()
}
