package amqp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// highWater is how many bytes may wait to be written before the connection
// takes nothing new from either side.
const highWater = 1 << 20

// conn is one connection. The loop owns what follows the channels; readFrames
// and writeFrames are its hands.
type conn struct {
	net     net.Conn
	reader  *bufio.Reader
	handler Handler
	options Options
	links   sync.WaitGroup // of ServeLink

	in      chan inbound  // frames of the client
	calls   chan func()   // wishes of links, run by the loop
	out     chan []byte   // what is to be written
	written chan struct{} // closed when nothing can be written any more
	done    chan struct{} // closed when the loop has ended

	peer     open
	maxFrame uint32 // of frames to the client
	pending  []byte // waits to be written
	sessions map[uint16]*session
	serving  int  // links whose ServeLink runs
	closing  bool // the client has sent close
	ended    bool // close was sent, or there is nobody to send it to
	err      error
}

// inbound is a frame of the client, or why there are no more.
type inbound struct {
	channel uint16
	body    performative // nil for an empty frame
	payload []byte
	err     error
}

// readFrames hands the client's frames to the loop. It waits for the loop, and
// so the client waits when the server is slow.
func (c *conn) readFrames() {
	for {
		in := c.readFrame()
		select {
		case c.in <- in:
		case <-c.done:
			return
		}
		if in.err != nil {
			return
		}
	}
}

func (c *conn) readFrame() inbound {
	f, err := readFrame(c.reader, c.options.MaxFrameSize)
	switch {
	case err != nil:
		return inbound{err: err}
	case f.kind != typeAMQP:
		return inbound{err: Errorf(FramingError, "a frame of type %d", f.kind)}
	case len(f.body) == 0:
		return inbound{}
	}
	in := inbound{channel: f.channel}
	in.body, in.payload, err = decodePerformative(f.body)
	if err != nil {
		in.err = Errorf(DecodeFailed, "%s", err)
	}
	return in
}

// writeFrames writes what the loop hands it. A client that does not read is
// cut off.
func (c *conn) writeFrames() {
	defer close(c.written)
	for b := range c.out {
		limit := time.AfterFunc(c.options.WriteTimeOut, func() { _ = c.net.Close() })
		_, err := c.net.Write(b)
		limit.Stop()
		if err != nil {
			_ = c.net.Close()
			return
		}
	}
}

// loop runs the connection until it has ended, and says why.
func (c *conn) loop(ctx, linksCtx context.Context) error {
	idle := time.NewTimer(2 * c.options.IdleTimeOut)
	defer idle.Stop()
	keepAlive := c.keepAlive()
	defer keepAlive.Stop()

	for !c.ended {
		in, calls, out := c.in, c.calls, c.out
		if len(c.pending) == 0 {
			out = nil
		} else if len(c.pending) > highWater {
			in, calls = nil, nil
		}
		select {
		case f := <-in:
			idle.Reset(2 * c.options.IdleTimeOut)
			c.handle(linksCtx, f)
		case call := <-calls:
			call()
		case out <- c.pending:
			c.pending = nil
		case <-keepAlive.C:
			c.write(0, nil, nil)
		case <-idle.C:
			c.fail(Errorf(ResourceLimitExceeded, "nothing arrived for %v", 2*c.options.IdleTimeOut))
		case <-c.written:
			c.ended, c.err = true, errors.New("amqp: the client cannot be written to")
		case <-ctx.Done():
			c.fail(Errorf(ConnectionForced, "the server is shutting down"))
		}
		if c.closing && c.serving == 0 && !c.ended {
			c.write(0, closing{}, nil)
			c.ended = true
		}
	}
	return c.err
}

// keepAlive ticks often enough for the client's idle time-out (2.4.5).
func (c *conn) keepAlive() *time.Ticker {
	if c.peer.IdleTimeOut == 0 {
		t := time.NewTicker(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTicker(max(time.Duration(c.peer.IdleTimeOut)*time.Millisecond/2, time.Millisecond))
}

// flush writes what is left and ends writeFrames.
func (c *conn) flush() {
	if len(c.pending) > 0 {
		select {
		case c.out <- c.pending:
		case <-c.written:
		}
	}
	close(c.out)
	<-c.written
}

// call has the loop run f, and waits for it. It is how goroutines of links
// reach the connection's state.
func (c *conn) call(f func()) error {
	ran := make(chan struct{})
	select {
	case c.calls <- func() { f(); close(ran) }:
		<-ran
		return nil
	case <-c.done:
		return ErrDetached
	}
}

// The rest runs in the loop.

// write sends a frame. One that is too large for the client ends the
// connection: only transfers can be cut in pieces.
func (c *conn) write(channel uint16, p performative, payload []byte) {
	if c.ended {
		return
	}
	before := len(c.pending)
	c.pending = appendFrame(c.pending, typeAMQP, channel, p, payload)
	if size := len(c.pending) - before; uint64(size) > uint64(c.maxFrame) {
		c.pending = c.pending[:before]
		c.fail(Errorf(FramingError, "a frame of %d bytes is too large for the client's limit of %d", size, c.maxFrame))
	}
}

// fail ends the connection for a reason (2.7.9).
func (c *conn) fail(e *Error) {
	if c.ended {
		return
	}
	if c.err == nil {
		c.err = e
	}
	c.write(0, closing{Error: &Error{Condition: e.Condition, Description: shorten(e.Description)}}, nil)
	c.ended = true
}

// shorten keeps a description within the smallest frame.
func shorten(s string) string {
	if len(s) > 256 {
		return s[:256]
	}
	return s
}

func (c *conn) handle(linksCtx context.Context, f inbound) {
	if f.err != nil {
		c.lost(f.err)
		return
	}
	switch p := f.body.(type) {
	case nil: // keeps the connection alive
	case open:
		c.fail(Errorf(IllegalState, "open was sent twice"))
	case begin:
		c.beginSession(f.channel, p)
	case closing:
		c.closing = true
		for _, s := range c.sessions {
			s.cancelLinks()
		}
	default:
		s := c.sessions[f.channel]
		if s == nil {
			c.fail(Errorf(NotAllowed, "channel %d has no session", f.channel))
			return
		}
		s.handle(linksCtx, f)
	}
}

// lost ends the connection because nothing more can be read from it.
func (c *conn) lost(err error) {
	var e *Error
	if errors.As(err, &e) {
		c.fail(e)
		return
	}
	c.ended = true
	if !errors.Is(err, io.EOF) || !c.closing {
		c.err = err
	}
}
