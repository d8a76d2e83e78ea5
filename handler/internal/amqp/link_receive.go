package amqp

import "context"

// receiving is the state of a link on which the client sends.
type receiving struct {
	window         uint32 // how many deliveries may be unsettled
	maxMessageSize uint64
	creditLeft     uint32    // of what the client was granted
	unfinished     uint32    // deliveries that have begun and are not settled
	partial        *Delivery // its last frame has not come
}

// Delivery is one message that the client has sent. It must be settled.
type Delivery struct {
	Tag     []byte
	Format  uint32 // 2.8.11
	Payload []byte // the encoded message

	link    *Link
	id      uint32
	settled bool // the client wants no answer
}

// Next is the next message that the client sends. What has come is given even
// when ctx has ended.
func (l *Link) Next(ctx context.Context) (*Delivery, error) {
	return l.deliveries.get(ctx)
}

// Settle tells the client what became of the message.
func (d *Delivery) Settle(s State) error {
	return d.link.do(func() {
		if !d.settled {
			d.link.session.write(disposition{Role: RoleReceiver, First: d.id, Settled: true, State: s})
		}
		d.finish()
	})
}

// Forget is Settle without telling the client.
func (d *Delivery) Forget() error {
	return d.link.do(d.finish)
}

// The rest runs in the loop.

func (d *Delivery) finish() {
	d.link.unfinished--
	d.link.replenish()
}

// replenish grants new credit when half of the old is used (2.6.7).
func (l *Link) replenish() {
	granted := l.window - min(l.unfinished, l.window)
	if l.creditLeft > l.window/2 || granted <= l.creditLeft {
		return
	}
	l.creditLeft = granted
	l.writeFlow(false)
}

// writeFlow tells the client the state of the link.
func (l *Link) writeFlow(drained bool) {
	if !l.answered {
		return
	}
	count, credit := l.deliveryCount, l.creditLeft
	if l.attach.Role == RoleReceiver {
		credit = l.credit
	}
	l.session.writeFlow(flow{Handle: &l.attach.handle, DeliveryCount: &count, LinkCredit: &credit, Drain: drained})
}

// transfer takes one frame of a delivery. The delivery-id belongs to the first
// and may be repeated on the others (2.7.5).
func (l *Link) transfer(t transfer, payload []byte) {
	if l.detached || l.peerDetached {
		return
	}
	if l.attach.Role != RoleSender {
		l.session.fail(Errorf(NotAllowed, "transfer on a link whose sender is the server"))
		return
	}
	d := l.partial
	switch {
	case d == nil && t.DeliveryID == nil:
		l.session.fail(Errorf(InvalidField, "the first transfer of a delivery has no delivery-id"))
		return
	case d != nil && t.DeliveryID != nil && *t.DeliveryID != d.id:
		l.session.fail(Errorf(InvalidField, "delivery %d begins before delivery %d has ended", *t.DeliveryID, d.id))
		return
	case d == nil && l.creditLeft == 0:
		l.detach(Errorf(TransferLimitExceeded, "a delivery without credit"))
		return
	case d == nil:
		d = &Delivery{link: l, id: *t.DeliveryID, Tag: t.DeliveryTag}
		if t.MessageFormat != nil {
			d.Format = *t.MessageFormat
		}
		l.partial = d
		l.creditLeft--
		l.deliveryCount++
		l.unfinished++
	}
	d.settled = d.settled || t.Settled != nil && *t.Settled
	if t.Aborted {
		l.partial = nil
		d.finish()
		return
	}
	if size := uint64(len(d.Payload) + len(payload)); l.maxMessageSize > 0 && size > l.maxMessageSize {
		l.detach(Errorf(MessageSizeExceeded, "a message of more than %d bytes", l.maxMessageSize))
		return
	}
	d.Payload = append(d.Payload, payload...)
	if !t.More {
		l.partial = nil
		l.deliveries.put(d)
	}
}
