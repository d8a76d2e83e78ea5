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
	"strconv"
	"sync"
	"time"

	"orderflow/functions"
	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/funchost"
	"orderflow/handler/internal/localbus"
	"orderflow/handler/internal/servicebus"
	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// localFlags are the flags of `handler local`.
type localFlags struct {
	dir      string
	root     string
	port     int
	busPort  int
	deadline time.Duration
	pace     time.Duration
	without  []string
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
	flags.IntVar(&f.busPort, "bus-port", 0, "where Service Bus clients reach the bus, over AMQP; 0 picks a free port")
	flags.DurationVar(&f.deadline, "deadline", 6*time.Second, "every deadline of an order, unless its setting (PaymentDeadline …) is set")
	flags.DurationVar(&f.pace, "pace", 300*time.Millisecond, "how long the simulated services take for an answer")
	flags.Func("without", "`services` that are not simulated, such as inventory,payment: your own take their commands", func(list string) (err error) {
		f.without, err = simulation.ServiceNames(list)
		return err
	})
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
	case f.busPort < 0 || f.busPort > 65535:
		return usageError{fmt.Errorf("-bus-port must be from 0 to 65535; it is %d", f.busPort)}
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

// localSystem is local mode while it runs: the process that holds the host, the
// bus and the services. The handler is its child.
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
	hostLog, handlerLog, err := l.logs()
	if err != nil {
		return err
	}
	defer hostLog.Close()
	defer handlerLog.Close()
	log := slog.New(slog.NewJSONHandler(hostLog, nil))

	front, err := listen(ctx, l.flags.port)
	if err != nil {
		return fmt.Errorf("-port: cannot listen on port %d: %w", l.flags.port, err)
	}
	defer front.Close()
	broker, err := listen(ctx, l.flags.busPort)
	if err != nil {
		return fmt.Errorf("-bus-port: cannot listen on port %d: %w", l.flags.busPort, err)
	}
	defer broker.Close()
	l.bus, err = localbus.Open(l.path("bus.db"), l.topics(), time.Now) //nolint:contextcheck // it lives until Close
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, l.bus.Close()) }()
	server, err := busserver.New(l.bus, busserver.Config{Log: log})
	if err != nil {
		return err
	}
	// The host process reads the orders too, for the story and the operator.
	db, err := store.Open(ctx, l.path("orders.db"), store.Options{
		Now: time.Now, Deadlines: l.settings.deadlines(), SendAhead: l.settings.TimeoutSendAhead,
	})
	if err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	connection := busConnection(broker.Addr())
	client, err := servicebus.NewClient(servicebus.Connection{String: connection})
	if err != nil {
		return err
	}
	answers, err := client.NewSender(l.settings.OrdersTopic, nil)
	if err != nil {
		return err
	}
	l.world = simulation.World{
		Client: client, Answers: answers, Commands: l.settings.CommandsTopic, Without: l.flags.without,
		Pace: l.flags.pace, Late: late(l.settings), Now: time.Now, Log: log,
	}
	l.story = newNarrator(l.out, time.Now())
	worker, err := l.worker(ctx, connection, handlerLog)
	if err != nil {
		return err
	}
	host := &funchost.Host{
		App: app, Bus: l.bus, Port: worker.port, Now: time.Now, Log: log, StopGrace: stopTimeout,
		OnInvocation: func(i funchost.Invocation) { l.story.heard(i.SessionID) },
		OnTimeout:    func(string) { worker.kill() },
	}
	worker.exited = host.HandlerExited
	site := &http.Server{Handler: host, ReadHeaderTimeout: 30 * time.Second}

	// The host ends first, then what it needs to end well: the handler, then
	// the bus.
	bus, endBus := context.WithCancel(context.WithoutCancel(ctx))
	defer endBus()
	process, endProcess := context.WithCancel(bus)
	defer endProcess()
	ctx, end := context.WithCancel(ctx)
	defer end()
	p := &parts{cancel: end}
	var serving, working parts
	serving.cancel, working.cancel = end, end
	serving.run("the bus", func() error { return server.Serve(bus, broker) })
	working.run("the handler", func() error { return worker.run(process) })
	p.run("the host", func() error { return host.Run(ctx) })
	p.run("the services", func() error {
		l.world.Run(ctx)
		return client.Close(context.WithoutCancel(ctx))
	})
	p.run("the site", func() error {
		go func() { <-ctx.Done(); _ = site.Close() }()
		if err := site.Serve(front); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	p.run("", func() error {
		defer end()
		err := l.watch(ctx, db, front.Addr(), broker.Addr())
		if ctx.Err() == nil {
			return err
		}
		if l.flags.exit { // nobody may take it for a run that ended well
			return errors.New("-exit: stopped before every order was at rest")
		}
		return nil
	})
	err = p.wait()
	endProcess()
	err = errors.Join(err, working.wait())
	endBus()
	return errors.Join(err, serving.wait())
}

// late is how long a late answer takes: well after the deadline has passed.
func late(s settings) time.Duration {
	longest := max(s.InventoryDeadline, s.PaymentDeadline)
	return longest + max(longest/2, 4*time.Second)
}

// worker is the handler, ready to be started.
func (l *localSystem) worker(ctx context.Context, connection string, log io.Writer) (*child, error) {
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
		orders.Subscriptions = append(orders.Subscriptions, subscription(f.Name, f.Types))
	}
	var services []localbus.Subscription
	for _, s := range simulation.Subscriptions() {
		services = append(services, subscription(s.Name, s.Commands))
	}
	return []localbus.Topic{orders, {
		Name: l.settings.CommandsTopic, DuplicateDetection: window, Subscriptions: services,
	}}
}

// subscription takes the messages of some types.
func subscription(name string, types []workflow.MessageType) localbus.Subscription {
	s := localbus.Subscription{Name: name}
	for _, t := range types {
		s.Subjects = append(s.Subjects, string(t))
	}
	return s
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
