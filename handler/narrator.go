package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"orderflow/workflow"
)

// narrator tells the orders' stories as they happen, in lines that a person can
// read. It hears of each invocation and reads the order's journal.
type narrator struct {
	out io.Writer

	mu     sync.Mutex
	told   map[string]map[string]workflow.Outcome // by order and message
	rested map[string]int64                       // the version at which a timeline was shown
	start  time.Time

	news chan struct{} // has a token when there is something to tell
	todo []string      // orders to look at
}

func newNarrator(out io.Writer) *narrator {
	return &narrator{
		out: out, told: make(map[string]map[string]workflow.Outcome), rested: make(map[string]int64),
		news: make(chan struct{}, 1),
	}
}

// heard notes that something may have happened to an order. It does not wait.
func (n *narrator) heard(orderID string) {
	if orderID == "" {
		return
	}
	n.mu.Lock()
	if !slices.Contains(n.todo, orderID) {
		n.todo = append(n.todo, orderID)
	}
	n.mu.Unlock()
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// next takes the orders to look at.
func (n *narrator) next() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	orders := n.todo
	n.todo = nil
	return orders
}

// tell prints what is new about an order, and its timeline when it has come to
// rest.
func (n *narrator) tell(story workflow.Story) {
	o := &story.Order
	told := n.told[o.ID]
	if told == nil {
		told = make(map[string]workflow.Outcome)
		n.told[o.ID] = told
	}
	for _, e := range story.Journal {
		if n.start.IsZero() {
			n.start = e.At
		}
		if told[e.MessageID] != e.Outcome {
			told[e.MessageID] = e.Outcome
			fmt.Fprintf(n.out, "%7.1fs  %-22s %s\n", e.At.Sub(n.start).Seconds(), o.ID, entry(o.ID, e))
		}
	}
	if version, shown := n.rested[o.ID]; o.Status.AtRest() && (!shown || version != o.Version) {
		n.rested[o.ID] = o.Version
		fmt.Fprint(n.out, timeline(story))
	}
}

// entry is one decision in one line.
func entry(orderID string, e workflow.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-27s ", e.Type)
	switch {
	case e.Outcome != workflow.Applied:
		fmt.Fprintf(&b, "%s: %s", strings.ToLower(string(e.Outcome)), e.Reason)
	case e.From == e.To:
		fmt.Fprintf(&b, "%s: %s", e.To, e.Reason)
	default:
		fmt.Fprintf(&b, "→ %s: %s", e.To, e.Reason)
	}
	if len(e.Emitted) > 0 {
		b.WriteString(" ⇒ " + strings.ReplaceAll(strings.Join(e.Emitted, ", "), orderID+":", ""))
	}
	return b.String()
}

// timeline is an order's whole story, once it has come to rest.
func timeline(story workflow.Story) string {
	o := story.Order
	var b strings.Builder
	fmt.Fprintf(&b, "\n  ── %s is %s: %s\n", o.ID, o.Status, workflow.Explain(o))
	for _, e := range story.Journal {
		fmt.Fprintf(&b, "  │ %6.1fs  v%-2d %s\n", e.At.Sub(story.CreatedAt).Seconds(), e.Version, entry(o.ID, e))
	}
	for _, r := range story.Rejected {
		fmt.Fprintf(&b, "  │ %6.1fs      %-27s rejected: %s\n", r.At.Sub(story.CreatedAt).Seconds(), r.Type, r.Reason)
	}
	for _, fact := range workflow.Explain(o).Facts {
		fmt.Fprintf(&b, "  │ %s\n", fact)
	}
	b.WriteString("\n")
	return b.String()
}
