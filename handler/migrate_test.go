package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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

func TestMigrateBringsTheSchemaUpToDateOnceAndListsIt(t *testing.T) {
	t.Parallel()
	settings := map[string]string{"SqlConnection": filepath.Join(t.TempDir(), "orders.db")}
	for _, c := range []struct {
		verb, says string
		code       int
	}{
		{"status", "no such file", exitFailed},
		{"up", "applied 00001_orders.sql\n", 0},
		{"up", "the schema is up to date\n", 0},
		{"status", "00001_orders.sql\tapplied 2", 0},
	} {
		p := start(t, settings, "migrate", c.verb)
		require.Equal(t, c.code, p.exitCode(t, 10*time.Second), &p.stderr)
		require.Contains(t, p.stdout.String()+p.stderr.String(), c.says)
	}
}

func TestSeveralProcessesThatMigrateAtOnceAllSucceed(t *testing.T) {
	t.Parallel()
	settings := map[string]string{"SqlConnection": filepath.Join(t.TempDir(), "orders.db")}
	var all []*process
	for range 4 {
		all = append(all, start(t, settings, "migrate", "up"))
	}
	applied := 0
	for _, p := range all {
		require.Zero(t, p.exitCode(t, 20*time.Second), &p.stderr)
		applied += strings.Count(p.stdout.String(), "applied")
	}
	require.Equal(t, 1, applied)
}

// swallowing is a network that takes everything and never answers.
func swallowing(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		var taken []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			taken = append(taken, c)
		}
		for _, c := range taken {
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func TestWithSQLServerSwallowedByTheNetworkTheHandlerIsReadyAndAnswersSoonAfterItsDeadline(t *testing.T) {
	t.Parallel()
	s := startServed(t, "sqlserver://user:secret@"+swallowing(t)+"?encrypt=disable", map[string]string{"HandlerDeadline": "2s", "SqlTimeout": "1s"})
	var wg sync.WaitGroup
	for range 40 { // more than the pool holds
		wg.Go(func() {
			before := time.Now()
			response, body, err := s.post("order-placed", payload(t, "order-placed.binary.json"))
			if err == nil && response.StatusCode != http.StatusInternalServerError {
				err = fmt.Errorf("status %d: %s", response.StatusCode, body)
			}
			if took := time.Since(before); err == nil && took > 3*time.Second {
				err = fmt.Errorf("it took %s", took)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	response, err := http.Get(s.url)
	require.NoError(t, err, "it is alive")
	require.NoError(t, response.Body.Close())
	require.NotContains(t, s.stdout.String(), "secret", "a password is not for the log")
	require.Empty(t, s.stderr.String())
}

// readiness answers Ready with one error after the other.
type readiness []error

func (r *readiness) Ready(context.Context) error {
	err := (*r)[0]
	*r = (*r)[1:]
	return err
}

func TestADatabaseThatCannotBeReachedIsWaitedForAndOneThatMustBeMigratedEndsTheProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := &handler{log: slog.New(slog.NewJSONHandler(&log, nil))}
		away := fmt.Errorf("connect: %w", workflow.ErrTransient)
		old := fmt.Errorf("%w: run `handler migrate up`: %w", store.ErrSchema, workflow.ErrTransient)
		begun := time.Now()
		err := h.lookAt(t.Context(), &readiness{away, away, away, old})
		require.ErrorContains(t, err, "run `handler migrate up`")
		require.Equal(t, (1+2+4)*time.Second, time.Since(begun))
		require.Equal(t, 1, strings.Count(log.String(), "\n"), "it is said once: %s", &log)
		require.Contains(t, log.String(), "cannot be reached yet")

		log.Reset()
		require.NoError(t, h.lookAt(t.Context(), &readiness{away, away, away, nil}))
		require.Equal(t, 2, strings.Count(log.String(), "\n"), &log)
		require.Contains(t, log.String(), "the database is reached")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, h.lookAt(ctx, &readiness{away}))
	})
}
