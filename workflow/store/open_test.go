package store_test

import (
	"context"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func TestAPathThatCannotBeADatabaseFailsSoonAndSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, content string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	locked := filepath.Join(dir, "locked")
	require.NoError(t, os.Mkdir(locked, 0o500))
	for _, c := range []struct {
		name, path, says string
		notAsRoot        bool
	}{
		{"a folder that is not there", filepath.Join(dir, "nowhere", "orders.db"), "no such file or directory", false},
		{"a folder", dir, "is a directory", false},
		{"below a file", filepath.Join(file("plain", "", 0o600), "orders.db"), "not a directory", false},
		{"no path", "", "is a directory", false},
		{"a file that is no database", file("letter.txt", strings.Repeat("Dear customer, ", 500), 0o600), "file is not a database", false},
		{"a folder that may not be written", filepath.Join(locked, "orders.db"), "permission denied", true},
		{"a file that may not be written", file("read-only.db", "", 0o400), "permission denied", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.notAsRoot && os.Geteuid() == 0 {
				t.Skip("root may write anywhere")
			}
			begun := time.Now()
			_, err := store.Open(t.Context(), c.path, store.Options{Now: time.Now})
			require.ErrorContains(t, err, c.says)
			require.ErrorContains(t, err, "open the database "+c.path)
			require.Less(t, time.Since(begun), 2*time.Second)
		})
	}
}

func TestOpenedAsExistingADatabaseIsNeitherMadeNorChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(name string) error {
		s, err := store.Open(t.Context(), filepath.Join(dir, name), store.Options{Now: time.Now, Existing: true})
		if err != nil {
			return err
		}
		return s.Close()
	}
	require.ErrorIs(t, open("missing.db"), fs.ErrNotExist)
	require.ErrorContains(t, open("."), "directory")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files, "nothing was made")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "letter.db"), []byte(strings.Repeat("Dear customer, ", 500)), 0o600))
	require.ErrorContains(t, open("letter.db"), "not a database")

	s, err := store.Open(t.Context(), filepath.Join(dir, "orders.db"), store.Options{Now: time.Now})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, open("orders.db"))
	for _, old := range []string{`DELETE FROM goose_db_version WHERE version_id > 0`, `DROP TABLE goose_db_version`} {
		db, err := sql.Open("sqlite", filepath.Join(dir, "orders.db"))
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), old)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		err = open("orders.db")
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, "its version is 0, this program needs")
		require.ErrorContains(t, err, "handler migrate up")
	}
}

func TestNothingIsAcknowledgedIntoAFileThatWasDeletedOrReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "orders.db")
	s, err := store.Open(t.Context(), path, store.Options{Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	m, err := workflow.Envelope{
		ID: "m-1", OrderID: "order-42", Type: workflow.PaymentCaptured, Body: []byte(`{"orderId":"order-42","paymentId":"p"}`),
	}.Decode()
	require.NoError(t, err)
	place := func() error {
		_, err := s.Handle(t.Context(), m)
		return err
	}

	require.NoError(t, os.Rename(path, path+".away"))
	err = place()
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.ErrorContains(t, err, "gone")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	err = place()
	require.ErrorIs(t, err, workflow.ErrTransient)
	require.ErrorContains(t, err, "replaced")
	require.NoError(t, os.Rename(path+".away", path))
	require.NoError(t, place(), "nothing was lost")
}

func TestAClockIsRequired(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "orders.db"), store.Options{})
	require.ErrorContains(t, err, "Options.Now")
}

func TestAnyFileNameIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"with space.db", "what?.db", "50%.db", "%41.db", "#1.db", "a&mode=memory.db", "it's.db", `quo"te.db`, "ünï.db", "a:b.db", ":memory:", "file:x.db", "semi;colon",
	} {
		path := filepath.Join(t.TempDir(), name)
		s, err := store.Open(t.Context(), path, store.Options{Now: time.Now})
		require.NoError(t, err, name)
		_, err = s.List(t.Context())
		require.NoError(t, err, name)
		require.NoError(t, s.Close())
		info, err := os.Stat(path)
		require.NoError(t, err, name)
		require.NotZero(t, info.Size(), "%s is where the data is", name)
	}
}

func TestARelativePathIsTakenFromTheWorkingFolder(t *testing.T) {
	// Not parallel: it changes the working folder.
	t.Chdir(t.TempDir())
	for _, path := range []string{"orders.db", "./here.db", ":memory:", "file:orders.db"} {
		s, err := store.Open(t.Context(), path, store.Options{Now: time.Now})
		require.NoError(t, err, path)
		require.NoError(t, s.Close())
		require.FileExists(t, path)
	}
}

func TestTheDatabaseIsForItsOwnersEyesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(dir, "orders.db"), store.Options{Now: time.Now})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 1, time.Minute)
	require.NoError(t, err)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 3, "the database, its log, its lock")
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, f.Name())
	}
}

func TestSeveralProcessesThatOpenAnEmptyDatabaseAtOnceAllSucceed(t *testing.T) {
	t.Parallel()
	for range 3 {
		path := filepath.Join(t.TempDir(), "orders.db")
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				s, err := store.Open(context.Background(), path, store.Options{Now: time.Now})
				if err != nil {
					t.Errorf("open: %v", err)
					return
				}
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		wg.Wait()
	}
}

// TestADayPassesInVirtualTime shows that the store's clock is the only one: in
// a bubble it is virtual, and a day passes at its true length in milliseconds.
func TestADayPassesInVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(context.Background(), filepath.Join(t.TempDir(), "orders.db"), store.Options{Now: time.Now})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		m, err := workflow.Envelope{
			ID: "m1", Type: workflow.OrderPlaced, OrderID: "order-42",
			Body: []byte(`{"orderId":"order-42","customerId":"c","currency":"EUR","amount":1,"lines":[{"sku":"s","quantity":1}]}`),
		}.Decode()
		require.NoError(t, err)
		_, err = s.Handle(t.Context(), m)
		require.NoError(t, err)

		begun := time.Now()
		for {
			claimed, err := s.Claim(t.Context(), time.Now().String(), workflow.Want{Commands: true, Deadlines: true}, 10, time.Second)
			require.NoError(t, err)
			var deadline workflow.Outgoing
			for _, c := range claimed {
				require.NoError(t, s.Mark(t.Context(), "", nil))
				if c.Purpose != "" {
					deadline = c.Outgoing
				}
			}
			if deadline.ID == "" {
				time.Sleep(time.Minute)
				continue
			}
			require.Equal(t, 23*time.Hour+58*time.Minute, time.Since(begun))
			time.Sleep(time.Until(deadline.DueAt))
			m, err := workflow.Envelope{ID: deadline.ID, Type: deadline.Type, OrderID: "order-42", Body: deadline.Body}.Decode()
			require.NoError(t, err)
			d, err := s.Handle(t.Context(), m)
			require.NoError(t, err)
			require.Equal(t, workflow.Cancelled, d.To)
			return
		}
	})
}
