package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/outbox"
)

const (
	stormOrders   = 50
	stormCommands = 18 // of each order, and two deadlines
	stormLease    = 2 * time.Second
)

// storm is a broker and a database on a bad day.
type storm struct {
	t     *testing.T
	rows  *table
	harsh bool // the database fails as well

	mu      sync.Mutex
	random  *rand.Rand
	arrived []workflow.Outgoing
	late    sync.WaitGroup
	excuses int // messages that may be sent again: nobody was told that they had arrived
}

// roll is true so many times of a hundred.
func (s *storm) roll(percent float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.Float64()*100 < percent
}

// between waits some time.
func (s *storm) between(least, most time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// unwell is what happens to a call of the database, on its way there or back.
func (s *storm) unwell(string) error {
	wait := s.between(0, 20*time.Millisecond)
	if s.harsh && s.roll(3) {
		wait = s.between(0, 3*time.Second)
	}
	time.Sleep(wait)
	if s.harsh && s.roll(3) {
		return errors.New("the database went away")
	}
	return nil
}

func (s *storm) arrive(m workflow.Outgoing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = append(s.arrived, m)
}

func (s *storm) excuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.excuses++
}

// never are the messages that the broker does not accept.
func never(m workflow.Outgoing) bool { return strings.HasSuffix(m.ID, "7:3") }

// deliver is what happens to a message on its way, and to the answer.
func (s *storm) deliver(ctx context.Context, m workflow.Outgoing) error {
	wait := s.between(0, 50*time.Millisecond)
	if s.roll(3) {
		wait = s.between(stormLease/2, 3*stormLease)
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case never(m):
		return errNever
	case s.roll(2):
		return errDown
	case s.roll(2):
		return errRefused
	case s.roll(1): // it arrives when nobody waits for it any more
		s.excuse()
		late := s.between(0, 20*time.Second)
		s.late.Go(func() {
			time.Sleep(late)
			s.arrive(m)
		})
		return errDown
	case s.roll(1): // it arrives, and the answer does not
		s.excuse()
		s.arrive(m)
		<-ctx.Done()
		return ctx.Err()
	}
	s.arrive(m)
	return nil
}

// mouth is the sender of one dispatcher.
type mouth struct {
	*storm

	name string
}

func (s mouth) Send(ctx context.Context, messages []workflow.Outgoing) (sequences []int64, err error) {
	s.rows.mu.Lock()
	for _, m := range messages {
		if r := s.rows.find(m.ID); !r.leased() || !strings.HasPrefix(r.token, s.name) {
			s.t.Errorf("%s begins to send %s, which is not its own", s.name, m.ID)
		}
	}
	s.rows.mu.Unlock()
	for _, m := range messages {
		if err := s.deliver(ctx, m); err != nil {
			return sequences, err
		}
		sequences = append(sequences, 0)
	}
	return sequences, nil
}

func (mouth) Cancel(context.Context, int64) error { return nil }

func TestWhateverGoesWrongEachOrdersMessagesAreFirstSeenInOrderAndNoneIsMissing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		for _, ahead := range []int{1, 5} {
			for _, harsh := range []bool{false, true} {
				t.Run(fmt.Sprintf("seed %d, %d ahead, harsh %t", seed, ahead, harsh), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := &storm{t: t, rows: &table{ahead: ahead}, harsh: harsh, random: rand.New(rand.NewPCG(seed, seed))}
						s.rows.before, s.rows.after = s.unwell, s.unwell
						s.rage(t)
					})
				})
			}
		}
	}
}

// rage lets two dispatchers drain a thousand rows, and looks at what arrived.
func (s *storm) rage(t *testing.T) {
	var want [stormOrders][]string
	known := map[string]workflow.Outgoing{}
	write := func(order, n int) {
		id := fmt.Sprintf("order-%d:%d", order, n)
		out := workflow.Outgoing{ID: id, OrderID: fmt.Sprintf("order-%d", order), Body: fmt.Appendf(nil, "body of %s", id)}
		if n >= stormCommands {
			out.Purpose = workflow.PaymentTimeout
		} else if !never(out) {
			want[order] = append(want[order], id)
		}
		known[id] = out
		s.rows.put(out)
	}

	ctx, stop := context.WithCancel(t.Context())
	var dispatchers sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		d := s.dispatcher(name)
		wake := make(chan struct{}, 1)
		dispatchers.Go(func() { d.Run(ctx, wake) })
		dispatchers.Go(func() {
			for ctx.Err() == nil {
				_, _, _ = d.Drain(ctx)
				time.Sleep(5 * time.Second)
			}
		})
		dispatchers.Go(func() {
			for ctx.Err() == nil {
				knock(wake)
				time.Sleep(s.between(0, time.Second))
			}
		})
	}
	for n := range stormCommands + 2 {
		for order := range stormOrders {
			write(order, n)
		}
		time.Sleep(s.between(0, 4*time.Second))
	}
	for begun := time.Now(); s.rows.open() > 0; time.Sleep(time.Second) {
		if time.Since(begun) > 2*time.Hour {
			stop()
			dispatchers.Wait()
			t.Fatal("it does not come to an end")
		}
	}
	stop()
	dispatchers.Wait()
	s.late.Wait()

	seen := map[string]int{}
	var first [stormOrders][]string
	for _, m := range s.arrived {
		require.Equal(t, known[m.ID], m, "repeats are the same")
		if seen[m.ID]++; seen[m.ID] == 1 && m.Purpose == "" {
			var order int
			_, err := fmt.Sscanf(m.OrderID, "order-%d", &order)
			require.NoError(t, err)
			first[order] = append(first[order], m.ID)
		}
	}
	require.Equal(t, want, first)
	for id, out := range known {
		require.Equal(t, never(out), s.rows.find(id).dead, id)
		if !never(out) {
			require.NotZero(t, seen[id], "%s is missing", id)
		}
	}
	if repeats := len(s.arrived) - len(seen); !s.harsh {
		require.LessOrEqual(t, repeats, s.excuses, "no lease was over while its row was sent")
	}
}

func (s *storm) dispatcher(name string) *outbox.Dispatcher {
	d := dispatcher(s.rows, mouth{s, name})
	token := d.Token
	d.Token = func() string { return name + token() }
	d.Jitter = func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.random.Float64()
	}
	d.Lease, d.Parallel, d.Batch = stormLease, 8, 40
	return d
}

// open is how many rows are neither sent nor dead.
func (t *table) open() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.rows {
		if !r.ended() {
			n++
		}
	}
	return n
}
