package servicebus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"orderflow/workflow"
)

// takenAtOnce is how many messages are asked for at a time.
const takenAtOnce = 32

// BringBack has dead letters handled, each order's in the order in which they
// came, and takes those out that were: nil is what handle returns for them. One
// that could not be handled is given back, and so is whatever comes after it of
// its order. It ends when nothing is left to do, and when ctx does; more says
// that some of what was asked for is left.
//
// Dead letters have no sessions, and whoever receives gets what nobody else has
// locked. So it looks first at all that are there, locked ones included, and
// handles a message only when each older one of its order was handled in this
// run: what another has in its hands, in another process or tool, is neither
// overtaken nor waited for.
//
// Should the process die after handle and before the message is taken out, or
// should the lock be lost, the message is handled again next time.
func (d *DeadLetters) BringBack(ctx context.Context, which workflow.BringBack, handle func(context.Context, workflow.DeadLetter) error) (more bool, err error) {
	err = d.open(ctx, which.Subscription, func(r *azservicebus.Receiver) error {
		b := bringing{
			patience: d.patience, room: d.room, receiver: r, which: which, handle: handle,
			lines: make(map[string][]int64), held: make(map[int64]*azservicebus.ReceivedMessage),
		}
		err := b.run(ctx)
		b.giveBack(ctx)
		more = b.more || len(b.lines) > 0
		return err
	})
	if err != nil {
		return true, fmt.Errorf("bring back dead letters of %s: %w", which.Subscription, err)
	}
	return more, nil
}

// bringing is one run over the dead letters of a subscription.
type bringing struct {
	patience patience
	room     int
	receiver *azservicebus.Receiver
	which    workflow.BringBack
	handle   func(context.Context, workflow.DeadLetter) error

	seen int
	// lines are, for each order, the sequence numbers of what is to be handled,
	// the oldest first. That of an order of which one failed is not there.
	lines map[string][]int64
	// held are the messages that are locked for this run and not settled. They
	// are given back at its end only: at once, they would be received again.
	held map[int64]*azservicebus.ReceivedMessage
	size int // of what is held, in bytes
	more bool
	done int
	lost error // why the broker cannot be told any more
}

func (b *bringing) run(ctx context.Context) error {
	err := b.patience.browse(ctx, b.receiver, 0, workflow.DeadLettersCounted, func(m *azservicebus.ReceivedMessage) {
		b.seen++
		if order := value(m.SessionID); b.which.OrderID == "" || b.which.OrderID == order {
			b.lines[order] = append(b.lines[order], *m.SequenceNumber)
		}
	})
	b.more = b.seen == workflow.DeadLettersCounted
	for got := 0; err == nil && got < b.seen && b.size < b.room && b.goesOn(ctx); {
		var taken []*azservicebus.ReceivedMessage
		if taken, err = b.patience.receive(ctx, b.receiver, min(takenAtOnce, b.seen-got)); len(taken) == 0 {
			break
		}
		got += len(taken)
		for _, m := range taken {
			b.hold(m)
		}
		for _, m := range taken {
			b.advance(ctx, value(m.SessionID))
		}
		err = b.lost
	}
	return err
}

func (b *bringing) goesOn(ctx context.Context) bool {
	return ctx.Err() == nil && b.lost == nil && b.done < b.which.Top && len(b.lines) > 0
}

func (b *bringing) hold(m *azservicebus.ReceivedMessage) {
	b.held[*m.SequenceNumber] = m
	b.size += len(m.Body)
}

func (b *bringing) letGo(m *azservicebus.ReceivedMessage) {
	delete(b.held, *m.SequenceNumber)
	b.size -= len(m.Body)
}

// advance handles what is in hand of an order and is its turn.
func (b *bringing) advance(ctx context.Context, order string) {
	for line := b.lines[order]; len(line) > 0; line = line[1:] {
		b.lines[order] = line
		m := b.held[line[0]]
		if m == nil || !b.goesOn(ctx) {
			return
		}
		b.done++
		if !b.one(ctx, m) {
			b.more = true
			break
		}
	}
	delete(b.lines, order)
}

// one has one message handled while it is locked, and takes it out. It says
// whether it was handled.
func (b *bringing) one(ctx context.Context, m *azservicebus.ReceivedMessage) bool {
	locked, cancel := ctx, context.CancelFunc(func() {})
	if m.LockedUntil != nil {
		locked, cancel = context.WithDeadline(ctx, *m.LockedUntil)
	}
	defer cancel()
	if locked.Err() != nil || b.handle(locked, deadLetter(b.which.Subscription, m)) != nil {
		return false
	}
	telling, told := context.WithTimeout(context.WithoutCancel(ctx), b.patience.answer)
	defer told()
	if err := b.receiver.CompleteMessage(telling, m, nil); err != nil {
		b.more = true // it is there still, or again, and a duplicate next time
		if !lockLost(err) {
			b.lost = fmt.Errorf("take out message %d, which was handled: %w", *m.SequenceNumber, err)
		}
	}
	b.letGo(m)
	return true
}

// giveBack ends the locks of what is held. Those for which there is no time end
// by themselves.
func (b *bringing) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.patience.answer)
	defer cancel()
	for _, sequence := range slices.Sorted(maps.Keys(b.held)) {
		err := b.receiver.AbandonMessage(ctx, b.held[sequence], nil)
		if err != nil && !lockLost(err) {
			return
		}
	}
}

func lockLost(err error) bool {
	var failed *azservicebus.Error
	return errors.As(err, &failed) && failed.Code == azservicebus.CodeLockLost
}

// receive takes up to so many messages that nobody else has; none if there are
// none.
func (p patience) receive(ctx context.Context, r *azservicebus.Receiver, most int) (got []*azservicebus.ReceivedMessage, err error) {
	waiting, cancel := context.WithTimeout(ctx, p.empty)
	defer cancel()
	defer contain(&err)
	got, err = r.ReceiveMessages(waiting, most, nil)
	if waiting.Err() != nil && len(got) == 0 {
		err = nil // it is not there, or the run is over
	}
	return slices.DeleteFunc(got, func(m *azservicebus.ReceivedMessage) bool { return m.SequenceNumber == nil }), err
}
