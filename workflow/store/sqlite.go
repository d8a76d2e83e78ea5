package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the embedded database

	"orderflow/workflow"
)

//nolint:gochecknoglobals // read-only: SQLite's statements
var sqliteTexts = texts{
	load: `SELECT o.revision, o.version, o.status, o.state, o.since, j.outcome, j.fingerprint, d.due_at,
  EXISTS (SELECT 1 FROM journal AS h WHERE h.order_id = k.order_id AND h.outcome = 'Held'), NULL
FROM (SELECT ?1 AS order_id) AS k
LEFT JOIN orders  AS o ON o.order_id = k.order_id
LEFT JOIN journal AS j ON j.order_id = k.order_id AND j.message_id = ?2 AND j.outcome <> 'Rejected'
LEFT JOIN outbox  AS d ON d.order_id = k.order_id AND d.message_id = ?3`,

	held: `SELECT message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, body
FROM journal WHERE order_id = ? AND outcome = 'Held' ORDER BY revision, place`,

	insertOrder: `INSERT INTO orders (order_id, version, status, state, created_at, since, updated_at, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, 1)`,

	updateOrder: `UPDATE orders SET version = ?, status = ?, state = ?, since = ?, updated_at = ?, revision = revision + 1
WHERE order_id = ? AND revision = ?`,

	insertJournal: `INSERT INTO journal (order_id, revision, place, message_id, message_type, conversation, parent_id, origin_id,
  schema_version, traceparent, fingerprint, body, outcome, reason, from_status, to_status, version, emitted,
  function, delivery_count, received_at, decided_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

	giveUpID: `UPDATE journal SET outcome = 'Rejected', reason = 'it came before it was armed'
WHERE order_id = ? AND message_id = ? AND outcome = 'Stale'`,

	takeUp: `UPDATE journal SET revision = ?, place = ?, outcome = ?, reason = ?, from_status = ?, to_status = ?, version = ?,
  emitted = ?, decided_at = ?
WHERE order_id = ? AND message_id = ? AND outcome = 'Held'`,

	// A command that a sender has in its hands may still get through; then its
	// mark says so. If it does not, it is not tried again.
	settle: list(`UPDATE outbox SET state = 'closed'
WHERE order_id = ? AND message_id IN (`, `?`, `) AND (state = 'waiting' OR (state = 'sent' AND purpose IS NOT NULL))`),

	insertOutbox: list(`INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  purpose, due_at, body, state, visible_at, created_at)
VALUES `, `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``),

	upsertRejected: `INSERT INTO rejected (rejection_id, order_id, message_id, message_type, conversation, parent_id, origin_id,
  schema_version, traceparent, fingerprint, body, size, reason, function, delivery_count, first_at, last_at, times)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (rejection_id) DO UPDATE SET times = times + 1, last_at = excluded.last_at, reason = excluded.reason`,

	// The first of each order's line of commands, unless a sender is at work on
	// the line, and every deadline that is to be handed over: the oldest first.
	claim: `UPDATE outbox SET token = ?1, visible_at = ?2, attempts = attempts + 1
WHERE (order_id, seq) IN (
  SELECT o.order_id, o.seq FROM outbox AS o
  WHERE o.state = 'waiting' AND o.visible_at <= ?3
    AND (o.purpose IS NOT NULL OR NOT EXISTS (
      SELECT 1 FROM outbox AS p
      WHERE p.order_id = o.order_id AND p.seq <> o.seq AND p.purpose IS NULL
        AND ((p.state = 'waiting' AND p.seq < o.seq) OR (p.token IS NOT NULL AND p.visible_at > ?3))))
  ORDER BY o.visible_at, o.order_id, o.seq
  LIMIT ?4)`,

	claimed: `SELECT order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  purpose, due_at, body, attempts, state
FROM outbox WHERE token = ? ORDER BY order_id, seq`,

	// A deadline that was closed meanwhile stays closed: another may be armed.
	markSent: `UPDATE outbox SET state = CASE WHEN purpose IS NULL OR state = 'waiting' THEN 'sent' ELSE state END,
  token = NULL, sent_at = ?, broker_sequence = ?, last_error = ''
WHERE order_id = ? AND seq = ? AND token = ? AND visible_at > ?`,

	markFailed: `UPDATE outbox SET token = NULL, visible_at = ?, last_error = ?
WHERE order_id = ? AND seq = ? AND token = ? AND visible_at > ?`,

	giveBack: `UPDATE outbox SET token = NULL, visible_at = ?, attempts = attempts - 1
WHERE order_id = ? AND seq = ? AND token = ? AND visible_at > ?`,

	story: `SELECT o.revision, o.version, o.status, o.state, o.created_at, o.since, o.updated_at,
  (SELECT MAX(d.due_at) FROM outbox AS d WHERE d.order_id = o.order_id AND d.purpose IS NOT NULL AND d.state <> 'closed')
FROM orders AS o WHERE o.order_id = ?`,

	journal: `SELECT decided_at, message_id, message_type, parent_id, outcome, reason, from_status, to_status, version, emitted
FROM journal WHERE order_id = ? ORDER BY revision, place`,

	outbox: `SELECT message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at, body,
  state, attempts, visible_at, sent_at, last_error
FROM outbox WHERE order_id = ? ORDER BY seq`,

	rejected: `SELECT first_at, message_id, message_type, reason, times FROM rejected WHERE order_id = ? ORDER BY first_at, rejection_id`,

	revision: `SELECT revision FROM orders WHERE order_id = ?`,

	list: `SELECT order_id, status, version, state FROM orders ORDER BY order_id`,

	pending: `SELECT COUNT(*) FROM outbox WHERE state = 'waiting' AND (purpose IS NULL OR attempts > 0 OR visible_at <= ?)`,
}

// busyTimeout is how long a writer waits for another process's transaction.
const busyTimeout = 5 * time.Second

// sqliteDSN is the address of a database file, with settings for every
// connection to it. The path is absolute, so that no name has a meaning of its
// own (":memory:"), and escaped, so that no letter has.
func sqliteDSN(path string, pragmas ...string) string {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + query.Encode()
}

// readers is how many reads run beside the one writer.
const readers = 4

// sqlite is the embedded database in a file.
type sqlite struct {
	db     *sql.DB
	writer *writer
	now    func() time.Time
	// prepared are the reads of every message.
	prepared map[string]*sql.Stmt
}

// startSQLite opens the database at a path, creates it where there is none, and
// brings its schema up to date. The folder must exist and be writable.
func startSQLite(ctx context.Context, driver, path string, now func() time.Time) (_ *sqlite, err error) {
	e := &sqlite{now: now, prepared: make(map[string]*sql.Stmt)}
	if e.db, err = openSQLite(ctx, driver, path); err != nil {
		return nil, err
	}
	there, err := sameFile(path)
	if err != nil {
		return nil, errors.Join(err, e.db.Close())
	}
	if e.writer, err = startWriter(e.db, now, there); err != nil { //nolint:contextcheck // it lives until close
		return nil, errors.Join(err, e.db.Close())
	}
	for _, text := range []string{sqliteTexts.load, sqliteTexts.held} {
		if e.prepared[text], err = e.db.PrepareContext(ctx, text); err != nil { //nolint:sqlclosecheck // they last as long as the database
			return nil, errors.Join(err, e.close())
		}
	}
	return e, nil
}

// openSQLite opens and migrates.
func openSQLite(ctx context.Context, driver, path string) (opened *sql.DB, err error) {
	err = lockedSQLite(ctx, driver, path, func(db *sql.DB) error {
		if _, err := migrateUp(ctx, goose.DialectSQLite3, db); err != nil {
			return errors.Join(err, db.Close())
		}
		opened = db
		return nil
	})
	return opened, err
}

// lockedSQLite opens a file under a lock of its own, because SQLite gives
// concurrent starters none: without it some of them fail while another changes
// the journal mode or the schema.
func lockedSQLite(ctx context.Context, driver, path string, do func(*sql.DB) error) (err error) {
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	lock := path + "-lock"
	for _, file := range []string{path, lock} {
		if err := touch(file); err != nil {
			return err
		}
	}
	locks, err := sql.Open("sqlite", sqliteDSN(lock, "busy_timeout(30000)"))
	if err != nil {
		return err
	}
	defer locks.Close()
	held, err := locks.Conn(ctx)
	if err != nil {
		return err
	}
	defer held.Close()
	if _, err := held.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		return fmt.Errorf("wait for whoever opens it: %w", err)
	}

	// synchronous=FULL because NORMAL can lose the last commits when the power
	// fails (docs/adr/0003).
	db, err := sql.Open(driver, sqliteDSN(path, "busy_timeout("+fmt.Sprint(busyTimeout.Milliseconds())+")",
		"journal_mode(wal)", "synchronous(full)", "foreign_keys(1)"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(readers + 1)
	db.SetMaxIdleConns(readers + 1)
	return do(db)
}

// touch makes sure that a file can be written, and creates it for its owner
// alone: it will hold customers' data. SQLite gives the files beside it the
// same permissions, and says less clearly what is wrong.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sameFile tells whether a path still leads to the file that it leads to now.
// SQLite would go on writing to one that was deleted or replaced, and what was
// acknowledged would be gone with the process.
func sameFile(path string) (there func() error, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	opened, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return func() error {
		now, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("the database is gone: %w", err)
		}
		if !os.SameFile(opened, now) {
			return fmt.Errorf("the database %s was replaced by another file; start the program again", path)
		}
		return nil
	}, nil
}

func (e *sqlite) write(ctx context.Context, b batch, then ...question) error {
	if err := e.writer.do(ctx, b); err != nil || len(then) == 0 {
		return err
	}
	// It is written, even if the caller was told to stop meanwhile.
	return e.read(context.WithoutCancel(ctx), then...)
}

// read asks one question after the other. SQLite's readers wait for nobody, and
// a context that can end costs the driver a goroutine for each statement: so it
// is looked at once.
func (e *sqlite) read(ctx context.Context, questions ...question) error {
	if err := ctx.Err(); err != nil {
		return transient(err)
	}
	ctx = context.WithoutCancel(ctx)
	at := instant{time: e.now()}
	for i := range questions {
		if q := &questions[i]; !q.isMoot() {
			if err := e.ask(ctx, q, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *sqlite) ask(ctx context.Context, q *question, at instant) (err error) {
	for i, arg := range q.args {
		q.args[i] = at.bind(arg)
	}
	var rows *sql.Rows
	if stmt := e.prepared[q.text]; stmt != nil {
		rows, err = stmt.QueryContext(ctx, q.args...)
	} else {
		rows, err = e.db.QueryContext(ctx, q.text, q.args...)
	}
	if err != nil {
		return classify(err)
	}
	defer rows.Close()
	if err = each(rows, q.row); err == nil || isOurs(err) {
		return err
	}
	return classify(err)
}

// ready: it was opened, so it is.
func (e *sqlite) ready(context.Context) error { return nil }

// close finishes what is being written and closes the database.
func (e *sqlite) close() error {
	e.writer.stop()
	return e.db.Close()
}

// classify says what an error of a statement means: that another writer was
// faster, that the data would contradict itself (which no waiting mends), or
// that the database cannot do it now.
func classify(err error) error {
	const constraint, unique, primaryKey = 19, 2067, 1555
	var coded interface{ Code() int }
	switch {
	case !errors.As(err, &coded):
	case coded.Code() == unique, coded.Code() == primaryKey:
		return fmt.Errorf("%w: %w", errConflict, err)
	case coded.Code()&0xff == constraint:
		return fmt.Errorf("the database refuses it: %w", err)
	}
	return fmt.Errorf("%w: %w", workflow.ErrTransient, err)
}
