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
	told   map[string]map[string]string // what was told of a message, by order and message
	rested map[string]int64             // the version at which a timeline was shown
	start  time.Time

	news chan struct{} // has a token when there is something to tell
	todo []string      // orders to look at
}

func newNarrator(out io.Writer, start time.Time) *narrator {
	return &narrator{
		out: out, start: start, told: make(map[string]map[string]string), rested: make(map[string]int64),
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

// recall takes an order of an earlier run as told, and says where it stands if
// it is not at an end.
func (n *narrator) recall(story workflow.Story) {
	o := &story.Order
	n.unheard(story)
	n.rested[o.ID] = o.Version
	switch {
	case story.BlockedBy != "":
		fmt.Fprintf(n.out, "          %-22s %s, blocked by %s: it waits for %s\n", o.ID, o.Status, story.BlockedBy, story.WaitsFor())
	case !o.Status.AtRest():
		fmt.Fprintf(n.out, "          %-22s %s: %s\n", o.ID, o.Status, workflow.Explain(*o))
	}
}

// tell prints what is new about an order, and its timeline when it has come to
// rest.
func (n *narrator) tell(story workflow.Story) {
	o := &story.Order
	for _, line := range n.unheard(story) {
		fmt.Fprintf(n.out, "%7.1fs  %-22s %s\n", line.at.Sub(n.start).Seconds(), o.ID, line.text)
	}
	if version, shown := n.rested[o.ID]; o.Status.AtRest() && (!shown || version != o.Version) {
		n.rested[o.ID] = o.Version
		fmt.Fprint(n.out, timeline(story))
	}
}

// line is something that happened to an order.
type line struct {
	at   time.Time
	text string
}

// unheard is what happened to an order and was not told yet, oldest first. It
// counts as told from now on.
func (n *narrator) unheard(story workflow.Story) []line {
	told := n.told[story.Order.ID]
	if told == nil {
		told = make(map[string]string)
		n.told[story.Order.ID] = told
	}
	var lines []line
	for _, e := range story.Journal {
		if told[e.MessageID] != string(e.Outcome) {
			told[e.MessageID] = string(e.Outcome)
			lines = append(lines, line{e.At, entry(story.Order.ID, e)})
		}
	}
	for _, r := range story.Rejected {
		if id := "rejected " + r.MessageID + r.Reason; told[id] == "" {
			told[id] = "told"
			lines = append(lines, line{r.At, refusal(r)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	return lines
}

// refusal is one rejected message in one line.
func refusal(r workflow.Refusal) string {
	return fmt.Sprintf("%-27s rejected: %s", r.Type, r.Reason)
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
	var lines []line
	for _, e := range story.Journal {
		lines = append(lines, line{e.At, fmt.Sprintf("v%-2d %s", e.Version, entry(o.ID, e))})
	}
	for _, r := range story.Rejected {
		lines = append(lines, line{r.At, "    " + refusal(r)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range lines {
		fmt.Fprintf(&b, "  │ %6.1fs  %s\n", l.at.Sub(story.CreatedAt).Seconds(), l.text)
	}
	for _, fact := range workflow.Explain(o).Facts {
		fmt.Fprintf(&b, "  │ %s\n", fact)
	}
	b.WriteString("\n")
	return b.String()
}
