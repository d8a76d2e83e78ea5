package workflow_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderflow/workflow"
	"orderflow/workflow/invariants"
)

// TestWhateverIsSaidInWhateverOrderNoInvariantBreaks says random things to an
// order, through Decode, with deliveries repeated and put off, and looks at
// every state. Unlike the walk, it tells real versions, generations and IDs
// apart, and goes deep.
func TestWhateverIsSaidInWhateverOrderNoInvariantBreaks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := newDesk()
		d.order.Status = workflow.NotStarted
		ids := map[string]bool{}
		word := false
		var onTheWay, delivered []workflow.Message

		deliver := func(t *rapid.T, m workflow.Message) {
			delivered = append(delivered, m)
			if d.handled[m.ID] {
				return // as the store does with a duplicate
			}
			before := d.order
			r := pureApply(t, before, m, d.held)
			require.Equal(t, r, d.takes(m))
			for i := range r.Decisions {
				one := workflow.Apply(before, r.Decisions[i].Message, nil)
				require.NoError(t, invariants.Move{From: before, To: one.Order, Decision: one.Decisions[0]}.Check())
				before = one.Order
				word = word || r.Decisions[i].Message.Type == workflow.ResolveCompleted && r.Decisions[i].Outcome == workflow.Applied
			}
			for _, e := range r.Emissions() {
				require.False(t, ids[e.ID], "%s was sent before", e.ID)
				ids[e.ID] = true
				require.LessOrEqual(t, len(e.ID), workflow.MaxIDLength)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"say": func(t *rapid.T) {
				say := anything(t, d)
				m := say.to(d.order, fmt.Sprintf("m-%d", len(delivered)+len(onTheWay)))
				if rapid.IntRange(0, 3).Draw(t, "put off") == 0 {
					onTheWay = append(onTheWay, m)
					return
				}
				deliver(t, m)
			},
			"deliver what was put off": func(t *rapid.T) {
				if len(onTheWay) == 0 {
					t.Skip("nothing was")
				}
				i := rapid.IntRange(0, len(onTheWay)-1).Draw(t, "which")
				m := onTheWay[i]
				onTheWay = append(onTheWay[:i:i], onTheWay[i+1:]...)
				deliver(t, m)
			},
			"deliver again": func(t *rapid.T) {
				if len(delivered) == 0 {
					t.Skip("nothing was delivered")
				}
				deliver(t, rapid.SampledFrom(delivered).Draw(t, "again"))
			},
			"": func(t *rapid.T) {
				require.NoError(t, invariants.State{Order: d.order, Held: d.held, Word: word}.Check())
			},
		})
	})
}

// anything is something that may be said; the likely is likelier.
func anything(t *rapid.T, d *desk) saying {
	list := events(invariants.State{Order: d.order, Held: d.held})
	if rapid.IntRange(0, 2).Draw(t, "likely") > 0 {
		likely := list[:0:0]
		for _, e := range list {
			r := workflow.Apply(d.order, e.say.straight(d.order, "m"), nil)
			if r.Decisions[0].Outcome == workflow.Applied {
				likely = append(likely, e)
			}
		}
		if len(likely) > 0 {
			list = likely
		}
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(t, "event")].say
}

// pureApply is Apply, with the proof that it is a function: what it is given
// stays as it was, the same again gives the same, and an order that was stored
// and loaded is the same order.
func pureApply(t require.TestingT, o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
	o2, m2, held2 := deepCopy(t, o), deepCopy(t, m), deepCopy(t, held)
	r := workflow.Apply(o, m, held)
	again := workflow.Apply(o, m, held)
	require.Equal(t, r, again)
	require.Equal(t, o2, deepCopy(t, o), "the order it was given")
	require.Equal(t, m2, deepCopy(t, m), "the message it was given")
	require.Equal(t, held2, deepCopy(t, held), "the held messages it was given")

	text, err := json.Marshal(o)
	require.NoError(t, err)
	loaded := workflow.Order{ID: o.ID, Status: o.Status, Version: o.Version}
	require.NoError(t, json.Unmarshal(text, &loaded))
	require.Equal(t, toldAll(r), toldAll(workflow.Apply(loaded, m, held)))
	return r
}

// toldAll is all that is decided, with the bodies that go out.
func toldAll(r workflow.Result) string {
	text := told(r) + " / " + standing(r.Order)
	for _, e := range r.Emissions() {
		text += fmt.Sprintf(" / %s %t %s", e.ID, e.Closed, e.Body)
	}
	return text + fmt.Sprint(r.Settled(), r.Order.Version, r.Order.Because)
}

// deepCopy shares nothing with the original. What JSON leaves out of an order
// is put back.
func deepCopy[T any](t require.TestingT, v T) T {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var c T
	require.NoError(t, json.Unmarshal(text, &c))
	if from, is := any(&v).(*workflow.Order); is {
		to := any(&c).(*workflow.Order)
		to.ID, to.Status, to.Version = from.ID, from.Status, from.Version
	}
	return c
}
