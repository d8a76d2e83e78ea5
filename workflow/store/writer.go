package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"orderflow/workflow"
)

// writer is SQLite's one writer. Batches that wait at the same moment share one
// commit, which is what costs; one that fails is undone alone, and a lone one
// never waits. What it runs is bound to no caller's context: one caller that
// gives up must not end the transaction for the others. Its longest wait, for
// another process's transaction, is busyTimeout.
type writer struct {
	db    *sql.DB
	now   func() time.Time
	there func() error // says if what is written would be lost
	most  int          // batches that may share a commit
	queue chan *job
	quit  chan struct{} // closed by stop
	done  chan struct{} // closed when the last group is written
	once  sync.Once

	// Of the writing goroutine only. It speaks to the driver directly, which
	// halves what a statement costs beside its work in the database.
	conn     *sql.Conn
	raw      driver.ConnPrepareContext // conn's, while a group is written
	prepared map[string]driver.StmtExecContext
	bound    []driver.NamedValue // the arguments of the statement at hand
}

// job is a batch that waits to be written.
type job struct {
	ctx    context.Context //nolint:containedctx // whose caller may give up while it waits
	batch  batch
	result chan error // buffered: the caller may be gone
}

// groupMost bounds how many batches share a commit.
const groupMost = 64

func startWriter(db *sql.DB, now func() time.Time, there func() error) (*writer, error) {
	w := &writer{
		db: db, now: now, there: there, most: groupMost, queue: make(chan *job, groupMost),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	if err := w.connect(); err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

var errClosed = fmt.Errorf("%w: the database is closed", workflow.ErrTransient)

// do waits for a batch to be written. When ctx ends first it is not known
// whether it was; the message's next delivery finds out.
func (w *writer) do(ctx context.Context, b batch) error {
	j := &job{ctx: ctx, batch: b, result: make(chan error, 1)}
	select {
	case <-w.quit:
		return errClosed
	default:
	}
	select {
	case w.queue <- j:
	case <-w.quit:
		return errClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", workflow.ErrTransient, ctx.Err())
	}
	select {
	case err := <-j.result:
		return err
	case <-w.done:
		select { // it may have been in the last group
		case err := <-j.result:
			return err
		default:
			return errClosed
		}
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", workflow.ErrTransient, ctx.Err())
	}
}

func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	defer w.disconnect()
	for {
		select {
		case j := <-w.queue:
			w.group(w.waiting([]*job{j}))
		case <-w.quit:
			for rest := w.waiting(nil); len(rest) > 0; rest = w.waiting(nil) {
				w.group(rest)
			}
			return
		}
	}
}

// waiting adds what waits at this moment to a group.
func (w *writer) waiting(group []*job) []*job {
	for len(group) < w.most {
		select {
		case j := <-w.queue:
			group = append(group, j)
		default:
			return group
		}
	}
	return group
}

// group writes batches in one transaction and tells each how it went.
func (w *writer) group(jobs []*job) {
	results := make([]error, len(jobs))
	err := w.there()
	if err == nil {
		err = w.connect()
	}
	if err == nil {
		err = w.conn.Raw(func(raw any) error {
			w.raw = raw.(driver.ConnPrepareContext)
			return w.transaction(jobs, results)
		})
	}
	if err != nil {
		w.disconnect()
		for i := range results {
			results[i] = fmt.Errorf("%w: %w", workflow.ErrTransient, err)
		}
	}
	for i, j := range jobs {
		j.result <- results[i]
	}
}

// transaction writes each batch and its own result. The error is the one by
// which all of them are undone; nothing runs after it.
func (w *writer) transaction(jobs []*job, results []error) error {
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	at := instantOf(w.now())
	for i, j := range jobs {
		if err := j.ctx.Err(); err != nil { // its caller is gone
			results[i] = fmt.Errorf("%w: %w", workflow.ErrTransient, err)
			continue
		}
		if len(jobs) == 1 {
			if results[i] = w.statements(j.batch, at); results[i] != nil {
				return w.undo("ROLLBACK", results[i])
			}
			continue
		}
		if err := w.exec("SAVEPOINT batch"); err != nil {
			return err
		}
		if results[i] = w.statements(j.batch, at); results[i] != nil {
			if err := w.undo("ROLLBACK TO batch", results[i]); err != nil {
				return err
			}
		}
		if err := w.exec("RELEASE batch"); err != nil {
			return err
		}
	}
	return w.exec("COMMIT")
}

// undo takes back what a failed batch did. When that fails the database has
// already taken back the whole transaction, because of the same failure.
func (w *writer) undo(text string, because error) error {
	if err := w.exec(text); err != nil {
		return fmt.Errorf("%w (%s: %w)", because, text, err)
	}
	return nil
}

// statements runs one batch. After an error nothing more of it runs.
func (w *writer) statements(b batch, at instant) error {
	for _, s := range b {
		stmt, err := w.prepare(s.text)
		if err != nil {
			return fmt.Errorf("%w: %w", workflow.ErrTransient, err)
		}
		w.bound = w.bound[:0]
		for i, arg := range s.args {
			w.bound = append(w.bound, driver.NamedValue{Ordinal: i + 1, Value: at.bind(arg)})
		}
		done, err := stmt.ExecContext(context.Background(), w.bound)
		if err != nil {
			return classify(err)
		}
		if s.rows == anyRows {
			continue
		}
		if n, err := done.RowsAffected(); err != nil || n != s.rows {
			return errors.Join(errConflict, err)
		}
	}
	return nil
}

// instant is the time of a transaction, and as it is stored.
type instant struct {
	time time.Time
	text any // boxed once for a transaction: most times in a batch are just now
}

func instantOf(t time.Time) instant { return instant{t, formatTime(t)} }

// bind turns an argument into what SQLite stores.
func (at instant) bind(arg any) any {
	switch v := arg.(type) {
	case relative:
		if v == now && at.text != nil {
			return at.text
		}
		return formatTime(at.time.Add(time.Duration(v)))
	case time.Time:
		return formatTime(v)
	case verbatim:
		return string(v)
	}
	return arg
}

// preparedMost bounds the statements kept: their texts are few, but lists in
// them vary in length.
const preparedMost = 128

func (w *writer) prepare(text string) (driver.StmtExecContext, error) {
	if stmt := w.prepared[text]; stmt != nil {
		return stmt, nil
	}
	if len(w.prepared) >= preparedMost {
		w.forget()
	}
	prepared, err := w.raw.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	stmt := prepared.(driver.StmtExecContext)
	w.prepared[text] = stmt
	return stmt, nil
}

func (w *writer) exec(text string) error {
	stmt, err := w.prepare(text)
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(context.Background(), nil)
	return err
}

func (w *writer) connect() error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(context.Background())
	if err == nil {
		w.conn, w.prepared = conn, make(map[string]driver.StmtExecContext)
	}
	return err
}

// disconnect gives up a connection that may be in the middle of a transaction.
func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	_ = w.conn.Raw(func(any) error {
		w.forget()
		return driver.ErrBadConn // not back into the pool
	})
	_ = w.conn.Close()
	w.conn = nil
}

func (w *writer) forget() {
	for text, stmt := range w.prepared {
		_ = stmt.(driver.Stmt).Close()
		delete(w.prepared, text)
	}
}
