package ops

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"orderflow/workflow"
)

// tile is one number of the overview.
type tile struct {
	Label, Value string
	Says         string // what it counts, in words
	Link         string // where it is listed
	Tone         string // empty while nobody needs to look
}

type overview struct {
	Troubles []string // what health says a person should see to
	Still    string   // how many are stuck, which is said where health has nothing to say; empty for none
	Tiles    []tile
	Diagram  diagram
	Statuses []counted
	Stuck    []flagged
	More     bool // not all that are stuck are here
}

// counted is how many orders have a status.
type counted struct {
	Status workflow.Status
	Means  string
	Count  int
}

// flagged is an order in a list.
type flagged struct {
	workflow.Flagged
	Waits string // what moves it on
}

func flag(all []workflow.Flagged) []flagged {
	var rows []flagged
	for _, f := range all {
		rows = append(rows, flagged{f, workflow.Explain(f.Order).WaitsFor})
	}
	return rows
}

// Overview is how all orders stand: their numbers, those that are stuck, how
// many messages were refused for good, in which words health is degraded, and
// how many dead letters there are, negative for not known.
// Pages that have a Next are not all there is.
func (p *Page) Overview(s workflow.Summary, stuck workflow.Page[workflow.Flagged], rejected workflow.Page[workflow.Refused], degraded []string, deadLetters int) []byte {
	v := overview{
		Troubles: degraded, Tiles: tiles(s, stuck, rejected, deadLetters), Diagram: processDiagram(s.ByStatus), Stuck: flag(gravestFirst(stuck.Items)), More: stuck.Next != "",
	}
	if n := len(stuck.Items); n > 0 {
		v.Still = count(n, stuck.Next != "")
	}
	for _, row := range workflow.Table() {
		v.Statuses = append(v.Statuses, counted{row.Status, row.Means, s.ByStatus[row.Status]})
	}
	for _, status := range slices.Sorted(unknown(s.ByStatus)) {
		v.Statuses = append(v.Statuses, counted{status, "a newer program gave this status", s.ByStatus[status]})
	}
	return p.render("overview", v)
}

// unknown are the statuses that this program does not know.
func unknown(counts map[workflow.Status]int) func(func(workflow.Status) bool) {
	return func(yield func(workflow.Status) bool) {
		for status := range counts {
			if !status.Known() && !yield(status) {
				return
			}
		}
	}
}

func tiles(s workflow.Summary, stuck workflow.Page[workflow.Flagged], rejected workflow.Page[workflow.Refused], deadLetters int) []tile {
	var inFlight int
	for _, row := range workflow.Table() {
		if row.Deadline != "" {
			inFlight += s.ByStatus[row.Status]
		}
	}
	b := s.Backlog
	toned := func(n int, tone string) string {
		if n == 0 {
			return ""
		}
		return tone
	}
	number := strconv.Itoa
	letters := "–"
	if deadLetters >= 0 {
		letters = count(deadLetters, deadLetters >= workflow.DeadLettersCounted)
	}
	lag, since := "", ""
	if b.Waiting > 0 && b.Lag >= time.Second {
		since = ", for " + b.Lag.Round(time.Second).String()
	}
	if b.Lag > time.Minute {
		lag = "warn"
	}
	return []tile{
		{"in flight", number(inFlight), "orders that wait for an answer, each with a deadline", inFlightLink(), ""},
		{"need attention", number(s.ByStatus[workflow.NeedsAttention]), "orders about which only a person can decide", statusLink(workflow.NeedsAttention), toned(s.ByStatus[workflow.NeedsAttention], "warn")},
		{"blocked", number(b.Blocked), "orders that wait behind a message that could not be handled", "#/orders?blocked=true", toned(b.Blocked, "bad")},
		{"stuck", count(len(stuck.Items), stuck.Next != ""), "orders that do not move as they should", "#/orders?stuck=true", toned(len(stuck.Items), "warn")},
		{"early", number(b.Early), "messages that are held until they matter", "#/messages?kind=early", ""},
		{"to be sent" + since, number(b.Waiting), "messages in the outbox that could be sent now, and for how long the oldest could have been", "#/messages?kind=waiting", lag},
		{"dead commands", number(b.Dead), "commands that the broker refused for good", "#/messages?kind=dead", toned(b.Dead, "bad")},
		{"overdue", number(b.Overdue), "deadlines that the broker should have brought by now", "#/messages?kind=scheduled", toned(b.Overdue, "warn")},
		{"rejected", count(len(rejected.Items), rejected.Next != ""), "messages that were refused for good and that nobody has dealt with", "#/messages?kind=rejected", toned(len(rejected.Items), "warn")},
		{"dead letters", letters, "messages that the broker gave up, as they were last counted", "#/messages?kind=dead-letters", toned(max(0, deadLetters), "bad")},
	}
}

// inFlightLink lists the orders that have a deadline.
func inFlightLink() string {
	var all []workflow.Status
	for _, row := range workflow.Table() {
		if row.Deadline != "" {
			all = append(all, row.Status)
		}
	}
	return ordersLink(workflow.Search{Statuses: all}, false, "")
}

// gravestFirst has what only a person can move first, and of the same kind what
// waits longest.
func gravestFirst(all []workflow.Flagged) []workflow.Flagged {
	grave := []workflow.StuckKind{
		workflow.StuckAttention, workflow.StuckBlocked, workflow.StuckDead, workflow.StuckOverdue, workflow.StuckUnsent,
		workflow.StuckUnanswered, workflow.StuckEarly,
	}
	rank := func(f workflow.Flagged) int {
		if len(f.Stuck) == 0 {
			return len(grave)
		}
		return slices.Index(grave, f.Stuck[0].Kind)
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b workflow.Flagged) int {
		return cmp.Or(rank(a)-rank(b), a.Since.Compare(b.Since))
	})
	return all
}
