package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAskedToStopWhileADatabaseThatIsLockedIsWaitedForTheHandlerTellsItsCallersAndIsGone(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			database := filepath.Join(t.TempDir(), "orders.db")
			s := startServed(t, database, map[string]string{"HandlerDeadline": "4m"})
			release := lockOut(t, database, s)
			defer release()

			// Each says when its body is wanted, which is when it is being invoked.
			const callers = 3
			begun, told := make(chan struct{}, callers), make(chan string, callers)
			client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
			defer client.CloseIdleConnections()
			for i := range callers {
				body := string(flow(fmt.Sprint("order-", i))[0].body)
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { begun <- struct{}{} }})
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/order-placed", strings.NewReader(body))
				require.NoError(t, err)
				r.Header.Set("Expect", "100-continue")
				go func() {
					response, err := client.Do(r)
					if err != nil {
						told <- err.Error()
						return
					}
					defer response.Body.Close()
					told <- response.Status
				}()
			}
			for range callers {
				within(t, 10*time.Second, begun)
			}
			require.NoError(t, s.cmd.Process.Signal(signal))
			asked := time.Now()
			require.Equal(t, exitFailed, s.exitCode(t, 6*time.Second))
			t.Logf("gone after %s", time.Since(asked))
			for range callers {
				require.Equal(t, "500 Internal Server Error", within(t, time.Second, told))
			}
			require.Contains(t, s.stderr.String(), "stopped")
			release()
			require.Zero(t, count(t, database, "orders"), "nothing is left of what was not finished")
		})
	}
}

// lockOut keeps everybody else from writing to a served database.
func lockOut(t *testing.T, database string, s *served) (release func()) {
	t.Helper()
	response, body, err := s.post("outbox-dispatch", payload(t, "timer.json")) // once the database is open
	require.NoError(t, err)
	requireSettled(t, response, body, "")
	db, err := sql.Open("sqlite", "file:"+database+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	return func() { _ = db.Close() }
}

// within is what comes from a channel before it is too late.
func within[T any](t *testing.T, limit time.Duration, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(limit):
		require.Fail(t, "nothing came", "within %s", limit)
	}
	return got
}

func TestABodyThatComesAByteAtATimeHoldsAnInvocationNoLongerThanItsDeadline(t *testing.T) {
	t.Parallel()
	s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), map[string]string{"HandlerDeadline": "1s"})
	for name, header := range map[string]string{
		"of known length":              "POST /order-placed HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
		"of unknown length":            "POST /order-placed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"of an order placed over HTTP": "POST /api/orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			began := time.Now()
			_, err = io.WriteString(conn, header)
			require.NoError(t, err)
			over := make(chan struct{})
			defer close(over)
			go func() {
				each := time.NewTicker(50 * time.Millisecond)
				defer each.Stop()
				for {
					select {
					case <-each.C:
						if strings.Contains(header, "chunked") {
							_, _ = io.WriteString(conn, "1\r\n \r\n")
						} else {
							_, _ = io.WriteString(conn, " ")
						}
					case <-over:
						return
					}
				}
			}()
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer response.Body.Close()
			require.GreaterOrEqual(t, response.StatusCode, 400)
			require.InDelta(t, (time.Second + bodyGrace).Seconds(), time.Since(began).Seconds(), 1)
		})
	}
}
