package store_test

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
	"orderflow/workflow/store/storetest"
)

// variable holds the address of a SQL Server to test on. Where it names a
// database, that one is used, and must have no tables of the store; else the
// suite makes databases of its own and drops them.
const variable = "ORDERFLOW_TEST_SQLSERVER"

// server is SQL Server in tests, with databases that scenarios take turns in.
type server struct {
	address *url.URL
	free    chan *sqlDatabase
	several bool
}

// sqlDatabase is one migrated database.
type sqlDatabase struct {
	address string
	sql     *sql.DB
}

// onSQLServer prepares the server that the variable names, or skips the test.
func onSQLServer(t *testing.T, most int) *server {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Skip("NOT RUN on SQL Server: " + variable + " holds no address, such as sqlserver://sa:PASSWORD@127.0.0.1:1433?encrypt=disable")
	}
	u, err := url.Parse(address)
	require.NoError(t, err, "%s must be an address that begins with sqlserver://", variable)
	s := &server{address: u}
	if name := u.Query().Get("database"); name != "" && !strings.EqualFold(name, "master") {
		s.free = make(chan *sqlDatabase, 1)
		s.free <- s.prepare(t, address)
		return s
	}
	s.several = most > 1
	s.free = make(chan *sqlDatabase, most)
	for range most {
		s.free <- s.create(t)
	}
	return s
}

// create makes a database, which is dropped with the test.
func (s *server) create(t *testing.T) *sqlDatabase {
	t.Helper()
	master := connect(t, s.address.String())
	name := "orderflow_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	_, err := master.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err, "create a database; or let %s name an empty one", variable)
	t.Cleanup(func() {
		// Not everywhere is there a single-user mode, nor is it needed then.
		_, _ = master.ExecContext(context.Background(), "ALTER DATABASE "+name+" SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
		require.Eventually(t, func() bool {
			_, err = master.ExecContext(context.Background(), "DROP DATABASE "+name)
			return err == nil
		}, 20*time.Second, 100*time.Millisecond, "drop the database %s", name)
	})
	u := *s.address
	query := u.Query()
	query.Set("database", name)
	u.RawQuery = query.Encode()
	return s.prepare(t, u.String())
}

func connect(t testing.TB, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlserver", address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// prepare migrates an empty database: several do so at once, one of them finds
// work, and all succeed.
func (s *server) prepare(t *testing.T, address string) *sqlDatabase {
	t.Helper()
	d := &sqlDatabase{address, connect(t, address)}
	// A run that was killed leaves this mark beside its tables.
	d.drop(t, "SELECT COUNT(*) FROM sys.tables WHERE name = 'storetest_leftovers'")
	var tables int
	require.NoError(t, d.sql.QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM sys.tables WHERE name IN ('orders', 'journal', 'outbox', 'rejected', 'goose_db_version')").Scan(&tables))
	require.Zero(t, tables, "the database that %s names has orders in it: nothing in it is touched", variable)
	_, err := d.sql.ExecContext(t.Context(), "CREATE TABLE dbo.storetest_leftovers (one int NOT NULL)")
	require.NoError(t, err)
	t.Cleanup(func() { d.drop(t, "SELECT 1") })

	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for range 4 {
		wg.Go(func() {
			applied, err := store.Migrate(context.Background(), address)
			mu.Lock()
			defer mu.Unlock()
			if done += len(applied); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, done, "one of them migrates, by one step")
	return d
}

// drop drops what prepare made, if a question is answered with 1.
func (d *sqlDatabase) drop(t testing.TB, question string) {
	t.Helper()
	var yes int
	require.NoError(t, d.sql.QueryRowContext(context.Background(), question).Scan(&yes))
	if yes == 0 {
		return
	}
	for _, table := range []string{"rejected", "outbox", "journal", "orders", "goose_db_version", "storetest_leftovers"} {
		_, err := d.sql.ExecContext(context.Background(), "DROP TABLE IF EXISTS dbo."+table)
		require.NoError(t, err)
	}
}

// take waits for a database, empties it and lends it until the test ends.
func (s *server) take(t testing.TB) *sqlDatabase {
	t.Helper()
	d := <-s.free
	t.Cleanup(func() { s.free <- d })
	for _, table := range []string{"orders", "journal", "outbox", "rejected"} {
		_, err := d.sql.ExecContext(context.Background(), "DELETE FROM dbo."+table)
		require.NoError(t, err)
	}
	return d
}

// database lends a database whose clock is virtual.
func (s *server) database(t testing.TB, c *clock) storetest.Database {
	t.Helper()
	d := s.take(t)
	run := func(statement string) error {
		_, err := d.sql.ExecContext(context.Background(), statement)
		return err
	}
	lent := storetest.Database{
		Open: func(o store.Options) (*store.Store, error) { return store.OpenSQLServerAt(d.address, c.Now, o) },
		Now:  c.Now, Pass: c.pass, SQL: d.sql,
		Refuse: func(verb, table string) func() {
			undo := "DROP TRIGGER dbo.refuse"
			if run(fmt.Sprintf("CREATE TRIGGER dbo.refuse ON dbo.%s AFTER %s AS IF EXISTS (SELECT 1 FROM inserted) THROW 50999, N'refused by the test', 1;", table, verb)) != nil {
				// Where there are no triggers: a rule that no new row can keep.
				undo = "ALTER TABLE dbo." + table + " DROP CONSTRAINT refuse"
				require.NoError(t, run("ALTER TABLE dbo."+table+" WITH NOCHECK ADD CONSTRAINT refuse CHECK (1 = 0)"))
			}
			return func() { require.NoError(t, run(undo)) }
		},
	}
	if s.several {
		lent.Move = func() storetest.Database {
			moved := s.database(t, c)
			for _, table := range []string{"orders", "journal", "outbox", "rejected"} {
				require.NoError(t, copyRows(d.sql, moved.SQL, table))
			}
			return moved
		}
	}
	return lent
}

// copyRows copies the rows of a table from one database to another.
func copyRows(from, to *sql.DB, table string) error {
	rows, err := from.Query("SELECT * FROM dbo." + table)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		var names, places []string
		var args []any
		for i, v := range values {
			if v != nil { // NULL is what a column is that is not named
				args = append(args, v)
				names, places = append(names, "["+columns[i]+"]"), append(places, fmt.Sprint("@p", len(args)))
			}
		}
		_, err := to.Exec("INSERT INTO dbo."+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(places, ", ")+")", args...)
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

func TestSQLServerKeepsThePromisesOfTheStore(t *testing.T) {
	t.Parallel()
	s := onSQLServer(t, 4)
	t.Run("by itself", func(t *testing.T) { itself(t, s) })
	storetest.Run(t, func(t testing.TB) storetest.Database {
		return s.database(t, &clock{now: time.Date(2026, 3, 1, 9, 30, 0, 123_456_000, time.UTC)})
	})
}

// order is a sound OrderPlaced.
func order(t testing.TB, id string) workflow.Message {
	t.Helper()
	m, err := workflow.Envelope{
		ID: id + "/placed", Type: workflow.OrderPlaced, OrderID: id,
		Body: fmt.Appendf(nil, `{"orderId":%q,"customerId":"c","currency":"EUR","amount":1,"lines":[{"sku":"s","quantity":1}]}`, id),
	}.Decode()
	require.NoError(t, err)
	return m
}

// itself is about what SQLite has no counterpart of: a clock, locks and triggers
// of the server's own, and a line that breaks.
func itself(t *testing.T, s *server) {
	open := func(t *testing.T) (*store.Store, *sqlDatabase) {
		d := s.take(t)
		db, err := store.Open(t.Context(), d.address, store.Options{Now: func() time.Time { return time.Unix(0, 0) }})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		return db, d
	}
	t.Run("its own clock decides, whatever the application's says", func(t *testing.T) {
		db, d := open(t)
		_, err := db.Handle(t.Context(), order(t, "order-42"))
		require.NoError(t, err)
		var now time.Time
		require.NoError(t, d.sql.QueryRowContext(t.Context(), "SELECT SYSUTCDATETIME()").Scan(&now))
		story, err := db.Story(t.Context(), "order-42")
		require.NoError(t, err)
		require.WithinDuration(t, now.Add(24*time.Hour), story.DeadlineAt, 10*time.Second)
		claimed, err := db.Claim(t.Context(), "first", workflow.Want{Commands: true, Deadlines: true}, 10, 200*time.Millisecond)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		var again []workflow.Claimed
		require.Eventually(t, func() bool {
			again, err = db.Claim(t.Context(), uuid.NewString(), workflow.Want{Commands: true, Deadlines: true}, 10, time.Minute)
			return err == nil && len(again) == 1
		}, 10*time.Second, 20*time.Millisecond, "the lease ends")
		require.NoError(t, db.Mark(t.Context(), "first", []workflow.Mark{{OrderID: "order-42", Seq: claimed[0].Seq, Sent: true}}))
		story, err = db.Story(t.Context(), "order-42")
		require.NoError(t, err)
		require.Equal(t, "waiting", story.Outbox[0].State, "a mark that comes late changes nothing")
	})
	t.Run("a caller who gives up while another holds the order leaves no lock and nothing half written", func(t *testing.T) {
		db, d := open(t)
		_, err := db.Handle(t.Context(), order(t, "order-42"))
		require.NoError(t, err)
		tx, err := d.sql.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "UPDATE dbo.orders SET revision = revision WHERE order_id = N'order-42'")
		require.NoError(t, err)
		again := order(t, "order-42")
		again.ID = "again"
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err = db.Handle(ctx, again)
		require.ErrorIs(t, err, workflow.ErrTransient)
		require.Less(t, time.Since(begun), 2300*time.Millisecond)
		require.NoError(t, tx.Rollback())
		decided, err := db.Handle(t.Context(), again)
		require.NoError(t, err)
		require.Equal(t, workflow.Stale, decided.Outcome)
	})
	t.Run("whoever waits for a lock is told after a while, though nobody gave up", func(t *testing.T) {
		db, d := open(t)
		_, err := db.Handle(t.Context(), order(t, "order-42"))
		require.NoError(t, err)
		tx, err := d.sql.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		_, err = tx.ExecContext(t.Context(), "UPDATE dbo.orders SET revision = revision WHERE order_id = N'order-42'")
		require.NoError(t, err)
		again := order(t, "order-42")
		again.ID = "again"
		_, err = db.Handle(t.Context(), again)
		require.ErrorIs(t, err, workflow.ErrTransient)
	})
	t.Run("a trigger on the outbox changes nothing", func(t *testing.T) {
		db, d := open(t)
		for _, verb := range []string{"INSERT", "UPDATE"} {
			_, err := d.sql.ExecContext(t.Context(), "CREATE TRIGGER dbo.watch_"+verb+" ON dbo.outbox AFTER "+verb+" AS SET NOCOUNT ON;")
			require.NoError(t, err)
			defer func() {
				_, err := d.sql.ExecContext(context.Background(), "DROP TRIGGER dbo.watch_"+verb)
				require.NoError(t, err)
			}()
		}
		_, err := db.Handle(t.Context(), order(t, "order-42"))
		require.NoError(t, err)
		claimed, err := db.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 10, time.Minute)
		require.NoError(t, err)
		require.Len(t, claimed, 1)
	})
	t.Run("eight claim at once: each row once, and no deadlock shows", func(t *testing.T) {
		db, _ := open(t)
		const orders = 100
		for n := range orders {
			_, err := db.Handle(t.Context(), order(t, fmt.Sprint("order-", n)))
			require.NoError(t, err)
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		seen := make(map[string]int)
		for range 8 {
			wg.Go(func() {
				for {
					claimed, err := db.Claim(context.Background(), uuid.NewString(), workflow.Want{Commands: true, Deadlines: true}, 7, time.Minute)
					if err != nil {
						t.Error(err)
					}
					if len(claimed) == 0 {
						return
					}
					mu.Lock()
					for _, c := range claimed {
						seen[c.ID]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		require.Len(t, seen, orders)
		for id, times := range seen {
			require.Equal(t, 1, times, id)
		}
	})
	t.Run("a commit whose reply is lost is a duplicate when the message comes again", func(t *testing.T) {
		d := s.take(t)
		p := startProxy(t, d.address)
		db, err := store.Open(t.Context(), p.address, store.Options{})
		require.NoError(t, err)
		defer db.Close()
		require.NoError(t, db.Ready(t.Context()))
		for n := range 10 {
			m := order(t, fmt.Sprint("order-", n))
			p.cut(2) // the load is the first request, the commit the second
			_, err = db.Handle(t.Context(), m)
			require.ErrorIs(t, err, workflow.ErrTransient)
			var d workflow.Decision
			require.Eventually(t, func() bool { // the server may still be at it
				d, err = db.Handle(t.Context(), m)
				return err == nil && d.Outcome == workflow.Duplicate
			}, 10*time.Second, 50*time.Millisecond, "%v %v", d, err)
		}
		orders, err := db.List(t.Context())
		require.NoError(t, err)
		require.Len(t, orders, 10)
	})
	t.Run("a message is two requests, a duplicate one, a claim one and its marks one", func(t *testing.T) {
		d := s.take(t)
		p := startProxy(t, d.address)
		db, err := store.Open(t.Context(), p.address, store.Options{})
		require.NoError(t, err)
		defer db.Close()
		require.NoError(t, db.Ready(t.Context()))
		require.Equal(t, 2, p.during(func() { _, err = db.Handle(t.Context(), order(t, "order-42")) }))
		require.NoError(t, err)
		require.Equal(t, 1, p.during(func() { _, err = db.Handle(t.Context(), order(t, "order-42")) }))
		require.NoError(t, err)
		var claimed []workflow.Claimed
		require.Equal(t, 1, p.during(func() {
			claimed, err = db.Claim(t.Context(), "t", workflow.Want{Commands: true, Deadlines: true}, 100, time.Minute)
		}))
		require.NoError(t, err)
		require.Len(t, claimed, 1)
		require.Equal(t, 1, p.during(func() {
			err = db.Mark(t.Context(), "t", []workflow.Mark{{OrderID: "order-42", Seq: claimed[0].Seq, Sent: true}})
		}))
		require.NoError(t, err)
	})
	t.Run("a database that was migrated says so, and is not migrated again", func(t *testing.T) {
		db, d := open(t)
		require.NoError(t, db.Ready(t.Context()))
		applied, err := store.Migrate(t.Context(), d.address)
		require.NoError(t, err)
		require.Empty(t, applied)
		steps, err := store.Migrations(t.Context(), d.address)
		require.NoError(t, err)
		require.Len(t, steps, 1)
		require.False(t, steps[0].AppliedAt.IsZero())
	})
}

// proxy stands between a store and the server, counts the requests and can cut
// the line behind one.
type proxy struct {
	address  string
	mu       sync.Mutex
	requests int
	left     int // requests until the line is cut; 0 for never
}

func startProxy(t *testing.T, address string) *proxy {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	if !strings.EqualFold(u.Query().Get("encrypt"), "disable") {
		t.Skip("NOT RUN: what is encrypted cannot be counted; set encrypt=disable")
	}
	target := u.Host
	if u.Port() == "" {
		target = net.JoinHostPort(u.Hostname(), "1433")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u.Host = l.Addr().String()
	p := &proxy{address: u.String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer client.Close()
				upstream, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer upstream.Close()
				wg.Go(func() {
					_, _ = io.Copy(client, upstream)
					_ = client.Close()
				})
				p.forward(client, upstream)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return p
}

// forward passes packets on until the line is cut: then the client is left
// behind, and the server has the whole request.
func (p *proxy) forward(client, upstream net.Conn) {
	header := make([]byte, 8)
	for {
		if _, err := io.ReadFull(client, header); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(header[2:]))
		copy(packet, header)
		if _, err := io.ReadFull(client, packet[8:]); err != nil {
			return
		}
		const batch, call, transaction = 1, 3, 14
		cut := false
		if kind := header[0]; header[1]&1 != 0 && (kind == batch || kind == call || kind == transaction) {
			p.mu.Lock()
			p.requests++
			cut = p.left == 1
			p.left = max(p.left-1, 0)
			p.mu.Unlock()
		}
		if cut {
			_ = client.Close()
		}
		if _, err := upstream.Write(packet); err != nil || cut {
			return
		}
	}
}

func (p *proxy) cut(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = after
}

func (p *proxy) during(f func()) int {
	p.mu.Lock()
	p.requests = 0
	p.mu.Unlock()
	f()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

func TestAFileCanBeMigratedBeforeItIsOpenedAndItsMigrationsListed(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/orders.db"
	_, err := store.Migrations(t.Context(), path)
	require.ErrorIs(t, err, os.ErrNotExist, "to look is not to make")
	require.NoFileExists(t, path)
	for n := range 2 {
		applied, err := store.Migrate(t.Context(), path)
		require.NoError(t, err)
		require.Len(t, applied, 1-n, "a second run finds nothing to do")
	}
	steps, err := store.Migrations(t.Context(), path)
	require.NoError(t, err)
	require.Len(t, steps, 1)
	require.Equal(t, "00001_orders.sql", steps[0].Name)
	require.False(t, steps[0].AppliedAt.IsZero())
	db, err := store.Open(t.Context(), path, store.Options{Now: time.Now})
	require.NoError(t, err)
	require.NoError(t, db.Ready(t.Context()))
	require.NoError(t, db.Close())
}
