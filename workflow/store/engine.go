package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"orderflow/workflow"
)

// engine is a database: how it is written to and read, and nothing of what for.
// Its errors wrap errConflict where another writer was faster, and
// workflow.ErrTransient where the database cannot do it now; any other is about
// what was asked, and no waiting mends it.
type engine interface {
	// write runs a batch as one transaction; once it is committed, it answers
	// questions about what was written.
	write(ctx context.Context, b batch, then ...question) error
	// read answers questions, in their order.
	read(ctx context.Context, questions ...question) error
	// ready connects, and says if the database cannot be used as it is.
	ready(ctx context.Context) error
	close() error
}

// A batch is what one transaction writes: its statements run in order, all or
// none.
type batch []statement

// statement is one statement of texts and what it must do.
type statement struct {
	text string
	args []any
	// rows is how many rows it must change; anyRows for no matter. Another
	// number means that what was loaded is no longer so: errConflict.
	rows int64
}

const anyRows = -1

// question is a query of texts, and what is done with each of its rows.
type question struct {
	text string
	args []any
	row  func(row) error
	// moot says, when the questions before it are answered, that nobody needs
	// this answer any more. Nil means that it is needed.
	moot *bool
}

func (q *question) isMoot() bool { return q.moot != nil && *q.moot }

// row is a row of an answer, to be scanned.
type row interface{ Scan(dest ...any) error }

// What an argument may be besides text, bytes, an int64 and nil.
type (
	// relative is a time counted from the transaction's own now.
	relative time.Duration
	// verbatim is text of which nothing is known, not even that it is text. It
	// is kept byte for byte.
	verbatim string
)

// now is the transaction's own time.
const now relative = 0

// texts are the statements of one database. Their placeholders, ? or ?2, are
// filled in the order in which the logic gives the arguments. Those that take a
// list are made for its length.
type texts struct {
	load, held                           string
	insertOrder, updateOrder, touchOrder string
	insertJournal, giveUpID, takeUp      string
	settle, insertOutbox                 func(n int) string
	upsertRejected                       string
	block, line, blame, first, early     string // the order behind a message that fails
	claim, claimed                       string // asked together
	renew, renewed                       string // asked together
	markSent, markFailed, giveBack       string
	deaths, bury                         string
	recalls, recalled                    string
	command, sendAgain, discard          string
	lost, resend, forgetRecalls          string // the sweep
	tooEarly, giveUpEarly, lines         string
	atRest, purge, purgeJournal          string
	purgeOutbox, keepPurging             string
	story, journal, outbox, inLine       string
	rejected, revision                   string
	list, pending, backlog               string
	views
	audits
}

// list makes a text with an item repeated n times in it.
func list(head, item, tail string) func(n int) string {
	build := func(n int) string { return head + strings.TrimSuffix(strings.Repeat(item+", ", n), ", ") + tail }
	var usual [4]string
	for n := range usual {
		usual[n] = build(n)
	}
	return func(n int) string {
		if n < len(usual) {
			return usual[n]
		}
		return build(n)
	}
}

// each hands the rows of an answer on, and reads it to its end: an error may
// come behind the last row.
func each(rows *sql.Rows, do func(row) error) error {
	for rows.Next() {
		if err := do(rows); err != nil {
			return fmt.Errorf("read a row: %w", ours{err})
		}
	}
	return rows.Err()
}

// ours is an error of the program that reads, not of the database.
type ours struct{ error }

func (e ours) Unwrap() error { return e.error }

func isOurs(err error) bool {
	var e ours
	return errors.As(err, &e)
}

// transient says of an error that waiting may help.
func transient(err error) error {
	if errors.Is(err, workflow.ErrTransient) {
		return err
	}
	return fmt.Errorf("%w: %w", workflow.ErrTransient, err)
}
