package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// source is events in memory.
type source struct {
	mu        sync.Mutex
	waiting   []workflow.Event
	confirmed int
	listed    int
	// fails and lost say whether listing and confirming fail. Nil never does.
	fails, lost func() error
}

func (s *source) Unaudited(ctx context.Context, most int) ([]workflow.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed++
	if s.fails != nil {
		if err := s.fails(); err != nil {
			return nil, err
		}
	}
	return append([]workflow.Event(nil), s.waiting[:min(most, len(s.waiting))]...), ctx.Err()
}

func (s *source) Audited(ctx context.Context, events []workflow.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		if err := s.lost(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	type id struct{ order, key string }
	done := make(map[id]bool)
	for _, e := range events {
		done[id{e.OrderID, e.Key}] = true
	}
	var left []workflow.Event
	for _, e := range s.waiting {
		if done[id{e.OrderID, e.Key}] {
			s.confirmed++
		} else {
			left = append(left, e)
		}
	}
	s.waiting = left
	return nil
}

func (s *source) add(events ...workflow.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, events...)
}

func (s *source) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

func (s *source) looks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

var begun = time.Date(2026, 3, 14, 9, 30, 0, 123456000, time.UTC)

// events are some of one order, oldest first, a second apart.
func events(orderID string, n int) []workflow.Event {
	all := make([]workflow.Event, n)
	for i := range all {
		all[i] = workflow.Event{
			OrderID: orderID, Key: fmt.Sprintf("message:%s:%d", orderID, i), At: begun.Add(time.Duration(i) * time.Second),
			Kind: workflow.EventMessage, MessageID: fmt.Sprintf("%s:m:%d", orderID, i), Type: workflow.PaymentCaptured,
			Outcome: workflow.Applied, Reason: "paid in time", Version: int64(i + 1),
		}
	}
	return all
}

// diary is a log that can be read.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, strings.TrimSuffix(string(line), "\n"))
	return len(line), nil
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.lines...)
}

func (d *diary) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(d, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// azurite is a running table service.
type azurite struct {
	address string // http://host:port
	stop    func() error
}

const emulator = "testdata/azurite"

// startAzurite starts one on a port, 0 for a free one, that keeps its data in a
// folder, in memory if there is none.
func startAzurite(port, folder string) (azurite, error) {
	args := []string{"start.js", port}
	if folder != "" {
		args = append(args, folder)
	}
	cmd := exec.Command("node", args...)
	cmd.Dir, cmd.Stderr = emulator, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return azurite{}, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return azurite{}, err
	}
	said := bufio.NewReader(out)
	line, err := said.ReadString('\n')
	if err != nil {
		return azurite{}, fmt.Errorf("azurite did not start: %w", errors.Join(err, cmd.Wait()))
	}
	return azurite{strings.TrimSpace(line), func() error {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, said)
		return cmd.Wait()
	}}, nil
}

// shared is one for all tests, each of which has a table of its own.
var shared = sync.OnceValues(func() (azurite, error) {
	a, err := startAzurite("0", "")
	if err == nil {
		stopShared = a.stop
	}
	return a, err
})

var stopShared = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// needsAzurite skips a test where it is not installed.
func needsAzurite(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("NOT RUN: Azurite needs node")
	}
	if _, err := os.Stat(filepath.Join(emulator, "node_modules")); errors.Is(err, os.ErrNotExist) {
		t.Skip("NOT RUN: Azurite is not installed; run npm ci in handler/internal/audit/" + emulator)
	}
}

var tables atomic.Int64

// at is a connection to a table of the test's own.
func at(address string) Connection {
	return Connection{String: connectionString(address), Table: fmt.Sprintf("audit%d", tables.Add(1))}
}

func connectionString(address string) string {
	return strings.Replace(developmentStorage, "http://127.0.0.1:10002", address, 1)
}

// inAzurite is a connection to the shared one.
func inAzurite(t *testing.T) Connection {
	t.Helper()
	needsAzurite(t)
	a, err := shared()
	require.NoError(t, err)
	return at(a.address)
}

func writer(t *testing.T, c Connection, s Source) (*Writer, *diary) {
	t.Helper()
	var said diary
	w, err := New(c, s, said.logger())
	require.NoError(t, err)
	return w, &said
}

// passes writes until nothing is left.
func passes(t *testing.T, w *Writer) (written int) {
	t.Helper()
	for more := true; more; {
		var n int
		var err error
		n, more, err = w.Write(t.Context())
		require.NoError(t, err)
		written += n
	}
	return written
}

// trail is all that the audit holds of an order, newest first.
func trail(t *testing.T, w *Writer, orderID string) (all []Entry) {
	t.Helper()
	for next, more := "", true; more; more = next != "" {
		var page []Entry
		var err error
		page, next, err = w.Trail(t.Context(), orderID, 0, next)
		require.NoError(t, err)
		all = append(all, page...)
	}
	return all
}

// story is the events of a trail, oldest first.
func story(entries []Entry) []workflow.Event {
	all := make([]workflow.Event, len(entries))
	for i, e := range entries {
		all[len(all)-1-i] = e.Event
	}
	return all
}

// way is a way to a server that can be shut: closed to whoever comes, or silent.
type way struct {
	address string
	tried   atomic.Int64 // while it was shut

	to      string
	mu      sync.Mutex
	shut    bool
	silent  bool
	passing []net.Conn
}

func wayTo(t *testing.T, to string) *way {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &way{address: "http://" + ln.Addr().String(), to: strings.TrimPrefix(to, "http://")}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			w.let(client, &running)
		}
	})
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		w.close(false)
		running.Wait()
	})
	return w
}

func (w *way) let(client net.Conn, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shut {
		w.tried.Add(1)
		if w.silent {
			w.passing = append(w.passing, client)
		} else {
			_ = client.Close()
		}
		return
	}
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		_ = client.Close()
		return
	}
	w.passing = append(w.passing, client, server)
	pass := func(dst, src net.Conn) func() {
		return func() {
			_, _ = io.Copy(dst, src)
			_, _ = dst.Close(), src.Close()
		}
	}
	running.Go(pass(server, client))
	running.Go(pass(client, server))
}

// close cuts off whoever passes and shuts the way.
func (w *way) close(silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut, w.silent = true, silent
	for _, c := range w.passing {
		_ = c.Close()
	}
	w.passing = nil
}

func (w *way) open() {
	w.close(false)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut = false
}
