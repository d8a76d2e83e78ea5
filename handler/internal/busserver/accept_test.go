package busserver_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
)

// crowded is a listener for which the system has no more descriptors at first.
type crowded struct {
	net.Listener
	calls atomic.Int32
}

func (c *crowded) Accept() (net.Conn, error) {
	if c.calls.Add(1) < 3 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return c.Listener.Accept()
}

func TestTooManyConnectionsDoNotEndTheBus(t *testing.T) {
	t.Parallel()
	bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), []localbus.Topic{orders()}, time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bus.Close()) })
	s, err := busserver.New(bus, busserver.Config{})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, &crowded{Listener: ln}) }()
	within, c := client(t, connectionString(ln.Addr()))
	sender, err := c.NewSender("orders", nil)
	require.NoError(t, err)
	require.NoError(t, sender.SendMessage(within, message("s/1"), nil))
	cancel()
	require.NoError(t, <-served)
}
