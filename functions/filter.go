package functions

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderflow/workflow"
)

// How long a page is.
const (
	defaultTop = 50
	mostTop    = 1000
)

// filter reads the parameters of a list, and keeps what is wrong with the first
// one that is wrong. A parameter without a value is one that is not there.
type filter struct {
	c       *call
	detail  string
	allowed string
}

func (f *filter) wrong(name, allowed string) {
	if f.detail == "" {
		f.detail = fmt.Sprintf("the parameter %s cannot be %s", name, quote(f.c.query.Get(name)))
		f.allowed = name + " is " + allowed
	}
}

// refusal says what is wrong, if anything is.
func (f *filter) refusal() (refusal reply, ok bool) {
	if f.detail == "" {
		return reply{}, true
	}
	return f.c.rec.refuse(http.StatusBadRequest, f.detail, f.allowed), false
}

// choice is a parameter that is one of some, the first of them by default.
func (f *filter) choice(name string, of ...string) string {
	value := f.c.query.Get(name)
	if value == "" {
		return of[0]
	}
	if !slices.Contains(of, value) {
		f.wrong(name, "one of "+strings.Join(of, ", "))
	}
	return value
}

func (f *filter) format() string { return f.choice("format", "json", "csv", "ndjson") }

func (f *filter) yes(name string) bool { return f.choice(name, "false", "true") == "true" }

func (f *filter) top() int {
	const name = "top"
	n, fault := topOf(f.c.query.Get(name), defaultTop)
	if fault != "" {
		f.wrong(name, fault)
	}
	return n
}

// topOf is how many are asked for, or what it has to be instead.
func topOf(value string, otherwise int) (n int, fault string) {
	if value == "" {
		return otherwise, ""
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > mostTop {
		return otherwise, fmt.Sprintf("a whole number from 1 to %d", mostTop)
	}
	return n, ""
}

func (f *filter) time(name string) time.Time {
	value := f.c.query.Get(name)
	if value == "" {
		return time.Time{}
	}
	// A + that nobody escaped is a space by now.
	at, err := time.Parse(time.RFC3339Nano, strings.Replace(value, " ", "+", 1))
	at = at.UTC()
	if err != nil || at.Year() < 1 || at.Year() > 9999 { // which no database and no browser knows
		f.wrong(name, "a time as in RFC 3339, such as 2026-07-19T10:00:00Z")
	}
	return at
}

// span is a length of time between two parameters: from the first and until
// before the second.
func (f *filter) span(from, to string) (first, end time.Time) {
	first, end = f.time(from), f.time(to)
	if !end.IsZero() && !first.Before(end) {
		f.wrong(to, "a time after "+from)
	}
	return first, end
}

func (f *filter) statuses() []workflow.Status {
	const name = "status"
	value := f.c.query.Get(name)
	if value == "" {
		return nil
	}
	var all []workflow.Status
	for text := range strings.SplitSeq(value, ",") {
		status := workflow.Status(strings.TrimSpace(text))
		for _, row := range workflow.Table() {
			if strings.EqualFold(string(row.Status), string(status)) {
				status = row.Status
			}
		}
		if !status.Known() {
			var known []string
			for _, row := range workflow.Table() {
				known = append(known, string(row.Status))
			}
			f.wrong(name, "one or more, with commas between them, of "+strings.Join(known, ", "))
			return nil
		}
		if !slices.Contains(all, status) {
			all = append(all, status)
		}
	}
	return all
}

// search is what is asked of a list of orders, but for whether they are stuck.
func (f *filter) search() workflow.Search {
	search := workflow.Search{
		Statuses: f.statuses(), Prefix: f.prefix(), Blocked: f.yes("blocked"), Top: f.top(), After: f.after(),
	}
	search.CreatedFrom, search.CreatedTo = f.span("createdTimeFrom", "createdTimeTo")
	search.UpdatedFrom, search.UpdatedTo = f.span("lastUpdatedTimeFrom", "lastUpdatedTimeTo")
	return search
}

func (f *filter) prefix() string {
	const name = "idPrefix"
	value := f.c.query.Get(name)
	if value != "" && workflow.OrderIDFault(value) != "" {
		f.wrong(name, fmt.Sprintf("1 to %d letters, digits and . _ ~ -", workflow.MaxOrderIDLength))
	}
	return value
}
