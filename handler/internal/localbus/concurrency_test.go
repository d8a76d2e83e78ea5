package localbus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestManySendersAndReceiversKeepEverySessionInOrder(t *testing.T) {
	t.Parallel()
	const senders, each, receivers = 8, 40, 6
	b := openBus(t, newFile(t), oneQueue())

	var mu sync.Mutex
	got := map[string][]string{}
	failed := map[string]bool{}
	done := make(chan struct{})
	var left sync.WaitGroup
	left.Add(senders * each)
	for range receivers {
		go func() {
			for {
				s, err := b.AcceptNextSession(t.Context(), orders, billing)
				if err != nil {
					return
				}
				for range 3 { // then another's turn
					m, err := s.Receive(soon(t))
					if err != nil {
						break
					}
					mu.Lock()
					fails := m.SequenceNumber%5 == 0 && !failed[m.MessageID]
					failed[m.MessageID] = true
					if !fails {
						got[m.SessionID] = append(got[m.SessionID], m.MessageID)
					}
					mu.Unlock()
					if fails {
						err = s.Abandon(t.Context(), m)
					} else if err = s.Complete(t.Context(), m); err == nil {
						left.Done()
					}
					if err != nil {
						t.Error(err)
					}
				}
				if err := s.Close(); err != nil {
					return
				}
			}
		}()
	}
	want := map[string][]string{}
	for sender := range senders {
		session := fmt.Sprint("session-", sender)
		messages := numbered(session, each)
		want[session] = ids(messages)
		go func() {
			for _, m := range messages {
				if _, err := b.Send(t.Context(), orders, m); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	go func() { left.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("not everything arrived")
	}
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, want, got)
	require.Empty(t, peeked(t, b))
}

func TestManyReceiversOfDeadLettersCompleteEachOnce(t *testing.T) {
	t.Parallel()
	b := openBus(t, newFile(t), oneQueue())
	messages := numbered("s", 100)
	kill(t, b, messages...)

	var mu sync.Mutex
	var got []string
	done := make(chan struct{})
	for i := range 6 {
		go func() {
			r, err := b.OpenDeadLetters(t.Context(), orders, billing)
			for n := i; err == nil; n++ {
				var m *Message
				if m, err = r.Receive(soon(t)); err != nil {
					if errors.Is(err, context.DeadlineExceeded) {
						err = nil
					}
					continue
				}
				switch n % 4 {
				case 0:
					err = r.Abandon(t.Context(), m)
				case 1:
					err = r.Release(t.Context(), m)
				case 2:
					if err = r.Close(); err == nil {
						r, err = b.OpenDeadLetters(t.Context(), orders, billing)
					}
				default:
					err = r.Complete(t.Context(), m)
					mu.Lock()
					if got = append(got, m.MessageID); len(got) == len(messages) {
						close(done)
					}
					mu.Unlock()
				}
			}
			if !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("not everything arrived")
	}
	mu.Lock()
	defer mu.Unlock()
	require.ElementsMatch(t, ids(messages), got)
	require.Empty(t, dead(t, b))
}

func TestGivingUpAtTheMomentOfArrivalLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := openBus(t, newFile(t), oneQueue())
		start := time.Now()
		for i := range 100 {
			due := time.Now().Add(time.Millisecond) // the moment at which soon ends
			send(t, b, scheduledAt(message("s", fmt.Sprint(i)), due))
			s, err := b.AcceptNextSession(soon(t), orders, billing)
			if err != nil {
				s = accept(t, b)
			}
			m, err := s.Receive(soon(t))
			if err != nil {
				m = receive(t, s)
			}
			require.Equal(t, fmt.Sprint(i), m.MessageID)
			require.Equal(t, 1, m.DeliveryCount)
			require.NoError(t, s.Complete(t.Context(), m))

			send(t, b, scheduledAt(message("s", "next"), time.Now().Add(time.Millisecond)))
			if m, err = s.Receive(soon(t)); err != nil {
				m = receive(t, s)
			}
			require.Equal(t, 1, m.DeliveryCount)
			require.NoError(t, s.Complete(t.Context(), m))
			require.NoError(t, s.Close())
		}
		require.Less(t, time.Since(start), time.Second, "nobody had to wait for a lock to expire")
	})
}

func TestClosingWhileEverythingIsBusyEndsEveryCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := openBus(t, newFile(t), oneQueue())
		ctx := t.Context()
		busy := make(chan struct{}, 1_000_000)
		untilError := func(call func() error) func() {
			return func() {
				err := call()
				for ; err == nil; err = call() {
					busy <- struct{}{}
				}
				if !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			}
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(untilError(func() error {
				_, err := b.Send(ctx, orders, message(fmt.Sprint(i), "m"))
				return err
			}))
			wg.Go(untilError(func() error {
				s, err := b.AcceptNextSession(ctx, orders, billing)
				if err == nil {
					_, err = s.Receive(ctx)
				}
				if err == nil {
					err = s.Close()
				}
				return err
			}))
		}
		wg.Go(untilError(func() error {
			r, err := b.OpenDeadLetters(ctx, orders, billing)
			if err == nil {
				_, err = r.Receive(ctx)
			}
			return err
		}))
		for range 500 {
			<-busy
		}
		require.NoError(t, b.Close())
		wg.Wait()
	})
}
