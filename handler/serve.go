package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"orderflow/functions"
	"orderflow/handler/internal/audit"
	"orderflow/handler/internal/ops"
	"orderflow/handler/internal/servicebus"
	"orderflow/handler/internal/telemetry"
	"orderflow/workflow"
	"orderflow/workflow/outbox"
	"orderflow/workflow/store"
)

// serve is the custom handler. It listens before it opens anything, because the
// host waits for GET / and nothing else.
func serve(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	stopWithStdin := flags.Bool("stop-with-stdin", false, "end when standard input does: for a parent that may be killed")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if *stopWithStdin {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // its end is what counts
			stop()
		}()
	}
	s, err := readSettings(environ)
	collectors, unclear := telemetry.Read(environ)
	if err := errors.Join(err, s.checkServe(), unclear); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", s.Port))
	if err != nil {
		return fmt.Errorf("FUNCTIONS_CUSTOMHANDLER_PORT: cannot listen on port %s: %w", s.Port, err)
	}
	sender, err := servicebus.New(s.serviceBus(), servicebus.Topics{Orders: s.OrdersTopic, Commands: s.CommandsTopic})
	if err != nil {
		return errors.Join(fmt.Errorf("ServiceBusConnection: %w", err), listener.Close())
	}
	dead, err := servicebus.NewDeadLetters(s.serviceBus(), s.OrdersTopic)
	if err != nil {
		return errors.Join(fmt.Errorf("ServiceBusConnection: %w", err), listener.Close())
	}
	log := slog.New(slog.NewJSONHandler(stdout, nil))
	watch, err := telemetry.Start(ctx, collectors, telemetry.Topics{Orders: s.OrdersTopic, Commands: s.CommandsTopic}, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTimeout)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() { _ = sender.Close(bye) }) // the broker notices in any case
		all.Go(func() { _ = dead.Close(bye) })
		all.Go(func() { _ = watch.Stop(bye) }) // the log says what did not get through
		all.Wait()
	}()
	h := &handler{settings: s, sender: sender, dead: dead, watch: watch, log: log}
	h.log.Info("listening", "address", listener.Addr().String())
	if err := h.run(ctx, listener, s.SQLConnection); err != nil {
		return err
	}
	// The host ends its handler with SIGKILL. Whoever asked more kindly gets an
	// exit code that older hosts do not take for "done, leave it stopped".
	return fmt.Errorf("stopped: %w", context.Cause(ctx))
}

// How the process ends once it was asked to stop.
const (
	// finishTimeout is how long what is in flight may go on; then it is told to
	// stop, and answers that it failed.
	finishTimeout = 2 * time.Second
	// stopTimeout is when the process goes, whatever is still in flight.
	stopTimeout = 4 * time.Second
	// goodbyeTimeout bounds the farewell to the broker and to the collectors of
	// telemetry, after that. All together is less than five seconds.
	goodbyeTimeout = 900 * time.Millisecond
)

var errStopping = errors.New("the process is stopping")

// bodyGrace is how much longer than an invocation the reading of its request may
// take: a body that comes a byte at a time must not hold it for ever.
const bodyGrace = time.Second

// handler is the custom handler's parts, wired.
type handler struct {
	settings settings
	sender   outbox.Sender
	dead     functions.DeadLetters // nil: nobody looks
	watch    *telemetry.Telemetry  // nil watches nothing
	log      *slog.Logger
	// adjust changes the store's options before it is opened. Nil changes
	// nothing; it is for tests that break things.
	adjust func(*store.Options)
}

// run serves on a listener until ctx ends, or until something fails that only a
// person can mend. The database is opened meanwhile; requests wait for it.
func (h *handler) run(ctx context.Context, listener net.Listener, database string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 3) // each goroutine fails once at most

	wake, auditWake := make(chan struct{}, 1), make(chan struct{}, 1)
	orders := &lateStore{ready: make(chan struct{})}
	var auditor *audit.Writer
	if h.settings.audited() {
		var err error
		if auditor, err = audit.New(h.settings.auditStorage(), orders, h.log); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	dispatcher := h.dispatcher(orders)
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	app := h.app(life, orders, dispatcher)
	server := &http.Server{
		Handler:           app.Handler(),
		ReadHeaderTimeout: 30 * time.Second,
		ReadTimeout:       h.settings.HandlerDeadline + bodyGrace,
		IdleTimeout:       5 * time.Minute, // longer than the host keeps its connections
		ErrorLog:          slog.NewLogLogger(h.log.Handler(), slog.LevelWarn),
	}

	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve: %w", err)
		}
	})
	wg.Go(func() {
		options := h.settings.storeOptions()
		options.Wake = func() {
			nudge(wake)
			nudge(auditWake)
		}
		options.Decided = h.watch.Decided()
		if h.adjust != nil {
			h.adjust(&options)
		}
		opened, err := store.Open(ctx, database, options)
		if err != nil {
			failed <- fmt.Errorf("SqlConnection: %w", err)
			return
		}
		orders.is(opened)
		wg.Go(func() {
			if err := h.lookAt(ctx, opened); err != nil {
				failed <- fmt.Errorf("SqlConnection: %w", err)
			}
		})
		if auditor != nil {
			wg.Go(func() { auditor.Run(ctx, auditWake) })
		}
		options.Wake() // what a former process left is sent now
		dispatcher.Run(ctx, wake)
	})

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	cancel()
	defer time.AfterFunc(finishTimeout, func() { end(errStopping) }).Stop()
	bye, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer done()
	if server.Shutdown(bye) != nil {
		_ = server.Close() // whoever is cut off is delivered again
	}
	ended := make(chan error, 1)
	go func() {
		wg.Wait()
		ended <- orders.close()
	}()
	select {
	case closed := <-ended:
		return errors.Join(err, closed)
	case <-bye.Done(): // what goes with the process is rolled back
		h.log.Warn("the database could not be closed in time")
		return err
	}
}

// nudge wakes whoever sleeps on a channel, if it is not awake.
func nudge(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// dispatcher sends what orders decided to send.
func (h *handler) dispatcher(rows outbox.Rows) *outbox.Dispatcher {
	s := &h.settings
	return &outbox.Dispatcher{
		Rows: rows, Sender: h.watch.Sender(h.sender), Log: h.log, Token: uuid.NewString, Jitter: rand.Float64,
		Budget: min(45*time.Second, s.HandlerDeadline*3/4),
		Lease:  s.OutboxLease,
		Batch:  s.OutboxBatch, Parallel: s.OutboxParallel,
	}
}

// app is the functions. They are served until life ends.
func (h *handler) app(life context.Context, orders *lateStore, out functions.Outbox) functions.App {
	s := &h.settings
	return h.watch.Watch(functions.App{
		Process: orders, Orders: orders, Outbox: out, Backlog: orders, Sweeper: orders, DeadLetters: h.dead,
		Log: h.log, Now: time.Now, Context: life, Deadline: s.HandlerDeadline,
		HoldFrom: s.HoldFromDelivery, Concurrent: s.concurrent(),
		Operators: orders, Database: orders, ReadOnly: s.ReadOnly, Page: ops.New(s.ReadOnly), Limits: workflow.LimitsFor(s.deadlines()), DuplicateDetection: s.DuplicateDetection,
	})
}

// The pauses between two looks at a database that cannot be reached.
const (
	lookFirst = time.Second
	lookMost  = 30 * time.Second
)

// lookAt waits until the database was reached once, and says so; also, once, when
// it cannot be reached yet. The error is about what no waiting mends: that it has
// to be migrated first. Meanwhile messages find out for themselves, and stay with
// the broker.
func (h *handler) lookAt(ctx context.Context, opened interface{ Ready(context.Context) error }) error {
	said := false
	for pause := lookFirst; ; pause = min(2*pause, lookMost) {
		err := opened.Ready(ctx)
		switch {
		case err == nil:
			h.log.LogAttrs(ctx, slog.LevelInfo, "the database is reached")
			return nil
		case ctx.Err() != nil:
			return nil //nolint:nilerr // nobody wants to know any more
		case errors.Is(err, store.ErrSchema) || !errors.Is(err, workflow.ErrTransient):
			return err
		case !said:
			said = true
			h.log.LogAttrs(ctx, slog.LevelWarn, "the database cannot be reached yet", slog.String("error", err.Error()))
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}
