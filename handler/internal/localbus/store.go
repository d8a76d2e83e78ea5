package localbus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// store is the bus's file. All writing goes through one connection; readers
// have their own and never wait for it.
type store struct {
	writer, reader *sql.DB

	// On the writer.

	declare, sequence, setSequence  *sql.Stmt
	record, first, trim             *sql.Stmt
	schedule, unschedule, due, next *sql.Stmt
	deliver, complete, retry, bury  *sql.Stmt

	// On the reader.

	one, deliveries, scheduled, sent, counts *sql.Stmt
}

func openStore(path string) (*store, error) {
	writer, err := openFile(path, url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(wal)", "synchronous(full)"},
		"_txlock": {"immediate"},
	})
	if err != nil {
		return nil, err
	}
	writer.SetMaxOpenConns(1)
	reader, err := openFile(path, url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}})
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	s := &store{writer: writer, reader: reader}
	ctx := context.Background()
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func openFile(path string, options url.Values) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // a drive letter
		path = "/" + path
	}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: options.Encode()}
	return sql.Open("sqlite", dsn.String())
}

func (s *store) migrate(ctx context.Context) error {
	x, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = x.Rollback() }() // does nothing after the commit
	var version int
	if err := x.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	switch version {
	case schemaVersion:
		return nil
	case 0:
		if _, err := x.ExecContext(ctx, fmt.Sprintf("%s PRAGMA user_version = %d", schema, schemaVersion)); err != nil {
			return fmt.Errorf("create schema: %w", err)
		}
		return x.Commit()
	default:
		return fmt.Errorf("the file has schema version %d, this program knows %d", version, schemaVersion)
	}
}

func (s *store) prepare(ctx context.Context) error {
	for _, p := range []struct {
		stmt  **sql.Stmt
		db    *sql.DB
		query string
	}{
		{&s.declare, s.writer, insertTopic},
		{&s.sequence, s.writer, selectTopic},
		{&s.setSequence, s.writer, updateTopic},
		{&s.trim, s.writer, deleteSent},
		{&s.record, s.writer, insertSent},
		{&s.first, s.writer, selectFirst},
		{&s.schedule, s.writer, insertScheduled},
		{&s.unschedule, s.writer, deleteScheduled},
		{&s.due, s.writer, selectDue},
		{&s.next, s.writer, selectNextDue},
		{&s.deliver, s.writer, insertDelivery},
		{&s.complete, s.writer, deleteDelivery},
		{&s.retry, s.writer, retryDelivery},
		{&s.bury, s.writer, buryDelivery},
		{&s.one, s.reader, selectDelivery},
		{&s.deliveries, s.reader, selectDeliveries},
		{&s.scheduled, s.reader, selectScheduled},
		{&s.sent, s.reader, selectSent},
		{&s.counts, s.reader, selectCounts},
	} {
		var err error
		//nolint:sqlclosecheck // they last as long as the database
		if *p.stmt, err = p.db.PrepareContext(ctx, p.query); err != nil {
			return fmt.Errorf("prepare %q: %w", p.query, err)
		}
	}
	return nil
}

// close closes the reader first, so that the writer is the last to leave and
// folds the log into the file.
func (s *store) close() error {
	return errors.Join(s.reader.Close(), s.writer.Close())
}

// eachActive names every active message, by sequence number within its
// subscription.
func (s *store) eachActive(ctx context.Context, add func(topic, subscription, session string, sequence int64)) error {
	rows, err := s.reader.QueryContext(ctx, selectActive)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has said what matters
	for rows.Next() {
		var topic, subscription, session string
		var sequence int64
		if err := rows.Scan(&topic, &subscription, &session, &sequence); err != nil {
			return err
		}
		add(topic, subscription, session, sequence)
	}
	return rows.Err()
}

// active reads an active message; its DeliveryCount is that of the failed
// deliveries so far.
func (s *store) active(ctx context.Context, q *queue, sequence int64) (*Message, error) {
	m, err := scanMessage(s.one.QueryRowContext(ctx, q.topic, q.Name, sequence))
	if err != nil {
		return nil, fmt.Errorf("read message %d: %w", sequence, err)
	}
	return &m, nil
}

func scanMessage(row interface{ Scan(...any) error }) (Message, error) {
	var m Message
	var enqueued, scheduled int64
	var properties string
	err := row.Scan(&m.SequenceNumber, &enqueued, &m.DeliveryCount, &m.DeadLetterReason, &m.DeadLetterDescription,
		&m.MessageID, &m.SessionID, &m.CorrelationID, &m.Subject, &m.ContentType, &properties, &m.Body, &scheduled)
	if err != nil {
		return Message{}, err
	}
	m.EnqueuedAt = moment(enqueued)
	m.ScheduledAt = moment(scheduled)
	m.Properties, err = decodeProperties(properties)
	return m, err
}
