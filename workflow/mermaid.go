package workflow

import (
	"strconv"
	"strings"
)

// Mermaid draws the process as a Mermaid state diagram, computed from the
// table. Messages that leave an order where it is are left out.
func Mermaid() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	b.WriteString("    state \"back out\" as BackOut\n")
	b.WriteString("    [*] --> NotStarted\n")
	for _, row := range Table() {
		var targets []Status
		labels := make(map[Status][]string)
		for _, t := range row.On {
			if t.To == Stay {
				continue
			}
			if labels[t.To] == nil {
				targets = append(targets, t.To)
			}
			label := string(t.On)
			if t.Send != "" {
				label += " / " + string(t.Send)
			}
			labels[t.To] = append(labels[t.To], label)
		}
		for _, to := range targets {
			b.WriteString("    " + string(row.Status) + " --> " + string(to) + ": " + strings.Join(labels[to], ", ") + "\n")
		}
	}
	b.WriteString("    BackOut --> Compensating: an effect stands / RefundPayment, then ReleaseInventory\n")
	b.WriteString("    BackOut --> Cancelled: nothing stands / CancelOrder\n")
	b.WriteString("    BackOut --> NeedsAttention: only a person can judge\n")
	b.WriteString("    BackOut --> Completed: everything was delivered after all\n")
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
