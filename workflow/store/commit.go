package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"orderflow/workflow"
)

// seqStep leaves room for the rows of one commit between two revisions. The
// process sends a command of each kind about once, so a dozen is many.
const seqStep = 1000

// commit is the one transaction of a message: state with its revision check,
// journal, settled and new outbox rows, rejections. A poison is an early message
// that failed as it was taken up: the order is blocked by it.
func (s *Store) commit(f *found, r workflow.Result, p poison) (batch, error) {
	b := make(batch, 0, 4)
	first := &r.Decisions[0]
	if first.Outcome == workflow.Rejected {
		b = append(b, s.reject(rejection(first.Message, first.Reason))...)
		if f.revision == 0 {
			return b, nil // nothing is known of the order, and nothing becomes known
		}
	}
	row, err := s.order(f, r.Order)
	if err != nil {
		return nil, err
	}
	b = append(b, row)
	revision := f.revision + 1
	if first.Outcome == workflow.Rejected {
		if f.inLine() {
			b = append(b, s.takenUp(revision, 0, first))
		}
		return b, nil
	}
	if f.action != nil {
		b = append(b, s.journal(revision, f.action))
	}
	for n := range r.Decisions {
		d, place := &r.Decisions[n], n
		if f.action != nil { // which has the first
			place++
		}
		if n == 0 && !f.inLine() {
			if f.strayed(d.Message) {
				b = append(b, s.giveUpID(&d.Message))
			}
			b = append(b, s.journalAt(revision, place, d))
			continue
		}
		if d.Outcome == workflow.Held {
			b = append(b, s.early(d))
			continue
		}
		b = append(b, s.takenUp(revision, place, d))
		if n > 0 && d.Outcome == workflow.Rejected {
			b = append(b, s.reject(rejection(d.Message, d.Reason))...)
		}
	}
	if p.id != "" {
		b = append(b, s.block(r.Order.ID, p)...)
	}
	if ids := r.Settled(); len(ids) > 0 {
		b = append(b, s.settle(r.Order.ID, ids))
	}
	if out := r.Emissions(); len(out) > 0 {
		b = append(b, s.emit(revision, out))
	}
	return b, nil
}

// order writes the order's row, new or at the revision that was loaded.
func (s *Store) order(f *found, o workflow.Order) (statement, error) {
	text, err := encodeState(o)
	if err != nil {
		return statement{}, err
	}
	if f.revision == 0 {
		return statement{s.text.insertOrder, []any{o.ID, o.Version, string(o.Status), text, now, now, now}, 1}, nil
	}
	since := any(now)
	if o.Status == f.order.Status {
		since = f.since
	}
	return statement{s.text.updateOrder, []any{o.Version, string(o.Status), text, since, now, o.ID, f.revision}, 1}, nil
}

// journal writes the row of a message.
func (s *Store) journal(revision int64, d *workflow.Decision) statement {
	return s.journalAt(revision, 0, d)
}

// journalAt writes it at a place of its commit.
func (s *Store) journalAt(revision int64, place int, d *workflow.Decision) statement {
	m := &d.Message
	return statement{s.text.insertJournal, []any{
		m.OrderID, revision, int64(place), m.ID, string(m.Type), m.Conversation, m.ParentID, m.OriginID, m.Schema, m.TraceParent,
		m.Fingerprint, notNil(m.Body), string(d.Outcome), d.Reason, string(d.From), string(d.To), d.Version, emitted(d),
		m.Delivery.Function, int64(m.Delivery.Count), now, now, s.event(),
	}, 1}
}

// giveUpID has a stray give up the ID that is the message's.
func (s *Store) giveUpID(m *workflow.Message) statement {
	return statement{s.text.giveUpID, []any{m.OrderID, m.ID}, 1}
}

// takenUp moves the row of a held message to where it was decided.
func (s *Store) takenUp(revision int64, place int, d *workflow.Decision) statement {
	return statement{s.text.takeUp, []any{
		revision, int64(place), string(d.Outcome), d.Reason, string(d.From), string(d.To), d.Version, emitted(d), now, d.Message.Fingerprint, s.event(),
		d.Message.OrderID, d.Message.ID,
	}, 1}
}

// early has a message of the line wait with the early ones.
func (s *Store) early(d *workflow.Decision) statement {
	return statement{s.text.early, []any{
		d.Reason, string(d.From), string(d.To), d.Version, now, d.Message.Fingerprint, s.event(),
		d.Message.OrderID, d.Message.ID,
	}, 1}
}

// emitted is the JSON list of the IDs that a decision sent and armed. They are
// made of order ID, step and count, so nothing in them needs escaping.
func emitted(d *workflow.Decision) string {
	switch {
	case d.Command != nil && d.Deadline != nil:
		return `["` + d.Command.ID + `","` + d.Deadline.ID + `"]`
	case d.Command != nil:
		return `["` + d.Command.ID + `"]`
	case d.Deadline != nil:
		return `["` + d.Deadline.ID + `"]`
	default:
		return "[]"
	}
}

// settle closes outbox rows that are no longer wanted: deadlines always, a
// stale delivery being harmless; commands that were not sent.
func (s *Store) settle(orderID string, ids []string) statement {
	args := append(make([]any, 0, len(ids)+4), now, s.event(), now, orderID)
	for _, id := range ids {
		args = append(args, id)
	}
	return statement{s.text.settle(len(ids)), args, anyRows}
}

// emit writes new outbox rows. What an order says alike in all of them is boxed
// once.
func (s *Store) emit(revision int64, out []workflow.Emission) statement {
	args := make([]any, 0, 16*len(out))
	order, conversation, origin := any(out[0].OrderID), any(out[0].Conversation), any(out[0].OriginID)
	for place := range out {
		e := &out[place]
		state, visible, purpose, due := any(workflow.DispatchWaiting), any(now), any(nil), any(nil)
		closed, event := any(nil), any(int64(0))
		if e.Purpose != "" {
			purpose = string(e.Purpose)
			after := s.deadline(e.Purpose)
			due, visible = relative(after), relative(after-s.sendAhead())
			if !e.DueAt.IsZero() {
				// One that came early does so again if it is handed over ahead: the
				// broker's clock is.
				due, visible = e.DueAt, e.DueAt
			}
		}
		if e.Closed {
			state, closed, event = workflow.DispatchClosed, now, s.event()
		}
		args = append(args, order, revision*seqStep+int64(place), e.ID, string(e.Type),
			conversation, e.ParentID, origin, e.TraceParent, purpose, due, notNil(e.Body), state, visible, now, closed, event)
	}
	return statement{s.text.insertOutbox(len(out)), args, int64(len(out))}
}

func (s *Store) sendAhead() time.Duration {
	if s.options.SendAhead > 0 {
		return s.options.SendAhead
	}
	return 2 * time.Minute
}

// reject keeps a rejected message, or counts one that is kept already.
func (s *Store) reject(r workflow.Rejection) batch {
	keep := s.options.KeepBytes
	if keep <= 0 {
		keep = 64 << 10
	}
	body := notNil(r.Body)
	if len(body) > keep {
		body = body[:keep]
	}
	return batch{{s.text.upsertRejected, []any{
		rejectionID(r), r.OrderID, verbatim(r.ID), verbatim(r.Type), verbatim(r.Conversation), verbatim(r.ParentID),
		verbatim(r.OriginID), verbatim(r.Schema), verbatim(r.TraceParent),
		r.Fingerprint, body, int64(len(r.Body)), verbatim(r.Reason), r.Delivery.Function, int64(r.Delivery.Count), now, now,
		s.event(),
	}, anyRows}}
}

// rejectionID is the identity of a rejected message: a hash over what came, so
// that the same message again is the same row, and two are never one.
func rejectionID(r workflow.Rejection) string {
	hash := sha256.New()
	for _, part := range []string{r.OrderID, r.ID, string(r.Type)} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	hash.Write(r.Body)
	return hex.EncodeToString(hash.Sum(nil))
}

const rejectionIDLength = 2 * sha256.Size

// notNil keeps an empty body from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
