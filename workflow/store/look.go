package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
)

// Looked is what a look at a database found.
type Looked struct {
	// Server says that it is a SQL Server, and not a file.
	Server bool
	// Missing says that there is no file yet. It is made when it is opened.
	Missing bool
	// Version is the newest step of the schema that the database has, Needed the
	// one that this program needs. A file is brought up to date when it is opened.
	Version, Needed int64
	// Lacking are the rights that the login does not have, such as "INSERT on
	// dbo.journal".
	Lacking []string
}

// Look looks at the database that a connection names, and changes nothing. The
// error says why it cannot be used.
func Look(ctx context.Context, connection string) (found Looked, err error) {
	found.Server = isSQLServer(connection)
	folder := sqliteMigrations
	if found.Server {
		folder = sqlServerMigrations
	}
	if found.Needed, err = schemaVersion(folder); err != nil {
		return found, err
	}
	if found.Server {
		return found, found.lookAtServer(ctx, connection)
	}
	return found, found.lookAtFile(ctx, connection)
}

func (l *Looked) lookAtServer(ctx context.Context, connection string) error {
	e, err := startSQLServer(connection, Options{MaxConnections: 1})
	if err != nil {
		return err
	}
	err = e.run(ctx, transactionOf(nil, l.questions()), l.questions())
	return errors.Join(err, e.close())
}

func (l *Looked) questions() []question {
	return []question{
		{text: askVersion, row: func(r row) error { return r.Scan(&l.Version) }},
		{text: askRights, row: func(r row) error {
			var object, right string
			err := r.Scan(&object, &right)
			l.Lacking = append(l.Lacking, right+" on "+object)
			return err
		}},
	}
}

// lookAtFile opens a file for reading alone. That it can be written is asked of
// the system.
func (l *Looked) lookAtFile(ctx context.Context, path string) (err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		l.Missing = true
		_, err = os.Stat(filepath.Dir(path))
		return err
	}
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", sqliteDSN(path, "busy_timeout(5000)")+"&mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var steps int
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master WHERE name = ?1`, goose.DefaultTablename).Scan(&steps); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if steps == 0 {
		return nil
	}
	return db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM `+goose.DefaultTablename).Scan(&l.Version)
}
