package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"orderflow/handler/internal/servicebus"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// faultyChild is the variable that makes this test binary a handler that
// breaks: the faults stay out of the product.
const faultyChild = "ORDERFLOW_TEST_FAULTY_HANDLER"

// troubles says how a faulty handler breaks.
type troubles struct {
	Seed uint64
	// Calm is a file; once it is there, nothing breaks any more.
	Calm string
	// Marks is a folder of files that count what is to happen so often.
	Marks string
	// Log is a file that gets a line for each fault.
	Log string

	// The chances, of 1.

	Panics, PanicsThrice, PanicsAlways float64 // by message
	RefusedOnce, RefusedForGood        float64 // by command
	Outage                             float64 // by half second, for all that is sent in it
	LostAnswer, Slow                   float64 // by send
}

// roll is a number in [0,1) that is the same for the same seed and words.
func roll(seed uint64, words ...any) float64 {
	h := fnv.New64a()
	fmt.Fprintln(h, append([]any{seed}, words...)...)
	x := h.Sum64() // spread, for the last byte barely moves the first
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// serveFaulty is serve with faults wired in.
func serveFaulty(environ map[string]string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var broken troubles
	if err := json.Unmarshal([]byte(environ[faultyChild]), &broken); err != nil {
		return err
	}
	s, err := readSettings(environ)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", s.Port))
	if err != nil {
		return err
	}
	sender, err := servicebus.New(s.serviceBus(), servicebus.Topics{Orders: s.OrdersTopic, Commands: s.CommandsTopic})
	if err != nil {
		return err
	}
	f := &faulty{troubles: broken, Sender: sender, lease: s.OutboxLease}
	h := &handler{
		settings: s, sender: f, log: slog.New(slog.NewJSONHandler(os.Stdout, nil)),
		adjust: func(o *store.Options) { o.Apply = f.apply },
	}
	return errors.Join(h.run(ctx, listener, s.SQLConnection), errors.New("stopped"))
}

// faulty breaks a handler from inside.
type faulty struct {
	*servicebus.Sender
	troubles

	lease time.Duration
	mu    sync.Mutex
	sends int
}

func (f *faulty) calm() bool {
	_, err := os.Stat(f.Calm)
	return err == nil
}

// note counts a fault where the killed do not take it with them.
func (f *faulty) note(fault string) {
	log, err := os.OpenFile(f.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	fmt.Fprintln(log, fault)
	_ = log.Close()
}

// first reports whether a fault of a message is among its first so many, which
// all processes together count.
func (f *faulty) first(times int, fault, id string) bool {
	for n := range times {
		mark, err := os.OpenFile(filepath.Join(f.Marks, url.PathEscape(fmt.Sprint(fault, n, " ", id))), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return mark.Close() == nil
		}
	}
	return false
}

// apply is workflow.Apply, and sometimes a panic: for some messages once, for
// some three times in a row, for some always.
func (f *faulty) apply(o workflow.Order, m workflow.Message, held []workflow.Message) workflow.Result {
	times, luck := 0, roll(f.Seed, "panic", m.ID)
	switch {
	case luck < f.PanicsAlways:
		times = 4 // and more: it is not counted
	case luck < f.PanicsAlways+f.PanicsThrice:
		times = 3
	case luck < f.PanicsAlways+f.PanicsThrice+f.Panics:
		times = 1
	}
	if times > 0 && !f.calm() && (times > 3 || f.first(times, "panic", m.ID)) {
		f.note("panics while deciding")
		panic("a fault of the soak, about " + m.ID)
	}
	return workflow.Apply(o, m, held)
}

var errOutage = errors.New("the broker cannot be reached, says the soak")

// Send sends, or fails before or after it did.
func (f *faulty) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	if f.calm() {
		return f.Sender.Send(ctx, messages)
	}
	f.mu.Lock()
	f.sends++
	which := fmt.Sprint(os.Getpid(), f.sends)
	f.mu.Unlock()
	if roll(f.Seed, "outage", os.Getpid(), time.Now().UnixMilli()/500) < f.Outage {
		f.note("sends in an outage")
		return nil, errOutage
	}
	for i, m := range messages {
		luck := roll(f.Seed, "refuse", m.ID)
		switch {
		case m.Purpose != "" || luck >= f.RefusedForGood+f.RefusedOnce || !f.first(1, "refuse", m.ID):
			continue
		case luck < f.RefusedForGood:
			f.note("commands refused for good")
			return f.before(ctx, messages[:i], fmt.Errorf("says the soak: %w", workflow.ErrNeverAccepted))
		default:
			f.note("commands refused once")
			return f.before(ctx, messages[:i], fmt.Errorf("says the soak: %w", workflow.ErrMessageRefused))
		}
	}
	slow := roll(f.Seed, "slow", which)
	if slow < f.Slow/2 {
		f.note("sends slower than the lease, before")
		return nil, f.doze(ctx)
	}
	sequences, err := f.Sender.Send(ctx, messages)
	switch {
	case err != nil:
	case slow < f.Slow:
		f.note("sends slower than the lease, after")
		_ = f.doze(ctx)
		return nil, errOutage
	case roll(f.Seed, "lost", which) < f.LostAnswer:
		f.note("answers to sends lost")
		return nil, errOutage
	}
	return sequences, err
}

// before sends what came before a message that is refused.
func (f *faulty) before(ctx context.Context, messages []workflow.Outgoing, refusal error) ([]int64, error) {
	sequences, err := f.Sender.Send(ctx, messages)
	if err != nil {
		return sequences, err
	}
	return sequences, refusal
}

// doze takes longer than the lease, unless it is told to stop.
func (f *faulty) doze(ctx context.Context) error {
	timer := time.NewTimer(f.lease * 3 / 2)
	defer timer.Stop()
	select {
	case <-timer.C:
		return errOutage
	case <-ctx.Done():
		return ctx.Err()
	}
}
