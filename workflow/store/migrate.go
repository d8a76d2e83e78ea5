package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// Migration is one step of a database's schema.
type Migration struct {
	Version int64
	// Name is its file's.
	Name string
	// AppliedAt is when it was applied; zero while it is pending.
	AppliedAt time.Time
}

// Migrate brings the schema of the database that a connection names up to date,
// and returns the steps that were missing. Several may try at once: one does
// it, the others wait.
func Migrate(ctx context.Context, connection string) (applied []Migration, err error) {
	err = migrating(ctx, connection, func(dialect goose.Dialect, db *sql.DB) error {
		applied, err = migrateUp(ctx, dialect, db)
		return err
	})
	return applied, err
}

// Migrations lists the steps of the schema, and which of them the database has.
func Migrations(ctx context.Context, connection string) (all []Migration, err error) {
	if !isSQLServer(connection) {
		if _, err := os.Stat(connection); err != nil {
			return nil, err // to look is not to make
		}
	}
	err = migrating(ctx, connection, func(dialect goose.Dialect, db *sql.DB) error {
		provider, err := newProvider(dialect, db)
		if err != nil {
			return err
		}
		steps, err := provider.Status(ctx)
		for _, s := range steps {
			all = append(all, Migration{s.Source.Version, s.Source.Path, s.AppliedAt})
		}
		return err
	})
	return all, err
}

// migrating opens a database for work on its schema, which it has to itself.
func migrating(ctx context.Context, connection string, do func(goose.Dialect, *sql.DB) error) error {
	if isSQLServer(connection) {
		return lockedSQLServer(ctx, connection, func(db *sql.DB) error { return do(goose.DialectMSSQL, db) })
	}
	return lockedSQLite(ctx, "sqlite", connection, func(db *sql.DB) error {
		return errors.Join(do(goose.DialectSQLite3, db), db.Close())
	})
}

// lockedSQLServer does something on a server while no other does so. The lock
// belongs to one connection, and ends with it.
func lockedSQLServer(ctx context.Context, address string, do func(*sql.DB) error) (err error) {
	connector, err := newConnector(address, timeoutDefault)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	held, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to SQL Server: %w", err)
	}
	defer held.Close()
	if _, err := held.ExecContext(ctx, lockMigration); err != nil {
		return fmt.Errorf("wait for whoever migrates: %w", err)
	}
	defer func() {
		_, unlocked := held.ExecContext(context.WithoutCancel(ctx), unlockMigration)
		err = errors.Join(err, unlocked)
	}()
	return do(db)
}

func newProvider(dialect goose.Dialect, db *sql.DB) (*goose.Provider, error) {
	folder, table := sqliteMigrations, goose.DefaultTablename
	if dialect == goose.DialectMSSQL {
		folder, table = sqlServerMigrations, versionTable
	}
	files, err := fs.Sub(migrations, folder)
	if err != nil {
		return nil, err
	}
	provider, err := goose.NewProvider(dialect, db, files, goose.WithTableName(table))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return provider, nil
}

func migrateUp(ctx context.Context, dialect goose.Dialect, db *sql.DB) (applied []Migration, err error) {
	provider, err := newProvider(dialect, db)
	if err != nil {
		return nil, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	for _, r := range results {
		applied = append(applied, Migration{Version: r.Source.Version, Name: r.Source.Path})
	}
	return applied, nil
}

// The folders of the steps of the two kinds of database.
const (
	sqliteMigrations    = "migrations/sqlite"
	sqlServerMigrations = "migrations/sqlserver"
)

// schemaVersion is the newest step in a folder, which this program needs.
func schemaVersion(folder string) (int64, error) {
	files, err := fs.ReadDir(migrations, folder)
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(files[len(files)-1].Name())
}
