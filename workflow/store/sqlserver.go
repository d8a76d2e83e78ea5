package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
)

// isSQLServer reports whether a connection is the address of a SQL Server and
// not the path of a file.
func isSQLServer(connection string) bool {
	scheme, _, found := strings.Cut(connection, "://")
	return found && strings.EqualFold(scheme, "sqlserver")
}

// The defaults of what Options leave open.
const (
	connectionsDefault = 30
	lifetimeDefault    = 15 * time.Minute
	timeoutDefault     = 15 * time.Second
)

// sqlServer is Microsoft SQL Server or Azure SQL. Each write and each read is
// one request, which the server runs from its first statement to its last.
type sqlServer struct {
	db      *sql.DB
	timeout time.Duration
	// found: the schema was looked at once and is the one that is needed.
	found atomic.Bool
}

// startSQLServer prepares for a server without speaking to it.
func startSQLServer(connection string, o Options) (*sqlServer, error) {
	timeout := or(o.Timeout, timeoutDefault)
	connector, err := newConnector(connection, timeout)
	if err != nil {
		return nil, err
	}
	return pooled(connector, o, timeout), nil
}

func pooled(connector driver.Connector, o Options, timeout time.Duration) *sqlServer {
	e := &sqlServer{db: sql.OpenDB(connector), timeout: timeout}
	most := or(o.MaxConnections, connectionsDefault)
	e.db.SetMaxOpenConns(most)
	e.db.SetMaxIdleConns(most)
	e.db.SetConnMaxLifetime(or(o.ConnectionLifetime, lifetimeDefault))
	return e
}

// or is v, or the default when v is not set.
func or[T int | time.Duration](v, def T) T {
	if v > 0 {
		return v
	}
	return def
}

func (e *sqlServer) write(ctx context.Context, b batch, then ...question) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	r := transactionOf(b, then)
	if len(r.args) > parametersMost {
		return e.inParts(ctx, b.parts())
	}
	return e.run(ctx, r, then)
}

func (e *sqlServer) read(ctx context.Context, questions ...question) error {
	if err := e.ready(ctx); err != nil {
		return err
	}
	return e.run(ctx, transactionOf(nil, questions), questions)
}

// ready looks at the schema until it was right once.
func (e *sqlServer) ready(ctx context.Context) error {
	if e.found.Load() {
		return nil
	}
	needed, err := schemaVersion(sqlServerMigrations)
	if err != nil {
		return err
	}
	var version int64
	asked := question{text: askVersion, row: func(r row) error { return r.Scan(&version) }}
	if err := e.run(ctx, transactionOf(nil, []question{asked}), []question{asked}); err != nil {
		return fmt.Errorf("connect to SQL Server: %w", err)
	}
	if version < needed {
		return transient(fmt.Errorf("%w: its version is %d, this program needs %d: run `handler migrate up`", ErrSchema, version, needed))
	}
	e.found.Store(true)
	return nil
}

// close closes the connections; requests under way end as their contexts do.
func (e *sqlServer) close() error { return e.db.Close() }

// run sends a request and hands the rows of its result sets to the questions. A
// mere reading is asked again when its connection turns out to be broken, as
// those are that idled while the server moved.
func (e *sqlServer) run(ctx context.Context, r *request, questions []question) error {
	return e.connected(ctx, func(ctx context.Context, conn *sql.Conn) (safe bool, err error) {
		if len(questions) == 0 {
			_, err := conn.ExecContext(ctx, r.text.String(), r.args...)
			return unsent(err), err
		}
		rows, err := conn.QueryContext(ctx, r.text.String(), r.args...)
		if err != nil {
			return unsent(err) || !r.writes, err
		}
		defer rows.Close()
		untold, err := answer(rows, questions)
		return untold && !r.writes, err
	})
}

// unsent reports whether a request did not leave: its connection was found
// closed. It is what the driver promises with this one error.
func unsent(err error) bool { return errors.Is(err, driver.ErrBadConn) }

// answer reads result sets to their end: what is left unread costs the driver
// another round trip, and an error may come behind the last row. It reports
// whether no row was handed on.
func answer(rows *sql.Rows, questions []question) (untold bool, err error) {
	untold = true
	for i := range questions {
		q := &questions[i]
		err := each(rows, func(r row) error {
			if q.isMoot() {
				return nil
			}
			untold = false
			return q.row(r)
		})
		if err != nil {
			return untold, err
		}
		if last := i == len(questions)-1; rows.NextResultSet() == last {
			return untold, errors.Join(rows.Err(), fmt.Errorf("of %d result sets there was no end, or one too soon, after %d", len(questions), i+1))
		}
	}
	return untold, errors.Join(rows.Err(), rows.Close())
}

// inParts writes a batch that has more parameters than a request can hold, in a
// transaction of the driver's. Nothing of it runs after an error.
func (e *sqlServer) inParts(ctx context.Context, parts []batch) error {
	return e.connected(ctx, func(ctx context.Context, conn *sql.Conn) (safe bool, err error) {
		tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return unsent(err), err
		}
		for _, part := range parts {
			r := partOf(part)
			if _, err := tx.ExecContext(ctx, r.text.String(), r.args...); err != nil {
				return false, errors.Join(err, tx.Rollback())
			}
		}
		return false, tx.Commit()
	})
}

// sendTries is how often a request is sent that found its connection broken.
const sendTries = 3

// connected does something on a connection of the pool, within the engine's own
// timeout, and does it again on another one where that is safe. A connection on
// which anything went wrong but the statement itself is not used again.
func (e *sqlServer) connected(ctx context.Context, do func(context.Context, *sql.Conn) (safe bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	for try := 1; ; try++ {
		conn, err := e.db.Conn(ctx)
		if err != nil { // also when the login failed, which no request is to blame for
			return transient(err)
		}
		release := watch(ctx, conn)
		safe, err := do(ctx, conn)
		release()
		broken := err != nil && !isOurs(err) && len(numbersOf(err)) == 0
		if broken {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // not back into the pool
			if ended := ctx.Err(); ended != nil {
				safe, err = false, fmt.Errorf("%w: %w", ended, err)
			}
		}
		_ = conn.Close()
		if !broken || !safe || try == sendTries {
			return classifySQLServer(err)
		}
	}
}

// ErrSchema means that the database's schema is not the one that this program
// needs. The message that finds out is not at fault, so it comes with
// workflow.ErrTransient.
var ErrSchema = errors.New("the schema of the database is out of date")

// What the numbers of SQL Server's errors mean. A number that is not here means
// that what was asked is wrong, unless its class says that the server is not
// well.
//
//nolint:gochecknoglobals // read-only tables
var (
	conflicts = []int32{
		2601, 2627, // a duplicate key
		thrownConflict,
		1205,             // a deadlock, and this was the one to give way
		3935, 3960, 3961, // snapshot conflicts
	}

	passing = []int32{
		1204, 1222, // no memory for locks, lock timeout
		601,                // data moved under a read
		207, 208, 229, 262, // a table, a column or a right is missing: a person mends that, and no message is at fault
		976, 978, 982, 6005, // a replica that is not readable, a server that shuts down
		926, 983, 3906, 4060, 4221, 18401, 18456, 40532, 916, // not open, starting, failing over, or not yet known to it
		37396,                      // the token has expired
		64, 121, 233, 10053, 10054, // the connection broke
		10060, 11001, 20, 258,
		10928, 10929, 10936, 40143, 40166, 40197, 40501, 40540, 40549, 40550, 40551, 40613, 40615, 42108, 42109, // Azure SQL: busy, moving, paused
		49918, 49919, 49920,
		thrownClaimLock,
	}
)

// sick is the class of errors from which on they are about the server.
const sick = 17

// classifySQLServer says what an error means.
func classifySQLServer(err error) error {
	numbers := numbersOf(err)
	is := func(of []int32) bool {
		return slices.ContainsFunc(numbers, func(n int32) bool { return slices.Contains(of, n) })
	}
	var coded interface{ SQLErrorClass() uint8 }
	switch {
	case err == nil, isOurs(err):
		return err
	case len(numbers) == 0: // of the connection, or a context
		return transient(err)
	case is(passing):
		return transient(err)
	case is(conflicts):
		return fmt.Errorf("%w: %w", errConflict, transient(err))
	case errors.As(err, &coded) && coded.SQLErrorClass() >= sick:
		return transient(err)
	}
	return fmt.Errorf("SQL Server refuses it: %w", err)
}

// numbersOf are the numbers of all errors that the server told at once.
func numbersOf(err error) (numbers []int32) {
	var told mssql.Error
	if errors.As(err, &told) {
		for _, e := range told.All {
			numbers = append(numbers, e.Number)
		}
	}
	var coded interface{ SQLErrorNumber() int32 }
	if errors.As(err, &coded) && coded.SQLErrorNumber() != 0 {
		numbers = append(numbers, coded.SQLErrorNumber())
	}
	return numbers
}
