// Package cli is the operators' command line. It is a client of the HTTP API
// that docs/operators.md describes, and knows nothing of orders but what that
// tells it: verbs.go is the table from what one types to what is asked for.
//
// What answers is an app at a URL, or the same API over a database, in this
// process; the requests are the same.
package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// System is what the command line runs in.
type System struct {
	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
	NewKey   func() string // an Idempotency-Key that was never used
	User     string        // who acts, unless -actor says who

	// URL is where an app answers, and Key what opens it, unless flags say so.
	URL, Key string
	Network  http.RoundTripper
	// Open makes ready the API over the database that a file of settings names,
	// or, without one, the environment. Its error is ErrNowhere if they name none.
	Open func(ctx context.Context, settings string) (Database, error)
}

// Database is the API over a database. It ends with the context that it was
// opened with.
type Database struct {
	API   http.RoundTripper
	About string // what somebody who acts has to know, in one line
	Close func() error
}

// Knows reports whether a word begins a command of an operator.
func Knows(word string) bool { return slices.Contains(Words(), word) }

// Run runs a command and returns its exit code. The first argument is one that
// it knows.
func Run(ctx context.Context, args []string, s System) int {
	out := bufio.NewWriter(s.Out)
	s.Out = out
	c := &command{System: s, out: out}
	code, err := exitDone, c.choose(args)
	switch {
	case err != nil:
	case c.verb == nil:
		fmt.Fprint(out, usageOf(args[0]))
	default:
		code, err = c.run(ctx)
	}
	if unwritten := out.Flush(); err == nil && unwritten != nil { // a list that was cut off is none
		err = unwritten
	}
	if err != nil {
		return c.report(err)
	}
	return code
}

// Usage lists the commands of operators.
func Usage() string {
	var b strings.Builder
	for _, v := range verbs() {
		b.WriteString(v.line())
	}
	b.WriteString(`
These commands of operators ask an app (-url or ORDERFLOW_URL, with a key in
ORDERFLOW_KEY or -key-file), or work on the database that SqlConnection names.
"handler orders list -h" lists the flags of one. They end with

`)
	for code, says := range exits() {
		fmt.Fprintf(&b, "  %d  %s\n", code, says)
	}
	return b.String()
}

func (v *verb) line() string {
	return fmt.Sprintf("  handler %-27s %s\n", strings.TrimRight(v.String()+" "+v.argument, " "), v.says)
}

// usageOf lists the commands of a group.
func usageOf(group string) string {
	var b strings.Builder
	for _, v := range verbs() {
		if v.group == group {
			b.WriteString(v.line())
		}
	}
	return b.String()
}

// Nearest are those of some words that somebody may have meant, in words; empty
// for none.
func Nearest(word string, words []string) string {
	var all []string
	for _, w := range words {
		if distance(word, w) <= (len(word)+1)/3 || len(word) > 2 && strings.HasPrefix(w, word) {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(distance(word, a), distance(word, b)) })
	return "; did you mean " + strings.Join(all, ", or ") + "?"
}

// distance is how many letters have to be changed, added or taken away.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
