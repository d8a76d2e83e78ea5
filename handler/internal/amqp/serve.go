package amqp

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Handler is the layer above.
type Handler interface {
	// ServeLink serves one link. It runs in a goroutine of its own, from the
	// client's attach, which it has to answer with Accept or Refuse, until it
	// returns; then the link is detached if it is not yet. The context ends
	// when the client detaches the link, or session or connection are gone.
	// The client's detach is answered after ServeLink has returned: what the
	// link held is free by then.
	ServeLink(ctx context.Context, l *Link)
}

// Options bound what one connection may take. Zero fields have defaults.
type Options struct {
	// ContainerID is the server's name.
	ContainerID string
	// MaxFrameSize is the largest frame sent or taken, in bytes; 65,536.
	MaxFrameSize uint32
	// MaxSessions is how many sessions may be open at once; 4,096.
	MaxSessions uint16
	// MaxLinks is how many links a session may have; 256.
	MaxLinks uint32
	// IdleTimeOut is what the client is told: a connection on which nothing
	// arrives for twice as long is closed (2.4.5); 2 minutes.
	IdleTimeOut time.Duration
	// HandshakeTimeOut is how long a connection may take to open; 10 seconds.
	HandshakeTimeOut time.Duration
	// WriteTimeOut is how long a client may leave what it is sent unread; 30
	// seconds.
	WriteTimeOut time.Duration
}

func (o Options) withDefaults() Options {
	fill(&o.ContainerID, "server")
	fill(&o.MaxFrameSize, 65536)
	fill(&o.MaxSessions, 4096)
	fill(&o.MaxLinks, 256)
	fill(&o.IdleTimeOut, 2*time.Minute)
	fill(&o.HandshakeTimeOut, 10*time.Second)
	fill(&o.WriteTimeOut, 30*time.Second)
	return o
}

func fill[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

// Serve serves one connection until either side ends it, and closes it. It
// returns when no ServeLink runs any more. When ctx ends, the client is told
// that the connection is closed by force. The error says why the connection
// ended, nil when the client closed it in good order.
func Serve(ctx context.Context, nc net.Conn, h Handler, o Options) error {
	c := &conn{
		net:      nc,
		reader:   bufio.NewReader(nc),
		handler:  h,
		options:  o.withDefaults(),
		in:       make(chan inbound),
		calls:    make(chan func()),
		out:      make(chan []byte),
		written:  make(chan struct{}),
		done:     make(chan struct{}),
		sessions: map[uint16]*session{},
	}
	if err := c.begin(ctx); err != nil {
		_ = nc.Close()
		return fmt.Errorf("open connection: %w", err)
	}

	var helpers sync.WaitGroup
	helpers.Go(c.readFrames)
	helpers.Go(c.writeFrames)
	linksCtx, cancelLinks := context.WithCancel(ctx)
	err := c.loop(ctx, linksCtx)
	close(c.done)
	cancelLinks()
	if ctx.Err() != nil { // who does not read must not hold up the end
		defer time.AfterFunc(lastWords, func() { _ = nc.Close() }).Stop()
	}
	c.flush()
	_ = nc.Close()
	helpers.Wait()
	c.links.Wait()
	return err
}

// lastWords is how long a client may take to hear that the server stops.
const lastWords = time.Second

// begin opens the connection, for no longer than HandshakeTimeOut.
func (c *conn) begin(ctx context.Context) error {
	limit := time.AfterFunc(c.options.HandshakeTimeOut, func() { _ = c.net.Close() })
	defer limit.Stop()
	defer context.AfterFunc(ctx, func() { _ = c.net.Close() })()
	return c.handshake()
}
