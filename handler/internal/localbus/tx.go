package localbus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// tx is one transaction on the file. Its first failure sticks: whatever
// follows does nothing, and the transaction is rolled back. It belongs to the
// loop and not to a caller, so no caller's context can cut it short.
type tx struct {
	store   *store
	sql     *sql.Tx
	claimed map[*outstanding]bool
	err     error
}

// transact commits what f writes, or nothing.
func (s *store) transact(f func(*tx)) error {
	begun, err := s.writer.BeginTx(context.Background(), nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	x := &tx{store: s, sql: begun, claimed: map[*outstanding]bool{}}
	f(x)
	if x.err != nil {
		_ = begun.Rollback() // the first failure says more
		return x.err
	}
	if err := begun.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// exec returns how many rows were changed.
//
//nolint:contextcheck,sqlclosecheck // no caller's context counts here, and the transaction closes its statements
func (x *tx) exec(what string, stmt *sql.Stmt, args ...any) (changed int64) {
	if x.err != nil {
		return 0
	}
	ctx := context.Background()
	result, err := x.sql.StmtContext(ctx, stmt).ExecContext(ctx, args...)
	if err == nil {
		changed, err = result.RowsAffected()
	}
	x.keep(what, err)
	return changed
}

// query calls each with every row.
//
//nolint:contextcheck,sqlclosecheck // as above
func (x *tx) query(what string, each func(*sql.Rows) error, stmt *sql.Stmt, args ...any) {
	if x.err != nil {
		return
	}
	ctx := context.Background()
	rows, err := x.sql.StmtContext(ctx, stmt).QueryContext(ctx, args...)
	if err != nil {
		x.keep(what, err)
		return
	}
	for err == nil && rows.Next() {
		err = each(rows)
	}
	x.keep(what, errors.Join(err, rows.Err(), rows.Close()))
}

// claim says whether the transaction is yet to settle this delivery, which it
// does once. A transaction that is rolled back has settled nothing.
func (x *tx) claim(o *outstanding) bool {
	if x.claimed[o] {
		return false
	}
	x.claimed[o] = true
	return true
}

func (x *tx) keep(what string, err error) {
	if err != nil && x.err == nil {
		x.err = fmt.Errorf("%s: %w", what, err)
	}
}

// sequence is the last number that the topic gave out.
func (x *tx) sequence(topic string) (sequence int64) {
	x.exec("declare topic", x.store.declare, topic)
	x.query("read sequence number", func(row *sql.Rows) error {
		return row.Scan(&sequence)
	}, x.store.sequence, topic)
	return sequence
}

func (x *tx) setSequence(topic string, sequence int64) {
	x.exec("save sequence number", x.store.setSequence, topic, sequence)
}

// firstSent is the number of the message with this MessageID that the topic
// accepted after since; 0 when there is none.
func (x *tx) firstSent(topic, messageID string, since time.Time) (sequence int64) {
	x.query("look for a repeat", func(row *sql.Rows) error {
		return row.Scan(&sequence)
	}, x.store.first, topic, messageID, stamp(since))
	return sequence
}

// record notes an accepted send. Sequence is ordinal, or that of the message
// that this one repeats.
func (x *tx) record(topic string, ordinal, sequence int64, p parcel, now time.Time) {
	body := p.Body
	if body == nil {
		body = []byte{}
	}
	x.exec("record message", x.store.record, topic, ordinal, sequence, stamp(now),
		p.MessageID, p.SessionID, p.CorrelationID, p.Subject, p.ContentType,
		p.To, p.ReplyTo, p.ReplyToSessionID, p.PartitionKey, p.properties, body, stamp(p.ScheduledAt), int64(p.TimeToLive))
}

// trim forgets accepted sends but for the newest kept, those accepted after
// since and those whose message is still in the bus.
func (x *tx) trim(topic string, kept int, since time.Time) {
	x.exec("forget old sends", x.store.trim, topic, kept, stamp(since))
}

func (x *tx) schedule(topic string, sequence int64, due time.Time) {
	x.exec("schedule message", x.store.schedule, topic, sequence, stamp(due))
}

// unschedule says whether the message was scheduled.
func (x *tx) unschedule(topic string, sequence int64) bool {
	return x.exec("unschedule message", x.store.unschedule, topic, sequence) == 1
}

// due is the first scheduled messages that are due at now, in order.
func (x *tx) due(topic string, now time.Time, limit int) (due []routed) {
	x.query("read due messages", func(row *sql.Rows) error {
		var m routed
		err := row.Scan(&m.sent, &m.session, &m.subject, &m.timeToLive)
		due = append(due, m)
		return err
	}, x.store.due, topic, now.UnixMicro(), limit)
	return due
}

// nextDue is when the topic's first scheduled message is due; zero for none.
func (x *tx) nextDue(topic string) time.Time {
	var due int64
	x.query("read next due message", func(row *sql.Rows) error {
		return row.Scan(&due)
	}, x.store.next, topic)
	return moment(due)
}

// deliver makes the accepted message active in a subscription.
func (x *tx) deliver(q *queue, e entry, sent int64, now time.Time) {
	x.exec("deliver message", x.store.deliver, q.topic, q.Name, e.sequence, sent, stamp(now), e.expires)
}

// The settling ones say whether the file had the message.

func (x *tx) complete(q *queue, sequence int64) bool {
	return x.exec("complete message", x.store.complete, q.topic, q.Name, sequence) == 1
}

func (x *tx) retry(q *queue, sequence int64, failed int) bool {
	return x.exec("count failed delivery", x.store.retry, q.topic, q.Name, sequence, failed) == 1
}

func (x *tx) setAside(q *queue, sequence int64) bool {
	return x.exec("defer message", x.store.setAside, q.topic, q.Name, sequence) == 1
}

func (x *tx) bury(q *queue, sequence int64, failed int, reason, description string) bool {
	return x.exec("dead-letter message", x.store.bury, q.topic, q.Name, sequence, failed, reason, description) == 1
}

func (x *tx) expire(q *queue, sequence int64) bool {
	return x.exec("dead-letter expired message", x.store.expire, q.topic, q.Name, sequence, ttlExpired, ttlExpiredDescription) == 1
}

// expired are the active messages that have outlived their TimeToLive at now,
// in delivery or not.
func (x *tx) expired(q *queue, now time.Time) (expired []arrival) {
	x.query("read expired messages", func(row *sql.Rows) error {
		m := arrival{queue: q}
		err := row.Scan(&m.session, &m.sequence)
		expired = append(expired, m)
		return err
	}, x.store.expired, q.topic, q.Name, now.UnixMicro())
	return expired
}

// nextExpiry is when the first active message's TimeToLive ends of those that
// end after the given moment; zero for none.
func (x *tx) nextExpiry(q *queue, after time.Time) time.Time {
	var expires int64
	x.query("read next expiry", func(row *sql.Rows) error {
		return row.Scan(&expires)
	}, x.store.nextExpiry, q.topic, q.Name, after.UnixMicro())
	return moment(expires)
}

// setState keeps a session's state. Nil removes it.
func (x *tx) setState(q *queue, session string, state []byte) {
	if state == nil {
		x.exec("clear session state", x.store.clearState, q.topic, q.Name, session)
		return
	}
	x.exec("set session state", x.store.setState, q.topic, q.Name, session, state)
}
