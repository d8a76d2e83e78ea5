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
	load: `SELECT o.revision, o.version, o.status, o.state, o.since, o.blocked_by, j.outcome, j.fingerprint, d.due_at,
  (SELECT COUNT(*) FROM journal AS h WHERE h.order_id = k.order_id AND h.outcome = 'Held'),
  EXISTS (SELECT 1 FROM journal AS h WHERE h.order_id = k.order_id AND h.outcome = 'Blocked'), NULL
FROM (SELECT ?1 AS order_id) AS k
LEFT JOIN orders  AS o ON o.order_id = k.order_id
LEFT JOIN journal AS j ON j.order_id = k.order_id AND j.message_id = ?2 AND j.outcome <> 'Rejected'
LEFT JOIN outbox  AS d ON d.order_id = k.order_id AND d.message_id = ?3`,

	// Nothing but its beginning makes an early message of an order acceptable
	// that has not begun.
	held: `SELECT message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, body
FROM journal WHERE order_id = ?1 AND outcome = 'Held'
  AND (?2 = 1 OR EXISTS (SELECT 1 FROM orders AS o WHERE o.order_id = ?1 AND o.status <> 'NotStarted'))
ORDER BY revision, place`,

	insertOrder: `INSERT INTO orders (order_id, version, status, state, created_at, since, updated_at, revision)
VALUES (?, ?, ?, ?, ?, ?, ?, 1)`,

	updateOrder: `UPDATE orders SET version = ?, status = ?, state = ?, since = ?, updated_at = ?, purged_at = NULL,
  revision = revision + 1
WHERE order_id = ? AND revision = ?`,

	touchOrder: `UPDATE orders SET updated_at = ?, purged_at = NULL, revision = revision + 1 WHERE order_id = ? AND revision = ?`,

	insertJournal: `INSERT INTO journal (order_id, revision, place, message_id, message_type, conversation, parent_id, origin_id,
  schema_version, traceparent, fingerprint, body, outcome, reason, from_status, to_status, version, emitted,
  function, delivery_count, received_at, decided_at, audit)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,

	giveUpID: `UPDATE journal SET outcome = 'Rejected', reason = 'it came before it was armed'
WHERE order_id = ? AND message_id = ? AND outcome IN ('Stale', 'Skipped') AND outcome <> 'Rejected'`,

	// What was held unread has no fingerprint until now.
	takeUp: `UPDATE journal SET revision = ?, place = ?, outcome = ?, reason = ?, from_status = ?, to_status = ?, version = ?,
  emitted = ?, decided_at = ?, fingerprint = COALESCE(NULLIF(?, ''), fingerprint), audit = (ABS(audit) + 1) * ?
WHERE order_id = ? AND message_id = ? AND outcome IN ('Held', 'Blocked') AND outcome <> 'Rejected'`,

	// A command that a sender has in its hands may still get through; then its
	// mark says so. If it does not, it is not tried again. A deadline that the
	// broker has scheduled is to be cancelled there.
	settle: list(`UPDATE outbox SET closed_at = ?, audit_closed = (ABS(audit_closed) + 1) * ?, state = CASE WHEN state = 'sent' AND due_at > ? THEN 'recall' ELSE 'closed' END
WHERE order_id = ? AND message_id IN (`, `?`, `)
  AND (state IN ('waiting', 'dead') OR (state = 'sent' AND purpose IS NOT NULL))`),

	insertOutbox: list(`INSERT INTO outbox (order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  purpose, due_at, body, state, visible_at, created_at, closed_at, audit_closed)
VALUES `, `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, ``),

	upsertRejected: `INSERT INTO rejected (rejection_id, order_id, message_id, message_type, conversation, parent_id, origin_id,
  schema_version, traceparent, fingerprint, body, size, reason, function, delivery_count, first_at, last_at, times, audit)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, 1, ?18)
ON CONFLICT (rejection_id) DO UPDATE SET times = times + 1, last_at = excluded.last_at, reason = excluded.reason,
  settled = 0, audit = (ABS(audit) + 1) * ?18`,

	block: `UPDATE orders SET blocked_by = ? WHERE order_id = ?`,

	// From the early message that fails on, all go into the line.
	line: `UPDATE journal SET outcome = 'Blocked', reason = ?1, decided_at = ?4, audit = (ABS(audit) + 1) * ?5
WHERE order_id = ?2 AND outcome = 'Held' AND EXISTS (
  SELECT 1 FROM journal AS p WHERE p.order_id = ?2 AND p.message_id = ?3 AND p.outcome IN ('Held', 'Blocked')
    AND (p.revision < journal.revision OR (p.revision = journal.revision AND p.place <= journal.place)))`,

	blame: `UPDATE journal SET reason = ?, decided_at = ?, audit = (ABS(audit) + 1) * ?
WHERE order_id = ? AND message_id = ? AND outcome = 'Blocked' AND outcome <> 'Rejected'`,

	first: `SELECT o.revision, j.message_id, j.message_type, j.conversation, j.parent_id, j.origin_id, j.schema_version, j.traceparent, j.body
FROM orders AS o INNER JOIN journal AS j ON j.order_id = o.order_id
WHERE o.order_id = ? AND o.blocked_by IS NULL AND j.outcome = 'Blocked' ORDER BY j.revision, j.place LIMIT 1`,

	// It keeps its place: it came before whatever else waits in the line.
	early: `UPDATE journal SET outcome = 'Held', reason = ?, from_status = ?, to_status = ?, version = ?, decided_at = ?,
  fingerprint = COALESCE(NULLIF(?, ''), fingerprint), audit = (ABS(audit) + 1) * ?
WHERE order_id = ? AND message_id = ? AND outcome = 'Blocked' AND outcome <> 'Rejected'`,

	// The first of each order's line of commands, unless a sender is at work on
	// the line, and every deadline that is to be handed over: the oldest first.
	claim: `UPDATE outbox SET token = ?1, visible_at = ?2, attempts = attempts + 1
WHERE (order_id, seq) IN (
  SELECT o.order_id, o.seq FROM outbox AS o
  WHERE o.state = 'waiting' AND o.visible_at <= ?3
    AND (CASE WHEN o.purpose IS NULL THEN ?5 ELSE ?6 END) = 1
    AND (o.purpose IS NOT NULL OR NOT EXISTS (
      SELECT 1 FROM outbox AS p
      WHERE p.order_id = o.order_id AND p.seq <> o.seq AND p.purpose IS NULL
        AND ((p.state = 'waiting' AND p.seq < o.seq) OR (p.token IS NOT NULL AND p.visible_at > ?3))))
  ORDER BY o.visible_at, o.order_id, o.seq
  LIMIT ?4)`,

	claimed: `SELECT order_id, seq, message_id, message_type, conversation, parent_id, origin_id, traceparent,
  purpose, due_at, body, attempts, refusals, state
FROM outbox WHERE token = ? ORDER BY order_id, seq`,

	renew:   `UPDATE outbox SET visible_at = ?1 WHERE token = ?2 AND visible_at > ?3`,
	renewed: `SELECT COUNT(*) FROM outbox WHERE token = ? AND visible_at > ?`,

	// A deadline that was closed meanwhile stays closed, since another may be
	// armed, and is cancelled at the broker.
	markSent: `UPDATE outbox SET state = CASE WHEN purpose IS NULL OR state = 'waiting' THEN 'sent'
    WHEN due_at > ?1 THEN 'recall' ELSE state END,
  token = NULL, sent_at = ?1, broker_sequence = ?2, last_error = '', audit_sent = (ABS(audit_sent) + 1) * ?7
WHERE order_id = ?3 AND seq = ?4 AND token = ?5 AND visible_at > ?6`,

	markFailed: `UPDATE outbox SET token = NULL, visible_at = ?, last_error = ?, refusals = refusals + ?
WHERE order_id = ? AND seq = ? AND token = ? AND visible_at > ?`,

	giveBack: `UPDATE outbox SET token = NULL, visible_at = ?, attempts = attempts - 1
WHERE order_id = ? AND seq = ? AND token = ? AND visible_at > ?`,

	deaths: `SELECT deaths FROM outbox
WHERE order_id = ? AND seq = ? AND token = ? AND visible_at > ? AND state = 'waiting' AND purpose IS NULL`,

	bury: `UPDATE outbox SET state = 'dead', deaths = deaths + 1, refusals = refusals + 1, token = NULL, last_error = ?,
  died_at = ?, audit_dead = (ABS(audit_dead) + 1) * ?
WHERE order_id = ? AND seq = ? AND token = ? AND visible_at > ? AND state = 'waiting' AND purpose IS NULL`,

	recalls: `SELECT order_id, seq, broker_sequence FROM outbox
WHERE state = 'recall' AND broker_sequence IS NOT NULL AND due_at > ?1 ORDER BY due_at LIMIT ?2`,

	recalled: `UPDATE outbox SET state = 'closed' WHERE order_id = ? AND seq = ? AND state = 'recall'`,

	command: `SELECT state, sent_at FROM outbox WHERE order_id = ? AND message_id = ? AND purpose IS NULL`,

	// To the end of the line: what was decided since must not wait for it.
	sendAgain: `UPDATE outbox SET state = 'waiting', seq = ?1, visible_at = ?2, created_at = ?2, token = NULL, refusals = 0
WHERE order_id = ?3 AND message_id = ?4 AND purpose IS NULL AND state = ?5`,

	discard: `UPDATE outbox SET state = 'closed', closed_at = ?, audit_closed = (ABS(audit_closed) + 1) * ?
WHERE order_id = ? AND message_id = ? AND purpose IS NULL AND state = ?`,

	lost: `SELECT o.order_id, o.seq FROM outbox AS o
WHERE o.purpose IS NOT NULL AND o.state = 'sent' AND o.due_at <= ?1 AND o.visible_at <= ?1 AND NOT EXISTS (
  SELECT 1 FROM journal AS j WHERE j.order_id = o.order_id AND j.message_id = o.message_id AND j.outcome = 'Blocked' AND j.outcome <> 'Rejected')
ORDER BY o.due_at LIMIT ?2`,

	resend: `UPDATE outbox SET state = 'waiting', visible_at = ?
WHERE order_id = ? AND seq = ? AND visible_at <= ? AND state = 'sent' AND purpose IS NOT NULL`,

	forgetRecalls: `UPDATE outbox SET state = 'closed' WHERE state = 'recall' AND (due_at <= ? OR broker_sequence IS NULL)`,

	// Without a word from us SQLite would read every order that never started.
	tooEarly: `SELECT j.order_id, o.revision, j.fingerprint, j.function, j.delivery_count, j.message_id, j.message_type, j.conversation, j.parent_id, j.origin_id, j.schema_version, j.traceparent, j.body
FROM journal AS j INDEXED BY journal_held_since INNER JOIN orders AS o ON o.order_id = j.order_id
WHERE j.outcome = 'Held' AND j.received_at <= ?1 AND o.status = 'NotStarted' AND NOT EXISTS (
  SELECT 1 FROM journal AS b WHERE b.order_id = j.order_id AND b.outcome = 'Blocked')
ORDER BY j.received_at LIMIT ?2`,

	giveUpEarly: `UPDATE journal SET outcome = 'Rejected', reason = ?, decided_at = ?, audit = (ABS(audit) + 1) * ?
WHERE order_id = ? AND message_id = ? AND outcome = 'Held' AND outcome <> 'Rejected'`,

	lines: `SELECT DISTINCT j.order_id FROM journal AS j INNER JOIN orders AS o ON o.order_id = j.order_id
WHERE j.outcome = 'Blocked' AND o.blocked_by IS NULL AND j.order_id > ?1 ORDER BY j.order_id LIMIT ?2`,

	// And here every order that was ever purged.
	atRest: `SELECT o.order_id, o.revision FROM orders AS o INDEXED BY orders_at_rest
WHERE o.purged_at IS NULL AND o.status IN ('Completed', 'Cancelled') AND o.updated_at <= ?1
  AND NOT EXISTS (SELECT 1 FROM outbox AS p WHERE p.order_id = o.order_id AND (p.state IN ('waiting', 'recall', 'dead')
    OR (?3 = 1 AND (p.audit_sent > 0 OR p.audit_dead > 0 OR p.audit_closed > 0))))
  AND NOT EXISTS (SELECT 1 FROM journal AS h WHERE h.order_id = o.order_id AND (h.outcome IN ('Held', 'Blocked')
    OR (?3 = 1 AND h.audit > 0)))
ORDER BY o.updated_at, o.order_id LIMIT ?2`,

	purge: `UPDATE orders SET purged_at = ? WHERE order_id = ? AND revision = ?`,

	purgeJournal: `DELETE FROM journal WHERE order_id = ?1 AND (revision, place) IN (
  SELECT revision, place FROM journal WHERE order_id = ?1 ORDER BY revision, place LIMIT ?2)`,

	purgeOutbox: `DELETE FROM outbox WHERE order_id = ?1 AND seq IN (
  SELECT seq FROM outbox WHERE order_id = ?1 ORDER BY seq LIMIT ?2)`,

	keepPurging: `UPDATE orders SET purged_at = NULL WHERE order_id = ?1
  AND (EXISTS (SELECT 1 FROM journal WHERE order_id = ?1) OR EXISTS (SELECT 1 FROM outbox WHERE order_id = ?1))`,

	story: `SELECT o.revision, o.version, o.status, o.state, o.created_at, o.since, o.updated_at, o.blocked_by,
  (SELECT MAX(d.due_at) FROM outbox AS d WHERE d.order_id = o.order_id AND d.purpose IS NOT NULL AND d.state IN ('waiting', 'sent'))
FROM orders AS o WHERE o.order_id = ?`,

	journal: `SELECT decided_at, message_id, message_type, parent_id, outcome, reason, from_status, to_status, version, emitted,
  function, CASE WHEN message_type IN ('CancellationRequested', 'Retry', 'ResolveCancelled', 'ResolveCompleted') THEN body END
FROM journal WHERE order_id = ? ORDER BY revision, place`,

	outbox: `SELECT message_id, message_type, conversation, parent_id, origin_id, traceparent, purpose, due_at, body,
  state, attempts, refusals, deaths, visible_at, sent_at, closed_at, last_error
FROM outbox WHERE order_id = ? ORDER BY seq`,

	inLine: `SELECT message_id, message_type, conversation, parent_id, origin_id, schema_version, traceparent, body
FROM journal WHERE order_id = ? AND outcome = 'Blocked' ORDER BY revision, place`,

	rejected: `SELECT first_at, message_id, message_type, reason, times FROM rejected WHERE order_id = ? ORDER BY first_at, rejection_id`,

	revision: `SELECT revision FROM orders WHERE order_id = ?`,

	list: `SELECT order_id, status, version, state FROM orders ORDER BY order_id`,

	pending: `SELECT COUNT(*) FROM outbox WHERE state = 'waiting' AND (purpose IS NULL OR attempts > 0 OR visible_at <= ?)`,

	// A row that failed is tried again within minutes, so those further ahead
	// need not be looked at.
	backlog: `SELECT COUNT(*), MIN(CASE WHEN purpose IS NULL THEN created_at ELSE due_at END),
  (SELECT COUNT(*) FROM outbox WHERE state = 'dead'),
  (SELECT COUNT(*) FROM orders WHERE blocked_by IS NOT NULL),
  (SELECT COUNT(*) FROM journal WHERE outcome = 'Held'),
  (SELECT COUNT(*) FROM outbox AS o WHERE o.purpose IS NOT NULL AND o.state = 'sent' AND o.due_at <= ?3 AND NOT EXISTS (
    SELECT 1 FROM journal AS j WHERE j.order_id = o.order_id AND j.message_id = o.message_id AND j.outcome = 'Blocked' AND j.outcome <> 'Rejected')),
  NULL
FROM outbox WHERE state = 'waiting' AND visible_at <= ?2 AND (purpose IS NULL OR attempts > 0 OR visible_at <= ?1)`,

	views:  sqliteViews,
	audits: sqliteAudits,
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

// checkSQLite returns an error unless there is a database at a path, with the
// schema that this program needs. It changes nothing.
func checkSQLite(ctx context.Context, path string) (err error) {
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	if err := touch(path, 0); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", sqliteDSN(path, "busy_timeout("+fmt.Sprint(busyTimeout.Milliseconds())+")")+"&mode=rw")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var made bool
	var version int64
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_schema WHERE name = '`+goose.DefaultTablename+`'`).Scan(&made); err != nil {
		return err
	}
	if made {
		if err := db.QueryRowContext(ctx, `SELECT MAX(version_id) FROM `+goose.DefaultTablename).Scan(&version); err != nil {
			return err
		}
	}
	needed, err := schemaVersion(sqliteMigrations)
	if err == nil && version < needed {
		err = outOfDate(version, needed)
	}
	return err
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
		if err := touch(file, os.O_CREATE); err != nil {
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

// touch makes sure that a file can be written, and with os.O_CREATE creates it
// for its owner alone: it will hold customers' data. SQLite gives the files
// beside it the same permissions, and says less clearly what is wrong.
func touch(path string, create int) error {
	f, err := os.OpenFile(path, os.O_RDWR|create, 0o600)
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
