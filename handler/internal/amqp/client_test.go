package amqp

import (
	"bufio"
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// client is a hand-written client, just enough to say and hear any frame.
type client struct {
	t      *testing.T
	nc     net.Conn
	reader *bufio.Reader
	frames chan inbound // closed at the end of the connection
	served chan error   // what Serve returned
	cancel context.CancelFunc
}

// handlerFunc is a Handler of one function.
type handlerFunc func(context.Context, *Link)

func (f handlerFunc) ServeLink(ctx context.Context, l *Link) { f(ctx, l) }

// bubble runs a test in virtual time, in which what hangs is noticed at once.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Parallel()
	synctest.Test(t, f)
}

// pipe has a server serve one end of a pipe.
func pipe(t *testing.T, h Handler, o Options) *client {
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := &client{t: t, nc: near, reader: bufio.NewReader(near), served: make(chan error, 1), cancel: cancel}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		c.served <- Serve(ctx, far, h, o)
	}()
	t.Cleanup(func() {
		cancel()
		_ = near.Close()
		<-stopped
	})
	return c
}

// connect opens a connection with a session on channel 0.
func connect(t *testing.T, h Handler, o Options, with ...func(*open)) *client {
	c := pipe(t, h, o)
	c.write(protocolHeader(protocolAMQP))
	c.readHeader(protocolAMQP)
	mine := open{ContainerID: "client", MaxFrameSize: 65536, ChannelMax: 10}
	for _, f := range with {
		f(&mine)
	}
	c.send(0, mine)
	c.read()
	expect[open](c)
	c.begin(0, 1000)
	return c
}

func (c *client) begin(channel uint16, window uint32) begin {
	c.send(channel, begin{IncomingWindow: window, OutgoingWindow: 1000, HandleMax: 100})
	return expect[begin](c)
}

// read hands over the server's frames from here on.
func (c *client) read() {
	c.frames = make(chan inbound, 1000)
	go func() {
		defer close(c.frames)
		for {
			f, err := readFrame(c.reader, 1<<20)
			if err != nil {
				return
			}
			in := inbound{channel: f.channel}
			if len(f.body) > 0 {
				if in.body, in.payload, err = decodePerformative(f.body); err != nil {
					return
				}
			}
			c.frames <- in
		}
	}()
}

func (c *client) write(b []byte) {
	c.t.Helper()
	_, err := c.nc.Write(b)
	require.NoError(c.t, err)
}

func (c *client) readHeader(protocol byte) {
	c.t.Helper()
	got := make([]byte, 8)
	_, err := c.reader.Read(got)
	require.NoError(c.t, err)
	require.Equal(c.t, protocolHeader(protocol), got)
}

func (c *client) send(channel uint16, p performative, payload ...byte) {
	c.t.Helper()
	c.write(appendFrame(nil, typeAMQP, channel, p, payload))
}

// next is the server's next frame.
func (c *client) next() inbound {
	c.t.Helper()
	in, ok := <-c.frames
	require.True(c.t, ok, "the connection is closed")
	return in
}

// quiet sees that the server says nothing more.
func (c *client) quiet() {
	c.t.Helper()
	synctest.Wait()
	require.Empty(c.t, c.frames)
}

// expect is the server's next frame, which must be a P.
func expect[P performative](c *client) P {
	c.t.Helper()
	in := c.next()
	p, ok := in.body.(P)
	require.True(c.t, ok, "%T %+v", in.body, in.body)
	return p
}

// sends attaches a link on which the client sends.
func (c *client) sends(handle uint32) Attach {
	c.t.Helper()
	zero := uint32(0)
	c.send(0, Attach{
		Name: "out", handle: handle, Role: RoleSender, SndSettleMode: senderMixed,
		Source: &Source{}, Target: &Target{Address: "q"}, initialDeliveryCount: &zero,
	})
	return expect[Attach](c)
}

// receives attaches a link on which the client receives.
func (c *client) receives(handle uint32, with ...func(*Attach)) Attach {
	c.t.Helper()
	a := Attach{Name: "in", handle: handle, Role: RoleReceiver, RcvSettleMode: ReceiverSecond, Source: &Source{Address: "q"}, Target: &Target{}}
	for _, f := range with {
		f(&a)
	}
	c.send(0, a)
	return expect[Attach](c)
}

// grant gives credit for deliveries after the first known ones.
func (c *client) grant(handle, known, credit uint32) {
	c.t.Helper()
	c.send(0, flow{NextIncomingID: &known, IncomingWindow: 1000, OutgoingWindow: 1000, Handle: &handle, DeliveryCount: &known, LinkCredit: &credit})
}

// deliver sends one delivery in one frame.
func (c *client) deliver(handle, id uint32, payload string) {
	c.t.Helper()
	c.send(0, transfer{Handle: handle, DeliveryID: &id, DeliveryTag: []byte{byte(id)}}, []byte(payload)...)
}

// requireClosed sees that the server closes the connection with an error.
func (c *client) requireClosed(condition Symbol) {
	c.t.Helper()
	for {
		in := c.next()
		if p, ok := in.body.(closing); ok {
			require.NotNil(c.t, p.Error)
			require.Equal(c.t, condition, p.Error.Condition, p.Error.Description)
			break
		}
	}
	var e *Error
	require.ErrorAs(c.t, <-c.served, &e)
	require.Equal(c.t, condition, e.Condition)
}

// acceptAll takes every message and accepts it.
func acceptAll(credit uint32) handlerFunc {
	return func(ctx context.Context, l *Link) {
		if l.Accept(Reply{Credit: credit, MaxMessageSize: 1000}) != nil {
			return
		}
		for {
			d, err := l.Next(ctx)
			if err != nil {
				return
			}
			_ = d.Settle(Accepted{})
		}
	}
}

// offers delivers the messages as the client wants them, and answers outcomes.
func offers(messages ...string) handlerFunc {
	return func(ctx context.Context, l *Link) {
		if l.Accept(Reply{}) != nil {
			return
		}
		for len(messages) > 0 {
			wanted, err := l.Credit(ctx)
			if err != nil {
				return
			}
			if wanted.Err() != nil {
				_ = l.Drained()
				continue
			}
			if l.Send(ctx, Outgoing{Tag: []byte{byte(len(messages))}, Payload: []byte(messages[0])}) == nil {
				messages = messages[1:]
			}
		}
		for {
			wanted, err := l.Credit(ctx)
			if err != nil {
				return
			}
			<-wanted.Done()
			_ = l.Drained()
		}
	}
}
