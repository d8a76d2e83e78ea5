package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/funchost"
	"orderflow/handler/internal/localbus"
	"orderflow/handler/internal/servicebus"
	"orderflow/handler/internal/simulation"
	"orderflow/workflow/store"
)

// localSystem is local mode while it runs: the process that holds the host, the
// bus and the services. The handler is its child.
type localSystem struct {
	flags    localFlags
	settings settings
	out      io.Writer

	front, broker net.Listener // for people, and for Service Bus clients
	bus           *localbus.Bus
	server        *busserver.Server
	db            *store.Store
	client        *azservicebus.Client
	world         simulation.World
	worker        *child
	host          *funchost.Host
	story         *narrator
}

// run opens what local mode consists of, runs it together, and closes it.
func (l *localSystem) run(ctx context.Context) (err error) {
	release, err := l.folder(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	app, err := l.app()
	if err != nil {
		return err
	}
	hostLog, handlerLog, err := l.logs()
	if err != nil {
		return err
	}
	defer hostLog.Close()
	defer handlerLog.Close()
	log := slog.New(slog.NewJSONHandler(hostLog, nil))

	if l.front, err = listen(ctx, l.flags.port); err != nil {
		return fmt.Errorf("-port: cannot listen on port %d: %w", l.flags.port, err)
	}
	defer l.front.Close()
	if l.broker, err = listen(ctx, l.flags.busPort); err != nil {
		return fmt.Errorf("-bus-port: cannot listen on port %d: %w", l.flags.busPort, err)
	}
	defer l.broker.Close()
	l.bus, err = localbus.Open(l.path("bus.db"), l.topics(), time.Now) //nolint:contextcheck // it lives until Close
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, l.bus.Close()) }()
	// The host process reads the orders too, for the story and the operator.
	l.db, err = store.Open(ctx, l.path("orders.db"), store.Options{
		Now: time.Now, Deadlines: l.settings.deadlines(), SendAhead: l.settings.TimeoutSendAhead,
	})
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, l.db.Close()) }()
	if err := l.wire(ctx, app, log, handlerLog); err != nil {
		return err
	}
	return l.together(ctx)
}

// wire makes the parts and connects them.
func (l *localSystem) wire(ctx context.Context, app *funchost.App, log *slog.Logger, handlerLog io.Writer) (err error) {
	l.story = newNarrator(l.out, time.Now())
	if l.server, err = busserver.New(l.bus, busserver.Config{Log: log}); err != nil {
		return err
	}
	connection := busConnection(l.broker.Addr())
	if l.client, err = servicebus.NewClient(servicebus.Connection{String: connection}); err != nil {
		return err
	}
	answers, err := l.client.NewSender(l.settings.OrdersTopic, nil)
	if err != nil {
		return err
	}
	l.world = simulation.World{
		Client: l.client, Answers: answers, Commands: l.settings.CommandsTopic, Without: l.flags.without,
		Pace: l.flags.pace, Late: late(l.settings), Now: time.Now, Log: log,
	}
	if l.worker, err = l.newWorker(ctx, connection, handlerLog); err != nil {
		return err
	}
	l.host = &funchost.Host{
		App: app, Bus: l.bus, Port: l.worker.port, Now: time.Now, Log: log, StopGrace: stopTimeout,
		OnInvocation: func(i funchost.Invocation) { l.story.heard(i.SessionID) },
		OnTimeout:    func(string) { l.worker.kill() },
	}
	l.worker.exited = l.host.HandlerExited
	return nil
}

// together runs the parts until ctx ends or one fails. The host ends first, then
// what it needs to end well: the handler, then the bus.
func (l *localSystem) together(ctx context.Context) error {
	bus, endBus := context.WithCancel(context.WithoutCancel(ctx))
	defer endBus()
	process, endProcess := context.WithCancel(bus)
	defer endProcess()
	ctx, end := context.WithCancel(ctx)
	defer end()
	serving, working, hosting := parts{cancel: end}, parts{cancel: end}, parts{cancel: end}

	serving.run("the bus", func() error { return l.server.Serve(bus, l.broker) })
	working.run("the handler", func() error { return l.worker.run(process) })
	hosting.run("the host", func() error { return l.host.Run(ctx) })
	hosting.run("the site", func() error { return l.serveSite(ctx) })
	hosting.run("the services", func() error {
		l.world.Run(ctx)
		return l.client.Close(context.WithoutCancel(ctx))
	})
	hosting.run("", func() error {
		defer end()
		err := l.watch(ctx, l.db, l.front.Addr(), l.broker.Addr())
		if ctx.Err() == nil {
			return err
		}
		if l.flags.exit { // nobody may take it for a run that ended well
			return errors.New("-exit: stopped before every order was at rest")
		}
		return nil
	})

	err := hosting.wait()
	endProcess()
	err = errors.Join(err, working.wait())
	endBus()
	return errors.Join(err, serving.wait())
}

// serveSite serves the host's HTTP triggers until ctx ends.
func (l *localSystem) serveSite(ctx context.Context) error {
	site := &http.Server{Handler: calledByItsName(l.host), ReadHeaderTimeout: 30 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = site.Close() })()
	if err := site.Serve(l.front); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// calledByItsName serves who asks for this machine. No key is asked for here, so
// a page of some other site must not get in by having its name lead to loopback.
func calledByItsName(site http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Host
		if host, _, err := net.SplitHostPort(name); err == nil {
			name = host
		}
		if address, err := netip.ParseAddr(strings.Trim(name, "[]")); name != "localhost" && (err != nil || !address.IsLoopback()) {
			http.Error(w, "local mode answers to localhost and 127.0.0.1, and to no other name", http.StatusMisdirectedRequest)
			return
		}
		site.ServeHTTP(w, r)
	})
}

// late is how long a late answer takes: well after the deadline has passed.
func late(s settings) time.Duration {
	longest := max(s.InventoryDeadline, s.PaymentDeadline)
	return longest + max(longest/2, 4*time.Second)
}

// newWorker is the handler, ready to be started.
func (l *localSystem) newWorker(ctx context.Context, connection string, log io.Writer) (*child, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	root, err := filepath.Abs(l.flags.root)
	if err != nil {
		return nil, err
	}
	database, err := filepath.Abs(l.path("orders.db"))
	if err != nil {
		return nil, err
	}
	port, err := handlerPort(ctx)
	if err != nil {
		return nil, err
	}
	s := l.settings
	s.Port, s.SQLConnection, s.ServiceBus = strconv.Itoa(port), database, connection
	return &child{
		executable: executable, root: root, settings: s.environment(), port: port, log: log,
		pidFile: l.path("handler.pid"),
	}, nil
}

// busConnection is the connection string of the bus of local mode. Any key will
// do: it lets in whoever reaches this machine's loopback.
func busConnection(address net.Addr) string {
	return "Endpoint=sb://" + address.String() + ";SharedAccessKeyName=local;SharedAccessKey=bG9jYWw=;UseDevelopmentEmulator=true"
}

// logs opens the logs of the two processes.
func (l *localSystem) logs() (host, handler *os.File, err error) {
	open := func(name string) (*os.File, error) {
		return os.OpenFile(l.path(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if host, err = open("host.log"); err != nil {
		return nil, nil, fmt.Errorf("-dir: %w", err)
	}
	if handler, err = open("handler.log"); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("-dir: %w", err), host.Close())
	}
	return host, handler, nil
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// handlerPort picks a port for the handler, as the host does.
func handlerPort(ctx context.Context) (int, error) {
	l, err := listen(ctx, 0)
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// folder makes the folder of the databases and takes it for this process alone,
// until release; it empties the folder if asked to.
func (l *localSystem) folder(ctx context.Context) (release func() error, err error) {
	if err := os.MkdirAll(l.flags.dir, 0o700); err != nil {
		return nil, fmt.Errorf("-dir: cannot make the folder: %w", err)
	}
	if release, err = lock(ctx, l.path("in-use.lock")); err != nil {
		return nil, fmt.Errorf("-dir: cannot take %s for this run: %w", l.flags.dir, err)
	}
	if err := os.WriteFile(l.path("host.pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil { // for people
		return nil, errors.Join(fmt.Errorf("-dir: %w", err), release())
	}
	if !l.flags.fresh {
		return release, nil
	}
	for _, name := range []string{"orders.db", "bus.db"} {
		for _, part := range []string{"", "-wal", "-shm", "-lock", ".lock"} {
			if err := os.Remove(l.path(name + part)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, errors.Join(fmt.Errorf("-fresh: %w", err), release())
			}
		}
	}
	return release, nil
}

// lock holds a file for this process until release, or until it is killed. It
// is SQLite's own lock, which works alike on every system.
func lock(ctx context.Context, path string) (release func() error, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	// Escaped, since a "?" in a plain path would begin the driver's options.
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: filepath.ToSlash(path)}).EscapedPath())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "BEGIN EXCLUSIVE"); err != nil {
		const busy = 5
		if coded := (interface{ Code() int })(nil); errors.As(err, &coded) && coded.Code()&0xff == busy {
			err = fmt.Errorf("another handler local runs on it; stop it, or name another folder: %w", err)
		}
		return nil, errors.Join(err, db.Close())
	}
	return db.Close, nil
}

func (l *localSystem) path(name string) string { return filepath.Join(l.flags.dir, name) }

// app reads what the Functions host would read.
func (l *localSystem) app() (*funchost.App, error) {
	setting := map[string]string{
		"OrdersTopic": l.settings.OrdersTopic, "CommandsTopic": l.settings.CommandsTopic,
		"OutboxSchedule": l.settings.OutboxSchedule, "SweepSchedule": l.settings.SweepSchedule,
		"ServiceBusConnection": l.settings.ServiceBus,
	}
	app, err := funchost.Load(os.DirFS(l.flags.root), func(name string) (string, bool) {
		value, ok := setting[name]
		return value, ok
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("-root: %w: start it in the project's folder, or name that folder", err)
	}
	return app, err
}

// parts are parts of local mode: when one fails, all stop.
type parts struct {
	wg     sync.WaitGroup
	cancel context.CancelFunc
	mu     sync.Mutex
	errs   []error
}

func (p *parts) run(name string, part func() error) {
	p.wg.Go(func() {
		err := part()
		if err == nil {
			return
		}
		if name != "" {
			err = fmt.Errorf("%s: %w", name, err)
		}
		p.mu.Lock()
		p.errs = append(p.errs, err)
		p.mu.Unlock()
		p.cancel()
	})
}

func (p *parts) wait() error {
	p.wg.Wait()
	return errors.Join(p.errs...)
}
