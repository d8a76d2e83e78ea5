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
// never waits.
type writer struct {
	db    *sql.DB
	now   func() time.Time
	queue chan *job
	quit  chan struct{} // closed by stop
	done  chan struct{} // closed when the last group is written
	once  sync.Once

	// Of the writing goroutine only.
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

// job is a batch that waits to be written.
type job struct {
	ctx    context.Context //nolint:containedctx // whose caller may give up while it waits
	batch  batch
	result chan error // buffered: the caller may be gone
}

const (
	// groupMost bounds how many batches share a commit.
	groupMost = 64
	// groupTimeout bounds a group's transaction, which runs under its own
	// context: no caller's may end it for the others.
	groupTimeout = 30 * time.Second
)

func startWriter(ctx context.Context, db *sql.DB, now func() time.Time) (*writer, error) {
	w := &writer{
		db: db, now: now, queue: make(chan *job, groupMost),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	if err := w.connect(ctx); err != nil {
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
			if rest := w.waiting(nil); len(rest) > 0 {
				w.group(rest)
			}
			return
		}
	}
}

// waiting adds what waits at this moment to a group.
func (w *writer) waiting(group []*job) []*job {
	for len(group) < groupMost {
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
	ctx, cancel := context.WithTimeout(context.Background(), groupTimeout)
	defer cancel()
	results, err := w.transaction(ctx, jobs)
	if err != nil {
		err = fmt.Errorf("%w: %w", workflow.ErrTransient, err)
		w.disconnect()
	}
	for i, j := range jobs {
		if err == nil {
			j.result <- results[i]
		} else {
			j.result <- err
		}
	}
}

// transaction returns each batch's own result, or the error by which all of
// them are undone.
func (w *writer) transaction(ctx context.Context, jobs []*job) ([]error, error) {
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	if err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	at := w.now().UTC()
	results := make([]error, len(jobs))
	alone := len(jobs) == 1
	for i, j := range jobs {
		if err := j.ctx.Err(); err != nil {
			results[i] = fmt.Errorf("%w: %w", workflow.ErrTransient, err)
			continue
		}
		if !alone {
			if err := w.exec(ctx, "SAVEPOINT batch"); err != nil {
				return nil, err
			}
		}
		results[i] = w.statements(ctx, j.batch, at)
		if results[i] != nil && alone {
			return results, w.exec(ctx, "ROLLBACK")
		}
		if results[i] != nil {
			if err := w.exec(ctx, "ROLLBACK TO batch"); err != nil {
				return nil, err // the whole transaction is gone
			}
		}
		if !alone {
			if err := w.exec(ctx, "RELEASE batch"); err != nil {
				return nil, err
			}
		}
	}
	return results, w.exec(ctx, "COMMIT")
}

// statements runs one batch. After an error nothing more of it runs.
func (w *writer) statements(ctx context.Context, b batch, at time.Time) error {
	for _, s := range b {
		stmt, err := w.prepare(ctx, s.text)
		if err != nil {
			return fmt.Errorf("%w: %w", workflow.ErrTransient, err)
		}
		done, err := stmt.ExecContext(ctx, bind(s.args, at)...)
		if isUnique(err) {
			return fmt.Errorf("%w: %w", errConflict, err)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", workflow.ErrTransient, err)
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

// bind turns arguments into what SQLite stores.
func bind(args []any, at time.Time) []any {
	bound := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case relative:
			bound[i] = formatTime(at.Add(time.Duration(v)))
		case time.Time:
			bound[i] = formatTime(v)
		default:
			bound[i] = arg
		}
	}
	return bound
}

// preparedMost bounds the statements kept: their texts are few, but lists in
// them vary in length.
const preparedMost = 128

func (w *writer) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := w.prepared[text]; stmt != nil {
		return stmt, nil
	}
	if len(w.prepared) >= preparedMost {
		w.forget()
	}
	stmt, err := w.conn.PrepareContext(ctx, text)
	if err == nil {
		w.prepared[text] = stmt
	}
	return stmt, err
}

func (w *writer) exec(ctx context.Context, text string) error {
	stmt, err := w.prepare(ctx, text)
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(ctx)
	return err
}

func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn != nil {
		return nil
	}
	w.conn, err = w.db.Conn(ctx)
	w.prepared = make(map[string]*sql.Stmt)
	return err
}

// disconnect gives up a connection that may be in the middle of a transaction.
func (w *writer) disconnect() {
	if w.conn == nil {
		return
	}
	w.forget()
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn }) // not back into the pool
	_ = w.conn.Close()
	w.conn = nil
}

func (w *writer) forget() {
	for text, stmt := range w.prepared {
		_ = stmt.Close()
		delete(w.prepared, text)
	}
}

// isUnique reports whether a statement ran into a unique key.
func isUnique(err error) bool {
	const constraintUnique, constraintPrimaryKey = 2067, 1555
	var coded interface{ Code() int }
	if !errors.As(err, &coded) {
		return false
	}
	return coded.Code() == constraintUnique || coded.Code() == constraintPrimaryKey
}
