package amqp

import (
	"context"
	"maps"
	"slices"
)

const (
	// incomingWindow is how many transfer frames the client may send before it
	// hears of a new window (2.5.6).
	incomingWindow = 4096
	// outgoingWindow is what the client is told about ours; what binds is the
	// client's own incoming window.
	outgoingWindow = 1<<31 - 1
)

// session is one session (2.5). The connection's loop owns it.
type session struct {
	conn    *conn
	channel uint16
	links   map[uint32]*Link // by the client's handle, which is ours as well
	serving int              // links whose ServeLink runs
	ending  bool             // the client has sent end
	failed  bool             // end was sent first by the server

	nextIncomingID uint32
	windowLeft     uint32 // of our incoming window

	nextOutgoingID uint32
	peerWindow     int64 // transfer frames that the client will take
	nextDeliveryID uint32
	unsettled      map[uint32]*sent // deliveries to the client, by delivery-id
	queue          []queuedTransfer // waits for the client's window
}

// queuedTransfer is one frame. Out is closed when it is on its way.
type queuedTransfer struct {
	transfer transfer
	payload  []byte
	out      chan struct{} // nil but for the last frame of a delivery
}

func (c *conn) beginSession(channel uint16, b begin) {
	switch {
	case c.sessions[channel] != nil:
		c.fail(Errorf(NotAllowed, "channel %d has a session already", channel))
		return
	case channel >= c.options.MaxSessions:
		c.fail(Errorf(ResourceLimitExceeded, "channel %d is above channel-max %d", channel, c.options.MaxSessions-1))
		return
	case b.RemoteChannel != nil:
		c.fail(Errorf(NotAllowed, "begin answers a session that was not begun"))
		return
	}
	s := &session{
		conn: c, channel: channel, links: map[uint32]*Link{},
		nextIncomingID: b.NextOutgoingID, windowLeft: incomingWindow,
		peerWindow: int64(b.IncomingWindow), unsettled: map[uint32]*sent{},
	}
	c.sessions[channel] = s
	s.write(begin{
		RemoteChannel:  &channel,
		IncomingWindow: incomingWindow,
		OutgoingWindow: outgoingWindow,
		HandleMax:      c.options.MaxLinks - 1,
	})
}

// write sends a frame, unless either side has ended the session.
func (s *session) write(p performative) {
	if !s.failed && !s.ending {
		s.conn.write(s.channel, p, nil)
	}
}

// fail ends the session for a reason (2.7.8). What the client still sends on
// it is passed over until it answers.
func (s *session) fail(e *Error) {
	if s.failed {
		return
	}
	s.write(end{Error: e})
	s.failed = true
	s.cancelLinks()
}

func (s *session) cancelLinks() {
	for _, l := range s.links {
		l.cancel()
	}
}

func (s *session) handle(linksCtx context.Context, f inbound) {
	if _, isEnd := f.body.(end); isEnd {
		s.ending = true
		s.cancelLinks()
		s.finish()
		return
	}
	if s.failed || s.ending {
		return
	}
	switch p := f.body.(type) {
	case Attach:
		s.attach(linksCtx, p)
	case flow:
		s.flow(p)
	case transfer:
		s.transfer(p, f.payload)
	case disposition:
		s.disposition(p)
	case detach:
		s.detach(p)
	}
}

// finish answers the client's end once nothing of the session runs any more.
func (s *session) finish() {
	if !s.ending || s.serving > 0 {
		return
	}
	delete(s.conn.sessions, s.channel)
	if !s.failed {
		s.conn.write(s.channel, end{}, nil)
	}
}

func (s *session) attach(linksCtx context.Context, a Attach) {
	switch {
	case s.links[a.handle] != nil:
		s.fail(Errorf(HandleInUse, "handle %d is in use", a.handle))
		return
	case a.handle >= s.conn.options.MaxLinks:
		s.conn.fail(Errorf(FramingError, "handle %d is above handle-max %d", a.handle, s.conn.options.MaxLinks-1))
		return
	}
	ctx, cancel := context.WithCancel(linksCtx)
	l := newLink(s, a, cancel)
	s.links[a.handle] = l
	s.serving++
	s.conn.serving++
	s.conn.links.Go(func() {
		s.conn.handler.ServeLink(ctx, l)
		cancel()
		_ = s.conn.call(l.served) // fails only when the connection is gone
	})
}

func (s *session) detach(d detach) {
	l := s.links[d.Handle]
	if l == nil {
		s.fail(Errorf(UnattachedHandle, "detach of handle %d, which has no link", d.Handle))
		return
	}
	l.peerDetached, l.peerClosed = true, d.Closed
	l.cancel()
	l.finish()
}

// flow takes the state of the client's end (2.5.6).
func (s *session) flow(f flow) {
	var known uint32 // the client has seen none of our transfers: our first id is 0
	if f.NextIncomingID != nil {
		known = *f.NextIncomingID
	}
	onTheWay := int64(int32(s.nextOutgoingID - known)) // serial numbers wrap around (2.8.10)
	s.peerWindow = int64(f.IncomingWindow) - onTheWay
	s.sendQueued()
	if f.Handle == nil {
		if f.Echo {
			s.writeFlow(flow{})
		}
		return
	}
	l := s.links[*f.Handle]
	if l == nil {
		s.fail(Errorf(UnattachedHandle, "flow on handle %d, which has no link", *f.Handle))
		return
	}
	l.flow(f)
}

// writeFlow sends a flow with the session's state filled in.
func (s *session) writeFlow(f flow) {
	next := s.nextIncomingID
	f.NextIncomingID = &next
	f.IncomingWindow = incomingWindow
	f.NextOutgoingID = s.nextOutgoingID
	f.OutgoingWindow = outgoingWindow
	s.windowLeft = incomingWindow
	s.write(f)
}

func (s *session) transfer(t transfer, payload []byte) {
	s.nextIncomingID++
	if s.windowLeft == 0 {
		s.fail(Errorf(WindowViolation, "more transfers than the window of %d allows", incomingWindow))
		return
	}
	if s.windowLeft--; s.windowLeft < incomingWindow/2 {
		s.writeFlow(flow{})
	}
	l := s.links[t.Handle]
	if l == nil {
		s.fail(Errorf(UnattachedHandle, "transfer on handle %d, which has no link", t.Handle))
		return
	}
	l.transfer(t, payload)
}

// disposition tells links what the client has made of deliveries. A range may
// name many more deliveries than there are.
func (s *session) disposition(d disposition) {
	if d.Role != RoleReceiver {
		return // about the client's own deliveries, which are settled here when handled
	}
	last := d.First
	if d.Last != nil {
		last = *d.Last
	}
	var ids []uint32
	for id := range s.unsettled {
		if id-d.First <= last-d.First { // serial numbers wrap around (2.8.10)
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b uint32) int { return int(int32(a - b)) })
	for _, id := range ids {
		s.outcome(id, d.State, d.Settled)
	}
}

// sendQueued sends transfers as far as the client's window goes (2.5.6).
func (s *session) sendQueued() {
	for len(s.queue) > 0 && s.peerWindow > 0 && !s.failed && !s.ending {
		q := s.queue[0]
		s.queue = s.queue[1:]
		s.peerWindow--
		s.nextOutgoingID++
		s.conn.write(s.channel, q.transfer, q.payload)
		if q.out != nil {
			close(q.out)
		}
	}
}

// forget drops what the session keeps for a link that is gone.
func (s *session) forget(l *Link) {
	delete(s.links, l.attach.handle)
	maps.DeleteFunc(s.unsettled, func(_ uint32, d *sent) bool { return d.link == l })
	s.queue = slices.DeleteFunc(s.queue, func(q queuedTransfer) bool { return q.transfer.Handle == l.attach.handle })
}
