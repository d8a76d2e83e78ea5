package workflow

// DecidedBy is the number of the rule that decides a message, in process.md's
// count: 1 to 7, or 8 for the table.
func DecidedBy(o Order, m Message) int {
	for i, rule := range rules {
		if outcome, _ := rule(&o, &m); outcome != "" {
			return i + 1
		}
	}
	return 8
}
