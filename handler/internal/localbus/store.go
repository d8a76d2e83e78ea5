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
	setAside                        *sql.Stmt
	expired, nextExpiry, expire     *sql.Stmt
	setState, clearState            *sql.Stmt

	// On the reader.

	one, deliveries, scheduled, sent, counts *sql.Stmt
	state, sessions                          *sql.Stmt
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
		{&s.setAside, s.writer, deferDelivery},
		{&s.expired, s.writer, selectExpired},
		{&s.nextExpiry, s.writer, selectNextExpiry},
		{&s.expire, s.writer, expireDelivery},
		{&s.setState, s.writer, insertState},
		{&s.clearState, s.writer, deleteState},
		{&s.one, s.reader, selectDelivery},
		{&s.deliveries, s.reader, selectDeliveries},
		{&s.scheduled, s.reader, selectScheduled},
		{&s.sent, s.reader, selectSent},
		{&s.counts, s.reader, selectCounts},
		{&s.state, s.reader, selectState},
		{&s.sessions, s.reader, selectSessions},
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
