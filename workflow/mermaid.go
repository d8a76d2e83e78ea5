package workflow

import (
	"slices"
	"strconv"
	"strings"
)

// Edge is an arrow of the process: what leads from one status to another, or to
// BackOut or from there.
type Edge struct {
	From, To Status
	On       []Transition // none from BackOut, where an effect decides and no message
	When     string       // from BackOut: in which case it leads there
	Send     string       // from BackOut: what goes out, in words; empty for nothing
}

// Edges are the arrows of the process, computed from the table. Messages that
// leave an order where it is are left out.
func Edges() []Edge {
	var all []Edge
	for _, row := range Table() {
		first := len(all)
		for _, t := range row.On {
			if t.To == Stay {
				continue
			}
			at := slices.IndexFunc(all[first:], func(e Edge) bool { return e.To == t.To })
			if at < 0 {
				at = len(all) - first
				all = append(all, Edge{From: row.Status, To: t.To})
			}
			all[first+at].On = append(all[first+at].On, t)
		}
	}
	return append(all,
		Edge{From: BackOut, To: Compensating, When: "an effect stands", Send: "RefundPayment, then ReleaseInventory"},
		Edge{From: BackOut, To: Cancelled, When: "nothing stands", Send: "CancelOrder"},
		Edge{From: BackOut, To: NeedsAttention, When: "only a person can judge"},
		Edge{From: BackOut, To: Completed, When: "everything was delivered after all"},
	)
}

// Labels are what stands on the arrow: its messages, each with the command that
// it sends, or in which case it is taken.
func (e Edge) Labels() []string {
	label := func(on, send string) string {
		if send == "" {
			return on
		}
		return on + " / " + send
	}
	if e.When != "" {
		return []string{label(e.When, e.Send)}
	}
	var all []string
	for _, t := range e.On {
		all = append(all, label(string(t.On), string(t.Send)))
	}
	return all
}

// Mermaid draws the process as a Mermaid state diagram.
func Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	b.WriteString("    state \"back out\" as BackOut\n")
	b.WriteString("    [*] --> NotStarted\n")
	for _, e := range Edges() {
		b.WriteString("    " + string(e.From) + " --> " + string(e.To) + ": " + strings.Join(e.Labels(), ", ") + "\n")
	}
	b.WriteString("    Completed --> [*]\n")
	b.WriteString("    Cancelled --> [*]\n")
	return b.String()
}

// MermaidOf draws the process with an order's place in it marked. The order's
// own words are left out of it: a diagram is no place for what others wrote.
func MermaidOf(o Order) string {
	if o.Status == "" {
		o.Status = NotStarted
	}
	if !o.Status.Known() { // of a newer program
		return Mermaid()
	}
	return Mermaid() +
		"    classDef here fill:#ffd54f,stroke:#e65100,stroke-width:3px,color:#000\n" +
		"    class " + string(o.Status) + " here\n" +
		"    note right of " + string(o.Status) + "\n" +
		"        " + o.ID + " is here, at version " + strconv.FormatInt(o.Version, 10) + "\n" +
		"    end note\n"
}
