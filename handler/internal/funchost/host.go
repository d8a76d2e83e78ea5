package funchost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"orderflow/handler/internal/localbus"
)

// Host runs an App: it listens for the triggers and calls the handler. It is
// also the http.Handler that the outside world would reach, to be served on
// loopback only, because keys are not checked.
//
// The fields are set before the first use and not changed after.
type Host struct {
	App *App
	Bus *localbus.Bus
	// Port is where the handler listens on 127.0.0.1.
	Port int
	// Now is the clock that the bus has too.
	Now func() time.Time
	// Log gets a line for each invocation. Nil means no log.
	Log *slog.Logger
	// StopGrace is how long invocations may go on once Run's context has
	// ended. Zero means until they end, or functionTimeout ends them.
	StopGrace time.Duration
	// OnTimeout is told that an invocation outlived functionTimeout, which is
	// when the real host kills the handler and starts it again. The caller may
	// do the same before it returns: every other running invocation fails as
	// it does, and later ones are held until GET / is answered again.
	OnTimeout func(function string)
	// OnInvocation is told of each invocation after its message was settled,
	// of several at the same time. Nil means nobody is.
	OnInvocation func(Invocation)

	once      sync.Once
	worker    *worker
	transport http.RoundTripper // of the handler; a test's, or the network
	manual    chan func(context.Context)
	client    client
}

// Invocation is one call of the handler, as it ended.
type Invocation struct {
	Function string
	// ID is what the handler got as X-Azure-Functions-InvocationId.
	ID string
	// MessageID, SessionID, SequenceNumber and DeliveryCount are those of a
	// Service Bus function's message.
	MessageID      string
	SessionID      string
	SequenceNumber int64
	DeliveryCount  int
	// Status is the answer's; zero when there was none.
	Status   int
	Duration time.Duration
	// Logs are those that the handler returned. They are lost on failure.
	Logs []string
	// Err is why it failed: the message was abandoned. Nil means success: the
	// message was completed.
	Err error
	// SettleErr is why completing or abandoning failed, which means that the
	// message is delivered again.
	SettleErr error
}

// setup makes what Run and ServeHTTP share; either may come first.
func (h *Host) setup() {
	h.once.Do(func() {
		if h.Log == nil {
			h.Log = slog.New(slog.DiscardHandler)
		}
		if h.transport == nil {
			h.transport = newTransport()
		}
		stopped := make(chan struct{})
		h.worker = &worker{
			base:      fmt.Sprintf("http://127.0.0.1:%d", h.Port),
			transport: h.transport,
			timeout:   h.App.FunctionTimeout,
			patience:  h.App.InitializationTimeout,
			onTimeout: h.OnTimeout,
			stopped:   stopped,
			stop:      sync.OnceFunc(func() { close(stopped) }),
			life:      newLife(),
		}
		h.manual = make(chan func(context.Context))
		h.client = client{namespace: "localbus", identifier: "localbus-" + uuid.NewString()}
	})
}

// Run waits until the handler is ready, then listens for every enabled
// function's trigger until ctx ends. It returns after the last invocation and
// with every session closed: nil when ctx ended it, ErrNotReady when the
// handler never answered, localbus.ErrNotFound for a topic or subscription that
// the bus does not have. A Host runs once.
//
// Invocations do not see ctx end; they have StopGrace.
func (h *Host) Run(ctx context.Context) error {
	h.setup()
	defer h.worker.close()
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	listening, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	var supervisor sync.WaitGroup
	defer supervisor.Wait()
	defer cut(ErrStopped)
	supervisor.Go(func() {
		if err := h.worker.supervise(work); err != nil {
			fail(err)
			cut(err) // nothing that waits for the handler will have it
		}
	})

	var busy sync.WaitGroup
	if _, err := h.worker.awaitReady(listening); err == nil {
		h.Log.Info("host started", "functions", len(h.App.Functions))
		for _, fn := range h.App.Functions {
			if fn.Disabled {
				continue
			}
			busy.Go(func() {
				if err := h.listen(listening, work, fn); err != nil {
					fail(fmt.Errorf("listening for %s: %w", fn.Name, err))
				}
			})
		}
		busy.Go(func() { h.runManual(listening, work) })
		<-listening.Done()
	}
	h.drain(&busy, cut)

	if cause := context.Cause(listening); !errors.Is(cause, context.Cause(ctx)) {
		return cause
	}
	return nil
}

// HandlerExited tells the host that the handler's process has ended, which the
// real host sees by itself: invocations in flight fail, and later ones are held
// until GET / is answered again. Whoever calls it starts the handler again.
func (h *Host) HandlerExited() {
	h.setup()
	h.worker.exited()
}

// drain waits for what is running, and cuts it off after the grace.
func (h *Host) drain(busy *sync.WaitGroup, cut context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() {
		busy.Wait()
		close(done)
	}()
	var grace <-chan time.Time
	if h.StopGrace > 0 {
		grace = time.After(h.StopGrace)
	}
	select {
	case <-done:
		return
	case <-grace:
	}
	h.Log.Warn("host stops with invocations still running")
	cut(ErrStopped)
	<-done
}

// listen serves one function's trigger until listening ends. Invocations live
// in work.
func (h *Host) listen(listening, work context.Context, fn Function) error {
	switch {
	case fn.ServiceBus != nil:
		return newListener(h, fn).run(listening, work)
	case fn.Timer != nil:
		runTimer(listening, *fn.Timer, h.Now, func(status *timerStatus) { h.invokeTimer(work, fn, status) })
	}
	return nil // HTTP functions are served by ServeHTTP
}

// invoke calls the handler for a function that is not forwarded, and fills in
// the invocation.
func (h *Host) invoke(ctx context.Context, inv *Invocation, payload []byte) {
	start := h.Now()
	inv.ID = uuid.NewString()
	inv.Err = h.worker.run(ctx, inv.Function, func(ctx context.Context) (err error) {
		inv.Status, inv.Logs, err = h.worker.post(ctx, inv.Function, inv.ID, payload)
		return err
	})
	inv.Duration = h.Now().Sub(start)
}

func (h *Host) invokeTimer(ctx context.Context, fn Function, status *timerStatus) {
	inv := Invocation{Function: fn.Name}
	h.invoke(ctx, &inv, timerPayload(h.occasion(fn.Name, fn.Timer.Binding), status))
	h.report(ctx, inv)
}

func (h *Host) occasion(function, binding string) occasion {
	return occasion{function: function, binding: binding, now: h.Now(), id: uuid.NewString()}
}

func (h *Host) report(ctx context.Context, inv Invocation) {
	attrs := []slog.Attr{
		slog.String("function", inv.Function),
		slog.String("invocationId", inv.ID),
		slog.Int("status", inv.Status),
		slog.Float64("durationMs", float64(inv.Duration.Microseconds())/1000),
	}
	if inv.SequenceNumber != 0 {
		attrs = append(attrs,
			slog.String("messageId", inv.MessageID),
			slog.String("session", inv.SessionID),
			slog.Int64("sequenceNumber", inv.SequenceNumber),
			slog.Int("deliveryCount", inv.DeliveryCount))
	}
	level, text := slog.LevelInfo, "invocation succeeded"
	if inv.Err != nil {
		level, text = slog.LevelError, "invocation failed"
		attrs = append(attrs, slog.String("error", inv.Err.Error()))
	}
	if inv.SettleErr != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("settleError", inv.SettleErr.Error()))
	}
	for _, line := range inv.Logs {
		h.Log.InfoContext(ctx, line, "function", inv.Function, "invocationId", inv.ID)
	}
	h.Log.LogAttrs(ctx, level, text, attrs...)
	if h.OnInvocation != nil {
		h.OnInvocation(inv)
	}
}
