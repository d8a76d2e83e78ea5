package busserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

// maxMessageSize is what a client is told about the largest message or batch,
// in bytes: the limit of the Standard tier.
const maxMessageSize = 256 << 10

// acceptPause is the pause when there are too many connections for the system.
const acceptPause = 100 * time.Millisecond

// Config is how a bus is served. The zero value lets in everyone who can reach
// a loopback address.
type Config struct {
	// KeyName and Key are the shared access key that tokens must be signed
	// with. With an empty Key any token will do.
	KeyName, Key string
	// Now says when a token has expired; needed with a Key.
	Now func() time.Time
	// AnyAddress allows listening on addresses that others can reach.
	AnyAddress bool
	// Log takes why connections ended; nil for nothing.
	Log *slog.Logger
	// Faults are for tests.
	Faults Faults
}

// Server serves one bus.
type Server struct {
	bus    *localbus.Bus
	config Config
	topics map[string]localbus.Topic // by lower-case name
}

// New makes a server. The bus stays the caller's to close, after Serve.
func New(bus *localbus.Bus, c Config) (*Server, error) {
	if c.Key != "" && c.Now == nil {
		return nil, errors.New("busserver: a key needs a clock")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{bus: bus, config: c, topics: map[string]localbus.Topic{}}
	for _, t := range bus.Topics() {
		s.topics[strings.ToLower(t.Name)] = t
	}
	return s, nil
}

// Serve takes connections until ctx ends or the listener fails. It closes the
// listener and every connection, and returns when nothing of it runs any more;
// nil when ctx has ended.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer func() { _ = ln.Close() }()
	if a, ok := ln.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() && !s.config.AnyAddress {
		return fmt.Errorf("serve bus: %s is not a loopback address", a)
	}
	ctx, cancel := context.WithCancel(ctx)
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		nc, err := ln.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			s.config.Log.WarnContext(ctx, "no connection can be taken now", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-ctx.Done():
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("serve bus: %w", err)
		}
		connections.Go(func() { s.ServeConn(ctx, nc) })
	}
}

// ServeConn serves one connection until it ends, and closes it.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) {
	c := newConnection(s, nc)
	err := amqp.Serve(ctx, nc, c, amqp.Options{ContainerID: "orderflow-bus"})
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		s.config.Log.DebugContext(ctx, "bus connection ended", "error", err)
	}
}
