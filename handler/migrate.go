package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"orderflow/workflow/store"
)

// migrateUsage is printed when it is not said what to do.
const migrateUsage = `handler migrate takes one argument: "up" brings the schema of the database that SqlConnection names up to date, "status" lists its steps`

// migrate looks after the schema of the database. On SQL Server nothing else
// does: the handler needs no right to change tables.
func migrate(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("migrate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprintln(stderr, migrateUsage) }
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if flags.NArg() != 1 || (flags.Arg(0) != "up" && flags.Arg(0) != "status") {
		return usageError{errors.New(migrateUsage)}
	}
	s, err := readSettings(environ)
	if err := errors.Join(err, s.checkDatabase()); err != nil {
		return err
	}
	if flags.Arg(0) == "status" {
		return migrationStatus(ctx, s.SQLConnection, stdout)
	}
	applied, err := store.Migrate(ctx, s.SQLConnection)
	if err != nil {
		return fmt.Errorf("SqlConnection: %w", err)
	}
	for _, m := range applied {
		fmt.Fprintln(stdout, "applied", m.Name)
	}
	if len(applied) == 0 {
		fmt.Fprintln(stdout, "the schema is up to date")
	}
	return nil
}

func migrationStatus(ctx context.Context, connection string, stdout io.Writer) error {
	steps, err := store.Migrations(ctx, connection)
	if err != nil {
		return fmt.Errorf("SqlConnection: %w", err)
	}
	for _, m := range steps {
		state := "pending"
		if !m.AppliedAt.IsZero() {
			state = "applied " + m.AppliedAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(stdout, "%s\t%s\n", m.Name, state)
	}
	return nil
}
