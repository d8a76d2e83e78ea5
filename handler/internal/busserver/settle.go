package busserver

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// settleOutcomes does what the client says about deliveries. What has come is
// done even if the link is gone.
func (r *receiver) settleOutcomes(ctx context.Context) {
	for {
		o, err := r.link.NextOutcome(ctx)
		if err != nil {
			return
		}
		r.settleOutcome(ctx, o)
	}
}

// settleOutcome does one outcome and answers it. Done as asked is answered
// Accepted, whatever was asked: that is how the service does it, and clients
// take an echo of Rejected for a refusal.
func (r *receiver) settleOutcome(ctx context.Context, o amqp.Outcome) {
	m := r.drop(tokenOf(o.Tag))
	if m == nil {
		// Its lock was lost, or a request has settled it.
		_ = r.link.Settle(o, amqp.Rejected{Error: linkError(localbus.ErrMessageLockLost)})
		return
	}
	faults := r.connection.server.config.Faults
	event := Event{Moment: Settling, Address: r.entity.String(), Messages: []localbus.Message{*m}}
	f := faults.at(ctx, event)
	if r.answeredBadly(ctx, o, m, f) {
		return
	}
	if err := r.settle(ctx, m, verdictOf(o.State)); err != nil {
		_ = r.link.Settle(o, amqp.Rejected{Error: linkError(err)}) // fails only when the link is gone
		return
	}
	event.Moment = Settled
	if !r.answeredBadly(ctx, o, m, faults.at(ctx, event)) {
		_ = r.link.Settle(o, amqp.Accepted{})
	}
}

// answeredBadly carries out a fault and says whether the outcome is thereby
// dealt with.
func (r *receiver) answeredBadly(ctx context.Context, o amqp.Outcome, m *localbus.Message, f Fault) bool {
	switch {
	case r.connection.struck(r.link, f):
	case f.Refuse != nil:
		r.hold(m)
		_ = r.link.Settle(o, amqp.Rejected{Error: f.Refuse})
	case f.LoseLock && r.session != nil:
		_ = r.session.Close()
		return false
	case f.LoseLock:
		_ = r.source.Release(context.WithoutCancel(ctx), m)
		return false
	case f.LoseAnswer:
	default:
		return false
	}
	return true
}

// verdict is what is to become of a message.
type verdict struct {
	how                 how
	reason, description string // of a dead letter
}

type how string

const (
	complete   how = "complete"
	abandon    how = "abandon"
	release    how = "release"
	setAside   how = "defer"
	deadLetter how = "dead-letter"
)

// verdictOf is what an outcome means to Service Bus: undeliverable-here defers,
// rejected dead-letters. A delivery settled without a word is given back.
func verdictOf(s amqp.State) verdict {
	switch s := s.(type) {
	case amqp.Accepted:
		return verdict{how: complete}
	case amqp.Rejected:
		v := verdict{how: deadLetter}
		if s.Error != nil {
			v.reason, _ = s.Error.Info.Get(propReason).(string)
			v.description, _ = s.Error.Info.Get(propDescription).(string)
		}
		return v
	case amqp.Modified:
		if s.UndeliverableHere {
			return verdict{how: setAside}
		}
		return verdict{how: abandon}
	default:
		return verdict{how: release}
	}
}

// settle has the bus do the verdict, even when ctx has ended. A message whose
// lock is not lost is still held when that fails.
func (r *receiver) settle(ctx context.Context, m *localbus.Message, v verdict) error {
	err := r.apply(context.WithoutCancel(ctx), m, v)
	if err != nil && !errors.Is(err, localbus.ErrMessageLockLost) && !errors.Is(err, localbus.ErrSessionLockLost) {
		r.hold(m)
	}
	return err
}

func (r *receiver) apply(ctx context.Context, m *localbus.Message, v verdict) error {
	switch v.how {
	case complete:
		return r.source.Complete(ctx, m)
	case abandon:
		return r.source.Abandon(ctx, m)
	case setAside:
		return r.source.Defer(ctx, m)
	case deadLetter:
		return r.source.DeadLetter(ctx, m, v.reason, v.description)
	default:
		return r.source.Release(ctx, m)
	}
}

// tokenOf is the lock token of a delivery tag.
func tokenOf(tag []byte) uuid.UUID {
	token, err := uuid.FromBytes(tag)
	if err != nil {
		return uuid.Nil
	}
	return uuid.UUID(deliveryTag(token)) // the change of byte order is its own reverse
}
