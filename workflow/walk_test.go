package workflow_test

import (
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/invariants"
)

// walkFull widens the world that is walked to bounds that take about a minute:
//
//	go test -v -run TestTheWalk ./workflow -walk.full
var walkFull = flag.Bool("walk.full", false, "walk the order process within wider bounds")

// place is a status and a message type: a cell of the matrix.
type place struct {
	in workflow.Status
	on workflow.MessageType
}

// walked is what was seen on a walk.
type walked struct {
	bounds  bounds
	worlds  int // states of the world: an order's, and what may still happen
	orders  int // an order's states alone
	moves   int // decisions looked at
	rules   map[place]map[int]bool
	taken   map[place]map[workflow.Status]bool // where table rows led
	reached map[workflow.Status]bool
}

// theWalk is walked once, for all tests that look at it.
var theWalk = sync.OnceValues(func() (*walked, error) {
	switch {
	case *walkFull:
		return walk(bounds{answers: 3, retries: 2, unasked: 3})
	case testing.Short():
		return walk(bounds{answers: 1, retries: 0, unasked: 1})
	case raceDetector:
		return walk(bounds{answers: 2, retries: 1, unasked: 1})
	}
	return walk(bounds{answers: 2, retries: 2, unasked: 1})
})

// world is a state of the world: an order's by number, and how often each thing has
// happened, in slotWidth bits each.
type world struct {
	at   int32
	used uint32
}

// edge is an event that changes something: what it uses up, and where it leads.
type edge struct {
	uses int
	to   int32
}

type walker struct {
	walked
	states []invariants.State
	number map[string]int32
	edges  [][]edge
}

// walk visits, breadth first, every state of the world within the bounds, and
// checks every invariant in each. What an order does depends on the order
// alone, so each order's state is looked at once, and the world walks over the
// edges found there.
func walk(b bounds) (*walked, error) {
	w := &walker{
		walked: walked{
			bounds: b,
			rules:  map[place]map[int]bool{}, taken: map[place]map[workflow.Status]bool{},
			reached: map[workflow.Status]bool{},
		},
		number: map[string]int32{},
	}
	first, err := w.meet(invariants.State{Order: workflow.Order{ID: theOrder, Status: workflow.NotStarted}})
	if err != nil {
		return nil, err
	}
	limit := [slots]int{}
	for i := range limit {
		limit[i] = b.answers
	}
	limit[cancel], limit[retrying], limit[unasked] = 1, b.retries, b.unasked

	met := map[world]struct{}{{at: first}: {}}
	queue := []world{{at: first}}
	for len(queue) > 0 {
		here := queue[0]
		queue = queue[1:]
		edges, err := w.look(here.at)
		if err != nil {
			return nil, err
		}
		for _, e := range edges {
			next := world{at: e.to, used: here.used}
			if e.uses != free {
				shift := slotWidth * e.uses
				if int(here.used>>shift&(1<<slotWidth-1)) >= limit[e.uses] {
					continue
				}
				next.used += 1 << shift
			}
			if _, known := met[next]; !known {
				met[next] = struct{}{}
				queue = append(queue, next)
			}
		}
	}
	w.worlds, w.orders = len(met), len(w.states)
	return &w.walked, nil
}

// meet numbers an order's state and checks it when it is new.
func (w *walker) meet(s invariants.State) (int32, error) {
	name := key(s)
	if n, known := w.number[name]; known {
		return n, nil
	}
	n := int32(len(w.states))
	if n > 100_000 {
		return 0, errors.New("the states do not end: something counts without bound")
	}
	w.number[name] = n
	w.states = append(w.states, s)
	w.edges = append(w.edges, nil)
	w.reached[s.Order.Status] = true
	return n, s.Check()
}

// look lets everything happen to an order's state that can, once, and keeps
// what changed something. It looks one step beyond the bounds.
func (w *walker) look(n int32) ([]edge, error) {
	if w.edges[n] != nil {
		return w.edges[n], nil
	}
	s := w.states[n]
	edges := []edge{}
	if max(invariants.Sent(s.Order, workflow.RefundPayment), invariants.Sent(s.Order, workflow.ReleaseInventory)) > attempts {
		return nil, errors.New("an undo is sent again and again")
	}
	for i, e := range events(s) {
		m := e.say.straight(s.Order, fmt.Sprintf("m-%d-%d", n, i))
		r := workflow.Apply(s.Order, m, s.Held)
		if err := w.watch(s, r); err != nil {
			return nil, fmt.Errorf("%s, %s, is told %s %+v: %w", s.Order.Status, key(s), m.Type, m.Facts, err)
		}
		if first := r.Decisions[0].Outcome; first != workflow.Applied && first != workflow.Held {
			continue
		}
		next := s.After(r)
		to, err := w.meet(next)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, is told %s %+v: %w", s.Order.Status, key(s), m.Type, m.Facts, err)
		}
		if to != n {
			edges = append(edges, edge{e.uses, to})
		}
	}
	w.edges[n] = edges
	return edges, nil
}

// watch checks each decision of a result, and that taking up what was held is
// the same as deciding one message after the other.
func (w *walker) watch(s invariants.State, r workflow.Result) error {
	at := s.Order
	for i, d := range r.Decisions {
		one := r
		if len(r.Decisions) > 1 {
			one = workflow.Apply(at, d.Message, nil)
		}
		if err := (invariants.Move{From: at, To: one.Order, Decision: one.Decisions[0]}).Check(); err != nil {
			return err
		}
		if got, want := toldOne(&r.Decisions[i]), toldOne(&one.Decisions[0]); got != want {
			return fmt.Errorf("taken up, %s is %q; alone it is %q", d.Message.Type, got, want)
		}
		w.note(at, one.Decisions[0])
		at = one.Order
	}
	if !invariants.Same(at, r.Order) {
		return errors.New("taken up together, the messages lead elsewhere than one by one")
	}
	return nil
}

func (w *walker) note(at workflow.Order, d workflow.Decision) {
	w.moves++
	cell := place{at.Status, d.Message.Type}
	rule := workflow.DecidedBy(at, d.Message)
	if w.rules[cell] == nil {
		w.rules[cell], w.taken[cell] = map[int]bool{}, map[workflow.Status]bool{}
	}
	w.rules[cell][rule] = true
	if rule == 8 && d.Outcome == workflow.Applied {
		w.taken[cell][d.To] = true
	}
}

func TestTheWalkMeetsEveryCellAndBreaksNoInvariant(t *testing.T) {
	t.Parallel()
	w, err := theWalk()
	require.NoError(t, err)
	require.Len(t, w.rules, len(statuses)*len(types), "every cell is met")
	t.Logf("%d states of the world, %d of the order, %d decisions, %d cells; bounds %+v",
		w.worlds, w.orders, w.moves, len(w.rules), w.bounds)
}

func TestEveryStatusIsReached(t *testing.T) {
	t.Parallel()
	w, err := theWalk()
	require.NoError(t, err)
	for _, status := range statuses {
		require.True(t, w.reached[status], "%s is never reached", status)
	}
	require.Len(t, w.reached, len(statuses))
}

func TestEveryRowOfTheTableIsUsed(t *testing.T) {
	t.Parallel()
	w, err := theWalk()
	require.NoError(t, err)
	for _, row := range workflow.Table() {
		for _, transition := range row.On {
			require.NotEmpty(t, w.taken[place{row.Status, transition.On}],
				"%s in %s is in the table and never taken", transition.On, row.Status)
		}
		for _, list := range [][]workflow.MessageType{row.Stale, row.Early} {
			for _, on := range list {
				require.True(t, w.rules[place{row.Status, on}][8],
					"%s in %s is in the table, which is never asked", on, row.Status)
			}
		}
	}
}
