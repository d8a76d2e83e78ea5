package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"orderflow/functions"
	"orderflow/handler/internal/funchost"
	"orderflow/handler/internal/localbus"
	"orderflow/handler/internal/simulation"
	"orderflow/workflow/store"
)

// localFlags are the flags of `handler local`.
type localFlags struct {
	dir      string
	root     string
	port     int
	deadline time.Duration
	pace     time.Duration
	empty    bool
	exit     bool
	fresh    bool
	limit    time.Duration
}

func (f *localFlags) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("local", flag.ContinueOnError)
	flags.StringVar(&f.dir, "dir", ".orderflow", "the folder of the databases; it is created")
	flags.StringVar(&f.root, "root", ".", "the folder that holds host.json and the functions' folders")
	flags.IntVar(&f.port, "port", 7071, "where http://127.0.0.1:PORT/api/orders is served; 0 picks a free port")
	flags.DurationVar(&f.deadline, "deadline", 6*time.Second, "every deadline of an order, unless its setting (PaymentDeadline …) is set")
	flags.DurationVar(&f.pace, "pace", 300*time.Millisecond, "how long the simulated services take for an answer")
	flags.BoolVar(&f.empty, "empty", false, "place no sample orders")
	flags.BoolVar(&f.exit, "exit", false, "stop when every order is at rest; the exit code is 1 if an ending is wrong")
	flags.BoolVar(&f.fresh, "fresh", false, "forget the orders of earlier runs first")
	flags.DurationVar(&f.limit, "limit", 5*time.Minute, "with -exit: give up after this time")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	switch {
	case f.port < 0 || f.port > 65535:
		return usageError{fmt.Errorf("-port must be from 0 to 65535; it is %d", f.port)}
	case f.deadline < time.Second:
		return usageError{fmt.Errorf("-deadline must be at least 1s; it is %s", f.deadline)}
	case f.pace < 0:
		return usageError{fmt.Errorf("-pace must not be negative; it is %s", f.pace)}
	case f.limit <= 0:
		return usageError{fmt.Errorf("-limit must be positive; it is %s", f.limit)}
	}
	return nil
}

// local runs the whole system on embedded parts: the handler, a Functions host
// that calls it over a socket, a Service Bus, and the services around it.
func local(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) error {
	var f localFlags
	if err := f.parse(args, stderr); err != nil {
		return err
	}
	s, err := readSettings(localEnvironment(environ, f.deadline))
	if err != nil {
		return err
	}
	l := &localSystem{flags: f, settings: s, out: stdout}
	return l.run(ctx)
}

// localEnvironment is the environment with what local mode sets by itself: the
// deadlines are shortened unless they are set, and the host gives the port.
func localEnvironment(environ map[string]string, deadline time.Duration) map[string]string {
	local := map[string]string{
		"InventoryDeadline": deadline.String(), "PaymentDeadline": deadline.String(),
		"ShipmentDeadline": deadline.String(), "CompensationDeadline": deadline.String(),
		// Deadlines this short stay in the database until shortly before they are
		// due, as long ones do.
		"TimeoutSendAhead": "2s", "OutboxSchedule": "* * * * * *",
		// What a killed process had claimed is free again well before then.
		"OutboxLease":          "1s",
		"ServiceBusConnection": "the bus of local mode",
	}
	maps.Copy(local, environ)
	delete(local, "FUNCTIONS_CUSTOMHANDLER_PORT")
	return local
}

// localSystem is local mode while it runs.
type localSystem struct {
	flags    localFlags
	settings settings
	out      io.Writer

	bus   *localbus.Bus
	world simulation.World
	story *narrator
}

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
	logFile, err := os.OpenFile(l.path("handler.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, logFile.Close()) }()
	log := slog.New(slog.NewJSONHandler(logFile, nil))

	front, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(l.flags.port)))
	if err != nil {
		return fmt.Errorf("-port: cannot listen on port %d: %w", l.flags.port, err)
	}
	defer front.Close()
	inner, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the handler: %w", err)
	}
	l.bus, err = localbus.Open(l.path("bus.db"), l.topics(), time.Now) //nolint:contextcheck // it lives until Close
	if err != nil {
		return errors.Join(fmt.Errorf("-dir: %w", err), inner.Close())
	}
	defer func() { err = errors.Join(err, l.bus.Close()) }()
	l.world = simulation.World{
		Bus: l.bus, Orders: l.settings.OrdersTopic, Commands: l.settings.CommandsTopic,
		Pace: l.flags.pace, Late: 2 * l.settings.PaymentDeadline, Now: time.Now, Log: log,
	}

	opened := make(chan *store.Store, 1)
	h := &handler{
		settings: l.settings, log: log, opened: func(s *store.Store) { opened <- s },
		sender: busSender{l.bus, l.settings.OrdersTopic, l.settings.CommandsTopic},
	}
	l.story = newNarrator(l.out, time.Now())
	host := &funchost.Host{
		App: app, Bus: l.bus, Port: inner.Addr().(*net.TCPAddr).Port, Now: time.Now, Log: log, StopGrace: stopTimeout,
		OnInvocation: func(i funchost.Invocation) { l.story.heard(i.SessionID) },
	}
	server := &http.Server{Handler: host, ReadHeaderTimeout: 30 * time.Second}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := newParts(cancel)
	parts.run("the handler", func() error { return h.run(ctx, inner, l.path("orders.db")) })
	parts.run("the host", func() error { return host.Run(ctx) })
	parts.run("the services", func() error { return l.world.Run(ctx) })
	parts.run("the front", func() error {
		go func() { <-ctx.Done(); _ = server.Close() }()
		if err := server.Serve(front); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	parts.run("", func() error {
		defer cancel()
		select {
		case db := <-opened:
			if err := l.watch(ctx, db, front.Addr()); ctx.Err() == nil {
				return err
			}
		case <-ctx.Done():
		}
		if l.flags.exit { // nobody may take it for a run that ended well
			return errors.New("-exit: stopped before every order was at rest")
		}
		return nil
	})
	return parts.wait()
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
	if !l.flags.fresh {
		return release, nil
	}
	for _, name := range []string{"orders.db", "bus.db"} {
		for _, part := range []string{"", "-wal", "-shm", "-lock"} {
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
		"OutboxSchedule": l.settings.OutboxSchedule, "ServiceBusConnection": l.settings.ServiceBus,
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

// topics is the bus as it is deployed: a subscription for each function, and
// one for each service.
func (l *localSystem) topics() []localbus.Topic {
	const window = 10 * time.Minute
	orders := localbus.Topic{Name: l.settings.OrdersTopic, DuplicateDetection: window}
	for _, f := range functions.Subscriptions() {
		s := localbus.Subscription{Name: f.Name}
		for _, t := range f.Types {
			s.Subjects = append(s.Subjects, string(t))
		}
		orders.Subscriptions = append(orders.Subscriptions, s)
	}
	return []localbus.Topic{orders, {
		Name: l.settings.CommandsTopic, DuplicateDetection: window, Subscriptions: simulation.Subscriptions(),
	}}
}

// parts are the parts of local mode: when one fails, all stop.
type parts struct {
	wg     sync.WaitGroup
	cancel context.CancelFunc
	mu     sync.Mutex
	errs   []error
}

func newParts(cancel context.CancelFunc) *parts { return &parts{cancel: cancel} }

func (p *parts) run(name string, part func() error) {
	p.wg.Go(func() {
		if err := part(); err != nil {
			p.mu.Lock()
			if name != "" {
				err = fmt.Errorf("%s: %w", name, err)
			}
			p.errs = append(p.errs, err)
			p.mu.Unlock()
			p.cancel()
		}
	})
}

func (p *parts) wait() error {
	p.wg.Wait()
	return errors.Join(p.errs...)
}
