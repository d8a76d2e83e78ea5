package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	lite "modernc.org/sqlite"
)

// spy is SQLite, watched: it notes every statement that is prepared and run,
// and a test may step in before and after one is run.
type spy struct {
	sqlite lite.Driver

	mu       sync.Mutex
	prepared []string
	ran      []string
	// before may fail a statement instead of it, after behind it. Either may
	// wait, or do something else meanwhile.
	before, after func(text string) error
}

// watched opens a new database through a spy.
func watched(t testing.TB, options Options) (*Store, *spy) {
	t.Helper()
	if options.Now == nil {
		options.Now = time.Now
	}
	w := &spy{}
	name := fmt.Sprintf("spy %s %p", t.Name(), w) // a benchmark runs more than once
	sql.Register(name, w)
	e, err := startSQLite(context.Background(), name, filepath.Join(t.TempDir(), "orders.db"), options.Now)
	require.NoError(t, err)
	s := &Store{engine: e, text: &sqliteTexts, options: options}
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, w
}

// file is a store's SQLite database.
func file(s *Store) *sqlite { return s.engine.(*sqlite) }

// during lists the statements that ran during f, and how many were prepared.
func (w *spy) during(f func()) (ran []string, prepared int) {
	w.mu.Lock()
	w.ran, w.prepared = nil, nil
	w.mu.Unlock()
	f()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran, len(w.prepared)
}

// step sets what happens before and after a statement that begins with a text.
func (w *spy) step(text string, before, after func() error) {
	on := func(f func() error) func(string) error {
		return func(ran string) error {
			if f == nil || !strings.HasPrefix(ran, text) {
				return nil
			}
			return f()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before, w.after = on(before), on(after)
}

func (w *spy) Open(name string) (driver.Conn, error) {
	c, err := w.sqlite.Open(name)
	if err != nil {
		return nil, err
	}
	return &spyConn{c, w}, nil
}

type spyConn struct {
	driver.Conn
	spy *spy
}

func (c *spyConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	c.spy.mu.Lock()
	defer c.spy.mu.Unlock()
	c.spy.prepared = append(c.spy.prepared, text)
	return &spyStmt{stmt, text, c.spy}, nil
}

func (c *spyConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

type spyStmt struct {
	driver.Stmt
	text string
	spy  *spy
}

func (s *spyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return spied(s, func() (driver.Result, error) { return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args) })
}

func (s *spyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return spied(s, func() (driver.Rows, error) { return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args) })
}

func spied[T any](s *spyStmt, run func() (T, error)) (result T, err error) {
	s.spy.mu.Lock()
	s.spy.ran = append(s.spy.ran, s.text)
	before, after := s.spy.before, s.spy.after
	s.spy.mu.Unlock()
	if before != nil {
		if err := before(s.text); err != nil {
			return result, err
		}
	}
	if result, err = run(); err == nil && after != nil {
		err = after(s.text)
	}
	return result, err
}
