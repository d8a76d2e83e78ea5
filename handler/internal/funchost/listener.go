package funchost

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"orderflow/handler/internal/localbus"
)

const (
	// busRetry is the pause after the bus itself failed.
	busRetry = time.Second
	// settleLimit bounds one completion or abandonment.
	settleLimit = 10 * time.Second
	// renewMargin is how long before its end a session's lock is renewed, or
	// half of what is left when that is less.
	renewMargin = 10 * time.Second
)

// listener serves the sessions of one subscription.
type listener struct {
	host    *Host
	fn      Function
	trigger ServiceBusTrigger
	options ServiceBusOptions
	log     *slog.Logger
	// slots holds one token for each session that is held.
	slots chan struct{}
}

func newListener(h *Host, fn Function) *listener {
	return &listener{
		host:    h,
		fn:      fn,
		trigger: *fn.ServiceBus,
		options: h.App.ServiceBus,
		log:     h.Log.With("function", fn.Name),
		slots:   make(chan struct{}, h.App.ServiceBus.MaxConcurrentSessions),
	}
}

// run takes sessions as they come, as many at once as there are slots, and
// returns when the last one was let go.
func (l *listener) run(listening, work context.Context) error {
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for {
		select {
		case l.slots <- struct{}{}:
		case <-listening.Done():
			return nil
		}
		session, err := l.host.Bus.AcceptNextSession(listening, l.trigger.Topic, l.trigger.Subscription)
		if err != nil {
			<-l.slots
			if listening.Err() != nil {
				return nil
			}
			if errors.Is(err, localbus.ErrNotFound) || errors.Is(err, localbus.ErrClosed) {
				return err
			}
			l.log.Error("no session accepted", "error", err)
			l.pause(listening, err)
			continue
		}
		sessions.Go(func() {
			defer func() { <-l.slots }()
			l.serve(listening, work, session)
		})
	}
}

// serve delivers a session's messages one after the other, until none comes
// within the idle timeout, the lock is lost or listening ends.
func (l *listener) serve(listening, work context.Context, session *localbus.Session) {
	log := l.log.With("session", session.ID())
	renewing, stop := context.WithCancel(work)
	var renewal sync.WaitGroup
	renewal.Go(func() { l.renew(renewing, session, log) })
	defer func() { //nolint:contextcheck // giving a session back takes none
		stop()
		renewal.Wait()
		if err := session.Close(); err != nil && !errors.Is(err, localbus.ErrSessionLockLost) {
			log.Warn("session not closed", "error", err)
		}
	}()

	for listening.Err() == nil {
		waiting, cancel := context.WithTimeout(listening, l.options.SessionIdleTimeout)
		message, err := session.Receive(waiting)
		idle := waiting.Err() != nil
		cancel()
		switch {
		case err == nil:
		case idle:
			return
		default:
			log.Warn("session given up", "error", err)
			l.pause(listening, err)
			return
		}
		if err := l.deliver(work, session, message); err != nil {
			l.pause(listening, err)
			return // nothing more comes of this session
		}
	}
}

// pause keeps a failing bus from being asked again at once. A lost lock is no
// failure of the bus.
func (l *listener) pause(listening context.Context, err error) {
	if errors.Is(err, localbus.ErrSessionLockLost) {
		return
	}
	select {
	case <-time.After(busRetry):
	case <-listening.Done():
	}
}

// deliver invokes the function with one message and settles it by how that
// ended. The error is the settlement's.
func (l *listener) deliver(work context.Context, session *localbus.Session, m *localbus.Message) error {
	h := l.host
	inv := Invocation{
		Function:       l.fn.Name,
		MessageID:      m.MessageID,
		SessionID:      m.SessionID,
		SequenceNumber: m.SequenceNumber,
		DeliveryCount:  m.DeliveryCount,
	}
	body := messagePayload(h.occasion(l.fn.Name, l.trigger.Binding), h.client, m, session.LockedUntil(), l.trigger.Binary)
	h.invoke(work, &inv, body)

	settling, cancel := context.WithTimeout(context.WithoutCancel(work), settleLimit)
	defer cancel()
	if inv.Err == nil {
		inv.SettleErr = session.Complete(settling, m)
	} else {
		inv.SettleErr = session.Abandon(settling, m)
	}
	h.report(work, inv)
	return inv.SettleErr
}

// renew keeps the session locked for as long as the host may, counted from its
// acceptance. After that the lock runs out, whatever is still going on.
func (l *listener) renew(ctx context.Context, session *localbus.Session, log *slog.Logger) {
	limit := l.options.MaxAutoLockRenewalDuration
	if limit == 0 {
		return
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	for {
		left := session.LockedUntil().Sub(l.host.Now())
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(left-renewMargin, left/2)):
		}
		err := session.Renew(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return
		case errors.Is(err, localbus.ErrSessionLockLost) || errors.Is(err, localbus.ErrClosed):
			log.Warn("session lock lost", "error", err)
			return
		default:
			log.Warn("session lock not renewed", "error", err)
		}
	}
}
