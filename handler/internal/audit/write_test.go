package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/workflow"
)

// memory is a table in memory.
type memory struct {
	mu   sync.Mutex
	rows map[string]map[string]entity
	puts [][]entity
	// before is asked before entities are put, outside the lock; listing fails
	// with away. Nil never fails.
	before func(ctx context.Context, entities []entity) error
	away   error
}

func (m *memory) put(ctx context.Context, entities []entity) error {
	m.mu.Lock()
	m.puts = append(m.puts, entities)
	m.mu.Unlock()
	if m.before != nil {
		if err := m.before(ctx, entities); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entities {
		if m.rows == nil {
			m.rows = make(map[string]map[string]entity)
		}
		if m.rows[e.PartitionKey] == nil {
			m.rows[e.PartitionKey] = make(map[string]entity)
		}
		m.rows[e.PartitionKey][e.RowKey] = e
	}
	return nil
}

func (m *memory) list(_ context.Context, partition, after string, most int) (all []entity, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, e := range m.rows[partition] {
		if key > after {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b entity) int { return strings.Compare(a.RowKey, b.RowKey) })
	return all[:min(most, len(all))], m.away
}

func (m *memory) tried() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.puts)
}

// holding is a writer to a table in memory.
func holding(m *memory, s *source) (*Writer, *diary) {
	var said diary
	return &Writer{source: s, table: m, log: said.logger(), jitter: func() float64 { return 1 }}, &said
}

// poisoned refuses whatever has an event in it, in each of its forms, and what
// is more than so many at once.
func poisoned(most int, bad func(e entity) bool) func(context.Context, []entity) error {
	return func(_ context.Context, entities []entity) error {
		if len(entities) > most || slices.ContainsFunc(entities, bad) {
			return fmt.Errorf("%w: 400 InvalidInput", errRefused)
		}
		return nil
	}
}

func TestLinesHoldEveryEventOnceEachOrdersInItsOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 50).Draw(t, "n")
		all := make([]workflow.Event, n)
		for i := range all {
			all[i] = workflow.Event{
				OrderID: rapid.SampledFrom([]string{"", "a", "A", "_"}).Draw(t, "order"),
				Key:     fmt.Sprint(rapid.IntRange(0, n).Draw(t, "key")), At: begun.Add(time.Duration(i/3) * time.Second), Version: int64(i),
			}
		}
		var listed []workflow.Event
		partitions, rows := map[string]bool{}, map[string]bool{}
		for _, l := range lines(all) {
			require.NotEmpty(t, l)
			partition := l[0].entity.PartitionKey
			require.False(t, partitions[partition], "an order is one line")
			partitions[partition] = true
			last := int64(-1)
			for _, r := range l {
				require.Equal(t, partition, r.entity.PartitionKey)
				require.False(t, rows[partition+"/"+r.entity.RowKey], "a key is one row")
				rows[partition+"/"+r.entity.RowKey] = true
				require.Greater(t, r.events[0].Version, last)
				last = r.events[0].Version
				listed = append(listed, r.events...)
			}
		}
		require.ElementsMatch(t, all, listed)
	})
}

func TestEveryBatchIsWithinTheServicesLimitsAndLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(3000, 5000), rapid.IntRange(3000, 1<<20)), 1, 450).Draw(t, "sizes")
		var all, joined line
		for _, size := range sizes {
			all = append(all, row{size: size, events: events("order-1", 1)})
		}
		for _, batch := range all.batches() {
			require.NotEmpty(t, batch)
			require.LessOrEqual(t, len(batch), 100)
			size := 0
			for _, r := range batch {
				size += r.size
			}
			require.LessOrEqual(t, size, 4<<20-64<<10)
			joined = append(joined, batch...)
		}
		require.Equal(t, all, joined)
	})
}

func TestABatchIsAsLargeAsItMayBe(t *testing.T) {
	t.Parallel()
	sizes := func(all []line) (n []int) {
		for _, l := range all {
			n = append(n, len(l))
		}
		return n
	}
	require.Equal(t, []int{100}, sizes(lines(events("order-1", 100))[0].batches()))
	require.Equal(t, []int{100, 1}, sizes(lines(events("order-1", 101))[0].batches()))
	large := events("order-1", 60)
	for i := range large {
		large[i].Reason = strings.Repeat("<", 32_000)
	}
	require.Equal(t, []int{21, 21, 18}, sizes(lines(large)[0].batches()))
}

func TestOfAnEventListedTwiceTheLatterIsWrittenAndBothAreConfirmed(t *testing.T) {
	t.Parallel()
	e := events("order-1", 1)[0]
	later := e
	later.Reason = "told again"
	m := &memory{}
	s := &source{waiting: []workflow.Event{e, later}}
	w, _ := holding(m, s)
	written, more, err := w.Write(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, written)
	require.False(t, more)
	require.Equal(t, []workflow.Event{later}, story(trail(t, w, "order-1")))
	require.Zero(t, s.left())
}

func TestAnOrdersEventsAreWrittenOldestFirst(t *testing.T) {
	t.Parallel()
	m := &memory{}
	s := &source{waiting: events("order-1", 480)}
	w, _ := holding(m, s)
	passes(t, w)
	var order []string
	for _, batch := range m.puts {
		for _, e := range batch {
			order = append(order, e.RowKey)
		}
	}
	require.Len(t, order, 480)
	slices.Reverse(order)
	require.True(t, slices.IsSorted(order))
}

func TestAPassIsBoundedAndSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	s := &source{waiting: events("order-1", 1100)}
	w, _ := holding(&memory{}, s)
	for _, want := range []struct {
		written int
		more    bool
	}{{500, true}, {500, true}, {100, false}, {0, false}} {
		written, more, err := w.Write(t.Context())
		require.NoError(t, err)
		require.Equal(t, want.written, written)
		require.Equal(t, want.more, more)
	}
}

func TestABatchThatIsRefusedIsHalvedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	m := &memory{before: poisoned(30, func(entity) bool { return false })}
	want := events("order-1", 100)
	s := &source{waiting: slices.Clone(want)}
	w, said := holding(m, s)
	require.Equal(t, 100, passes(t, w))
	require.Equal(t, want, story(trail(t, w, "order-1")))
	require.Equal(t, 7, m.tried(), "100, 50, 25, 25, 50, 25, 25")
	require.Empty(t, said.read())
}

func TestOfABatchThatWasHalvedNothingIsWrittenBeforeWhatIsOlder(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.before = func(_ context.Context, entities []entity) error {
		switch {
		case len(entities) > 25:
			return errRefused
		case m.tried() == 4: // 100, 50, 25, and this
			return errors.New("away")
		default:
			return nil
		}
	}
	all := events("order-1", 100)
	s := &source{waiting: slices.Clone(all)}
	w, _ := holding(m, s)
	written, _, err := w.Write(t.Context())
	require.EqualError(t, err, "away")
	require.Equal(t, 25, written)
	require.Equal(t, 4, m.tried())
	require.Equal(t, all[:25], story(trail(t, w, "order-1")))
}

func TestAnEventThatIsRefusedAsItIsIsWrittenInPart(t *testing.T) {
	t.Parallel()
	want := append(events("order-1", 50), events("order-2", 3)...)
	want[17].Reason = "bad \x00"
	s := &source{waiting: slices.Clone(want)}
	m := &memory{before: poisoned(100, func(e entity) bool { return strings.Contains(fmt.Sprint(e.Properties["Reason"]), "\x00") })}
	w, said := holding(m, s)
	require.Equal(t, 53, passes(t, w))
	require.Zero(t, s.left())
	require.Equal(t, want[50:], story(trail(t, w, "order-2")))
	got := trail(t, w, "order-1")
	slices.Reverse(got)
	require.Equal(t, `bad \x00`, got[17].Reason)
	require.Equal(t, "its texts are cut and escaped, because as it was: the table takes no such entity: 400 InvalidInput", got[17].Note)
	got[17].Reason = want[17].Reason
	for i := range got {
		require.Equal(t, want[i], got[i].Event)
	}
	require.Equal(t, []string{
		`level=WARN msg="an event is in the audit in part only" orderId=order-1 event=message:order-1:17 error="the table takes no such entity: 400 InvalidInput"`,
	}, said.read())
}

func TestAnEventThatIsRefusedInAnyFormIsLeftOutAndTheOthersAreNot(t *testing.T) {
	t.Parallel()
	want := append(events("order-1", 50), events("order-2", 3)...)
	s := &source{waiting: slices.Clone(want)}
	bad := rowKey(want[17].At, want[17].Key)
	m := &memory{before: poisoned(100, func(e entity) bool { return e.PartitionKey == "order-1" && e.RowKey == bad })}
	w, said := holding(m, s)
	require.Equal(t, 53, passes(t, w))
	require.Zero(t, s.left(), "it does not come again for ever")
	require.Equal(t, want[50:], story(trail(t, w, "order-2")))
	require.Equal(t, slices.Delete(slices.Clone(want[:50]), 17, 18), story(trail(t, w, "order-1")))
	require.Equal(t, []string{
		`level=ERROR msg="an event is not in the audit" orderId=order-1 event=message:order-1:17 error="the table takes no such entity: 400 InvalidInput"`,
	}, said.read())
}

func TestATableThatRefusesEverythingIsAwayAndNothingIsLost(t *testing.T) {
	t.Parallel()
	m := &memory{before: poisoned(0, nil), away: errors.New("400 too")}
	s := &source{waiting: append(events("order-1", 2), events("order-2", 1)...)}
	w, said := holding(m, s)
	written, _, err := w.Write(t.Context())
	require.ErrorIs(t, err, errRefused)
	require.Zero(t, written)
	require.Equal(t, 3, s.left())
	require.Empty(t, said.read())
}

func TestATableThatGoesWhileAnEventIsRefusedKeepsItWaiting(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.before = func(_ context.Context, entities []entity) error {
		if entities[0].Properties[noteColumn] == nil {
			return errRefused
		}
		return errors.New("away")
	}
	s := &source{waiting: events("order-1", 1)}
	w, _ := holding(m, s)
	_, _, err := w.Write(t.Context())
	require.EqualError(t, err, "away")
	require.Equal(t, 1, s.left())
}

func TestAPanicInOneOrdersEventsIsNoneOfTheOthers(t *testing.T) {
	t.Parallel()
	m := &memory{}
	m.before = func(_ context.Context, entities []entity) error {
		if entities[0].PartitionKey == "order-2" {
			panic("slice bounds out of range")
		}
		return nil
	}
	s := &source{waiting: slices.Concat(events("order-1", 1), events("order-2", 1), events("order-3", 1))}
	w, _ := holding(m, s)
	written, _, err := w.Write(t.Context())
	require.EqualError(t, err, "write the audit: panic: slice bounds out of range")
	require.Equal(t, 2, written)
	require.Equal(t, 1, s.left())
}

func TestOneOrderThatFailsDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	m := &memory{before: func(_ context.Context, entities []entity) error {
		if entities[0].PartitionKey == "order-0" {
			return errors.New("503 ServerBusy")
		}
		return nil
	}}
	s := &source{}
	for n := range 100 {
		s.add(events(fmt.Sprint("order-", n), 2)...)
	}
	w, _ := holding(m, s)
	written, more, err := w.Write(t.Context())
	require.EqualError(t, err, "503 ServerBusy")
	require.Equal(t, 198, written)
	require.True(t, more)
	require.Equal(t, 2, s.left())
}

func TestATableThatIsAwayIsTriedAFewTimesInAPass(t *testing.T) {
	t.Parallel()
	s := &source{}
	for n := range 300 {
		s.add(events(fmt.Sprint("order-", n), 1)...)
	}
	m := &memory{before: func(context.Context, []entity) error { return errors.New("away") }}
	w, _ := holding(m, s)
	_, _, err := w.Write(t.Context())
	require.EqualError(t, err, "away")
	require.Equal(t, 3, m.tried())

	gone := &memory{} // it goes when it was seen to work
	gone.before = func(context.Context, []entity) error {
		if gone.tried() > 50 {
			return errors.New("away")
		}
		return nil
	}
	w, _ = holding(gone, s)
	written, more, err := w.Write(t.Context())
	require.EqualError(t, err, "away")
	require.True(t, more)
	require.GreaterOrEqual(t, written, 43)
	require.LessOrEqual(t, gone.tried(), 50+3+parallel)
	require.Equal(t, 300-written, s.left(), "what was written is confirmed")
}

func TestWhatWasWrittenIsConfirmedThoughThePassEndsAmidst(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m := &memory{}
	m.before = func(_ context.Context, entities []entity) error {
		if entities[0].PartitionKey == "order-2" {
			cancel() // in the middle of it
		}
		return nil
	}
	all := slices.Concat(events("order-1", 150), events("order-2", 2))
	s := &source{waiting: slices.Clone(all)}
	w, _ := holding(m, s)
	written, more, err := w.Write(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, more)
	require.Equal(t, 150, written)
	require.Equal(t, 2, s.left())
	m.before = nil
	require.Equal(t, 2, passes(t, w), "the rest is for the next")
	require.Equal(t, all[:150], story(trail(t, w, "order-1")))
}

func TestATableThatIsSlowIsNotAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{before: func(ctx context.Context, _ []entity) error {
			select {
			case <-time.After(4 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		s := &source{}
		for n := range 100 {
			s.add(events(fmt.Sprint("order-", n), 1)...)
		}
		w, _ := holding(m, s)
		begun := time.Now()
		written, more, err := w.Write(t.Context())
		require.NoError(t, err)
		require.True(t, more)
		require.Equal(t, 1+6*parallel, written)
		require.LessOrEqual(t, time.Since(begun), passTime)
		require.Equal(t, 100-written, s.left())

		m.before = func(ctx context.Context, _ []entity) error { <-ctx.Done(); return ctx.Err() }
		_, _, err = w.Write(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded, "one that takes nothing is")
	})
}

func TestASourceThatFailsIsSaidToBeIt(t *testing.T) {
	t.Parallel()
	broken := errors.New("no database")
	s := &source{waiting: events("order-1", 1)}
	w, _ := holding(&memory{}, s)
	s.fails = func() error { return broken }
	_, _, err := w.Write(t.Context())
	require.ErrorIs(t, err, errSource)
	require.ErrorIs(t, err, broken)
	s.fails, s.lost = nil, func() error { return broken }
	written, _, err := w.Write(t.Context())
	require.ErrorIs(t, err, errSource)
	require.ErrorIs(t, err, broken)
	require.Zero(t, written, "it is not confirmed")
	s.lost = nil
	require.Equal(t, 1, passes(t, w))
}

// stuck is a source that confirms nothing and waits for its context to end.
type stuck struct{ source }

func (s *stuck) Audited(ctx context.Context, _ []workflow.Event) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAConfirmationIsBoundedAndShorterWhenTheProcessStops(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ stopAfter, took time.Duration }{
		"it goes on":    {time.Hour, 15 * time.Second},
		"it stops":      {5 * time.Second, 7 * time.Second},
		"it had ceased": {0, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				m := &memory{}
				w := &Writer{source: &stuck{source{waiting: events("order-1", 200)}}, table: m}
				m.before = func(context.Context, []entity) error {
					if c.stopAfter == 0 && m.tried() == 2 {
						cancel()
					}
					return nil
				}
				if c.stopAfter > 0 {
					time.AfterFunc(c.stopAfter, cancel)
				}
				begun := time.Now()
				_, _, err := w.Write(ctx)
				require.ErrorIs(t, err, errSource)
				require.Equal(t, c.took, time.Since(begun))
			})
		})
	}
}
