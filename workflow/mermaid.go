package workflow

import "strings"

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
