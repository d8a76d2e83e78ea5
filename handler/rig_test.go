package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/funchost"
	"orderflow/handler/internal/localbus"
)

// rig is the whole system on one machine, as a test builds it: the bus, served
// over AMQP, some instances of the app on it, and one database.
type rig struct {
	t         *testing.T
	dir       string
	database  string
	settings  settings
	bus       *localbus.Bus
	broker    string // the connection string of the bus
	instances []*instance
	// stop ends the hosts, then the handlers, then the bus's server; the bus
	// itself stays to be looked at. Stopped again, nothing happens.
	stop func()
}

// instance is one instance of the app: a Functions host and its handler, a
// process.
type instance struct {
	host   *funchost.Host
	worker *child
	log    string // the file that takes what the handler prints
}

// rigging is what differs between rigs.
type rigging struct {
	instances    int
	root         string            // of the app; empty is the project's
	executable   string            // of the handler; empty is what host.json names
	environ      map[string]string // settings, and what else the handler finds in its environment
	window       time.Duration     // of the topics' duplicate detection
	idle         time.Duration     // for which a host keeps a session that has no messages; zero is what host.json says
	faults       busserver.Faults
	onInvocation func(funchost.Invocation)
	onExit       func() // of a handler
	hostless     bool   // handlers alone: the test speaks for the host
}

// raise builds a rig and sets it to work. It is stopped with the test.
func raise(t *testing.T, c rigging) *rig {
	t.Helper()
	s, err := readSettings(c.environ)
	require.NoError(t, err)
	r := &rig{t: t, dir: folder(t), settings: s}
	r.database = filepath.Join(r.dir, "orders.db")

	root, err := filepath.Abs(or(c.root, ".."))
	require.NoError(t, err)
	local := &localSystem{flags: localFlags{root: root}, settings: s}
	local.settings.ServiceBus = "the bus of the rig"
	app, err := local.app()
	require.NoError(t, err)
	app.ServiceBus.SessionIdleTimeout = or(c.idle, app.ServiceBus.SessionIdleTimeout)
	topics := local.topics()
	for i := range topics {
		topics[i].DuplicateDetection = c.window
	}
	r.bus, err = localbus.Open(filepath.Join(r.dir, "bus.db"), topics, time.Now)
	require.NoError(t, err)
	server, err := busserver.New(r.bus, busserver.Config{Faults: c.faults})
	require.NoError(t, err)
	listener, err := listen(t.Context(), 0)
	require.NoError(t, err)
	r.broker = busConnection(listener.Addr())

	executable := or(c.executable, filepath.Join(root, filepath.FromSlash(app.Executable)))
	for n := range c.instances {
		name := filepath.Join(r.dir, "handler-"+strconv.Itoa(n))
		port, err := handlerPort(t.Context())
		require.NoError(t, err)
		log, err := os.Create(name + ".log")
		require.NoError(t, err)
		t.Cleanup(func() { _ = log.Close() })
		own := s
		own.Port, own.SQLConnection, own.ServiceBus = strconv.Itoa(port), r.database, r.broker
		environ := own.environment()
		for key, value := range c.environ {
			if _, set := environ[key]; !set {
				environ[key] = value
			}
		}
		i := &instance{log: log.Name(), worker: &child{
			executable: executable, root: root, settings: environ, port: port, log: log, pidFile: name + ".pid",
		}}
		i.host = &funchost.Host{
			App: app, Bus: r.bus, Port: port, Now: time.Now, StopGrace: stopTimeout,
			OnInvocation: c.onInvocation, OnTimeout: func(string) { i.worker.kill() },
		}
		i.worker.exited = func() {
			if c.onExit != nil {
				c.onExit()
			}
			i.host.HandlerExited()
		}
		r.instances = append(r.instances, i)
	}

	ctx := context.WithoutCancel(t.Context())
	served, endServing := context.WithCancel(ctx)
	worked, endWorking := context.WithCancel(ctx)
	hosted, endHosting := context.WithCancel(ctx)
	serving, working, hosting := parts{cancel: func() {}}, parts{cancel: func() {}}, parts{cancel: func() {}}
	serving.run("the bus", func() error { return server.Serve(served, listener) })
	for _, i := range r.instances {
		working.run("the handler", func() error { return i.worker.run(worked) })
		if !c.hostless {
			hosting.run("the host", func() error { return i.host.Run(hosted) })
		}
	}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		endHosting()
		err := hosting.wait()
		endWorking()
		err = errors.Join(err, working.wait())
		endServing()
		require.NoError(t, errors.Join(err, serving.wait()))
	}
	t.Cleanup(func() {
		r.stop()
		require.NoError(t, r.bus.Close())
	})
	return r
}

// url is where the instance's handler listens.
func (i *instance) url() string { return "http://127.0.0.1:" + strconv.Itoa(i.worker.port) }

// place asks an instance for an order, as a customer does, and returns the
// status of the answer.
func (i *instance) place(ctx context.Context, body []byte) int {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/api/orders", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	i.host.ServeHTTP(answer, request)
	return answer.Code
}

// sql opens the database past the store.
func (r *rig) sql() *sql.DB {
	r.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(r.database)+"?_pragma=busy_timeout(10000)")
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = db.Close() })
	return db
}

// takeDatabase takes the database away from everybody who wants to write, as
// soon as it can, for so long from then on, or until ctx ends. It returns for how
// long it was away.
func takeDatabase(ctx context.Context, db *sql.DB, length time.Duration) (time.Duration, error) {
	background := context.WithoutCancel(ctx)
	conn, err := db.Conn(background)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(background, "BEGIN EXCLUSIVE"); err != nil {
		return 0, err
	}
	from := time.Now()
	gone, back := context.WithTimeout(ctx, length)
	defer back()
	<-gone.Done()
	_, err = conn.ExecContext(background, "ROLLBACK")
	return time.Since(from), err
}

// onTheBus says how many messages the bus holds that are not dead; -1 if it
// cannot be asked.
func (r *rig) onTheBus(ctx context.Context) (n int) {
	topics, err := r.bus.Counts(ctx)
	if err != nil {
		return -1
	}
	for _, topic := range topics {
		n += topic.Scheduled
		for _, s := range topic.Subscriptions {
			n += s.Active + s.Deferred
		}
	}
	return n
}

// deadLetters lists what the bus gave up, in words.
func (r *rig) deadLetters(ctx context.Context) (all []string) {
	r.t.Helper()
	for _, topic := range r.bus.Topics() {
		for _, s := range topic.Subscriptions {
			dead, err := r.bus.DeadLetters(ctx, topic.Name, s.Name)
			require.NoError(r.t, err)
			for _, m := range dead {
				all = append(all, s.Name+": "+m.SessionID+" "+m.Subject+" "+m.MessageID+" after "+strconv.Itoa(m.DeliveryCount)+" deliveries, "+m.DeadLetterReason)
			}
		}
	}
	return all
}

// printed is what all handlers printed, line by line.
func (r *rig) printed() (lines []string) {
	r.t.Helper()
	for _, i := range r.instances {
		text, err := os.ReadFile(i.log)
		require.NoError(r.t, err)
		lines = append(lines, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
	return lines
}
