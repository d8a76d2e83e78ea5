package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"orderflow/workflow"
)

// The rows of the journal, the outbox and the rejected messages count their own
// events, each in a column of its own: how often it was decided, sent, given up,
// closed, came, was settled. The count is positive while the last of these is
// not confirmed, and a filtered index holds the rows where it is. It is moved by
// the statement that makes the event, so one commits with the other; there is no
// place in a sequence that a slow commit could be behind of. Confirming the nth
// event turns the sign of n, and of nothing else: a row that moved on meanwhile
// stays as it is.

// event is what the count of a row's events is multiplied by when it has one
// more: 1 when it is for the audit, -1 when there is none.
func (s *Store) event() any {
	if s.options.Audit {
		return int64(1)
	}
	return int64(-1)
}

// Unaudited lists what happened and was not confirmed yet, oldest first, at most
// so much. It is told from the rows as they are: what a row said before it
// changed again, as of an early message that was held and then taken up, is
// listed only if it was read in between. Only what happened while Options.Audit
// was true is listed, and it is kept until it is confirmed.
func (s *Store) Unaudited(ctx context.Context, most int) (events []workflow.Event, err error) {
	add := func(e workflow.Event, err error) error {
		events = append(events, e)
		return err
	}
	outbox := func(text string, kind workflow.EventKind) question {
		return question{text: text, args: []any{int64(most)}, row: func(r row) error { return add(scanDispatched(r, kind)) }}
	}
	rejected := func(text string, kind workflow.EventKind) question {
		return question{text: text, args: []any{int64(most)}, row: func(r row) error { return add(scanRejected(r, kind)) }}
	}
	err = s.engine.read(ctx,
		question{text: s.text.unauditedJournal, args: []any{int64(most)}, row: func(r row) error { return add(scanHandled(r)) }},
		outbox(s.text.unauditedSent, workflow.EventSent),
		outbox(s.text.unauditedDead, workflow.EventDead),
		outbox(s.text.unauditedClosed, workflow.EventClosed),
		rejected(s.text.unauditedRejected, workflow.EventRejected),
		rejected(s.text.unauditedSettled, workflow.EventSettled),
	)
	if err != nil {
		return nil, fmt.Errorf("list what the audit lacks: %w", err)
	}
	// The oldest so many of each kind were read, so the oldest of these are the
	// oldest of all. In one moment what was decided comes before what it did.
	slices.SortStableFunc(events, func(a, b workflow.Event) int { return a.At.Compare(b.At) })
	return events[:min(len(events), max(0, most))], nil
}

// eventKey names the nth event of a row.
func eventKey(kind workflow.EventKind, row string, n int64) string {
	return string(kind) + ":" + row + ":" + strconv.FormatInt(n, 10)
}

// scanHandled reads a row of the journal. Its name is the place where it is
// now, which no other row of its order has or will have.
func scanHandled(r row) (e workflow.Event, err error) {
	var place, n int64
	var emitted, said []byte
	err = r.Scan(&e.OrderID, &e.Revision, &place, &n, moment{&e.At}, &e.MessageID, &e.Type, &e.Conversation, &e.ParentID, &e.OriginID,
		&e.TraceParent, &e.Size, &e.Outcome, &e.Reason, &e.From, &e.To, &e.Version, &emitted, &e.Function, &e.Deliveries, &said)
	e.Said, e.Actor = saidIn(said, e.Function)
	e.Kind, e.Emitted = workflow.EventMessage, emittedOf(emitted)
	e.Key = eventKey(e.Kind, fmt.Sprintf("%d:%d", e.Revision, place), n)
	return e, err
}

// emittedOf reads the JSON list of a row. If it is none, it is told as it is.
func emittedOf(text []byte) (ids []string) {
	if json.Unmarshal(text, &ids) != nil {
		return []string{string(text)}
	}
	return ids
}

func scanDispatched(r row, kind workflow.EventKind) (e workflow.Event, err error) {
	var n int64
	var purpose, lastError sql.NullString
	var sequence sql.NullInt64
	err = r.Scan(&e.OrderID, &n, moment{&e.At}, &e.MessageID, &e.Type, &e.Conversation, &e.ParentID, &e.OriginID, &e.TraceParent,
		&e.Size, &purpose, moment{&e.DueAt}, &e.Attempts, &sequence, &lastError)
	if purpose.Valid {
		e.Size = int64(len(workflow.DeadlineBody(e.OrderID, e.MessageID, e.DueAt)))
	}
	e.Kind, e.Key = kind, eventKey(kind, e.MessageID, n)
	switch kind {
	case workflow.EventSent:
		e.Sequence = sequence.Int64
	case workflow.EventDead:
		e.Reason = lastError.String
	default:
	}
	return e, err
}

func scanRejected(r row, kind workflow.EventKind) (e workflow.Event, err error) {
	var id string
	var n int64
	var s struct{ how, by, reason sql.NullString }
	err = r.Scan(&id, &e.OrderID, &n, moment{&e.At}, &e.MessageID, &e.Type, &e.Conversation, &e.ParentID, &e.OriginID, &e.TraceParent,
		&e.Reason, &e.Function, &e.Deliveries, &e.Size, &s.how, &s.by, &s.reason)
	e.Kind, e.Key, e.Outcome = kind, eventKey(kind, id, n), workflow.Rejected
	if kind == workflow.EventSettled {
		e.Reason = workflow.Settlement{How: s.how.String, By: s.by.String, Reason: s.reason.String}.Words()
	}
	return e, err
}

// auditedMost is how many events are confirmed in one transaction.
const auditedMost = 100

// Audited confirms events as Unaudited listed them: they are not listed again. It
// confirms what was read and nothing that happened to the same rows since. An
// event that was confirmed before, or whose row is gone, is fine.
func (s *Store) Audited(ctx context.Context, events []workflow.Event) error {
	for part := range slices.Chunk(events, auditedMost) {
		b := make(batch, 0, len(part))
		for i := range part {
			confirmed, err := s.audited(&part[i])
			if err != nil {
				return fmt.Errorf("confirm what the audit has: %w", err)
			}
			b = append(b, confirmed)
		}
		if err := s.insist(ctx, func() error { return s.engine.write(ctx, b) }); err != nil {
			return fmt.Errorf("confirm what the audit has: %w", err)
		}
	}
	return nil
}

// audited confirms one event, which its key names.
func (s *Store) audited(e *workflow.Event) (confirmed statement, err error) {
	name, nth, _ := cutLast(e.Key)
	n, err := strconv.ParseInt(nth, 10, 64)
	_, name, is := strings.Cut(name, ":")
	if err != nil || !is {
		return statement{}, fmt.Errorf("%w: no event is called %.80q", workflow.ErrBadInput, e.Key)
	}
	switch e.Kind {
	case workflow.EventMessage:
		revision, place, _ := strings.Cut(name, ":")
		var at [2]int64
		for i, text := range []string{revision, place} {
			if at[i], err = strconv.ParseInt(text, 10, 64); err != nil {
				return statement{}, fmt.Errorf("%w: no event is called %.80q", workflow.ErrBadInput, e.Key)
			}
		}
		return statement{s.text.auditedJournal, []any{e.OrderID, at[0], at[1], n}, anyRows}, nil
	case workflow.EventSent:
		return statement{s.text.auditedSent, []any{e.OrderID, name, n}, anyRows}, nil
	case workflow.EventDead:
		return statement{s.text.auditedDead, []any{e.OrderID, name, n}, anyRows}, nil
	case workflow.EventClosed:
		return statement{s.text.auditedClosed, []any{e.OrderID, name, n}, anyRows}, nil
	case workflow.EventRejected:
		return statement{s.text.auditedRejected, []any{name, n}, anyRows}, nil
	case workflow.EventSettled:
		return statement{s.text.auditedSettled, []any{name, n}, anyRows}, nil
	}
	return statement{}, fmt.Errorf("%w: no event is of the kind %.40q", workflow.ErrBadInput, e.Kind)
}

func cutLast(s string) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
