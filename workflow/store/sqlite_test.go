package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow/store"
	"orderflow/workflow/store/storetest"
)

func TestSQLiteKeepsThePromisesOfTheStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Database {
		return database(t, filepath.Join(t.TempDir(), "orders.db"), &clock{now: time.Date(2026, 3, 1, 9, 30, 0, 123_456_000, time.UTC)})
	})
}

// clock is the store's clock in tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// database is a database in a file.
func database(t testing.TB, path string, c *clock) storetest.Database {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&mode=rwc")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return storetest.Database{
		Open: func(o store.Options) (*store.Store, error) {
			o.Now = c.Now
			return store.Open(t.Context(), path, o)
		},
		Now: c.Now, Pass: c.pass, SQL: db,
		Refuse: func(verb, table string) func() {
			_, err := db.Exec(fmt.Sprintf("CREATE TRIGGER refuse BEFORE %s ON %s BEGIN SELECT RAISE(ABORT, 'refused by the test'); END", verb, table))
			require.NoError(t, err)
			return func() {
				_, err := db.Exec("DROP TRIGGER refuse")
				require.NoError(t, err)
			}
		},
		Move: func() storetest.Database {
			elsewhere := filepath.Join(t.TempDir(), "moved.db")
			for _, part := range []string{"", "-wal"} { // as the files lie there, in use
				bytes, err := os.ReadFile(path + part)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(elsewhere+part, bytes, 0o600))
			}
			return database(t, elsewhere, c)
		},
	}
}
