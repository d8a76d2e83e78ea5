package busserver_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"net"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
)

// A message's whole way with the Go client: sent, its session accepted,
// received, completed, and the session closed.
func BenchmarkRoundTrip(b *testing.B) {
	bus, err := localbus.Open(filepath.Join(b.TempDir(), "bus.db"), []localbus.Topic{orders()}, time.Now)
	require.NoError(b, err)
	server, err := busserver.New(bus, busserver.Config{})
	require.NoError(b, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln) }()
	client, err := azservicebus.NewClientFromConnectionString(connectionString(ln.Addr()), nil)
	require.NoError(b, err)
	sender, err := client.NewSender("orders", nil)
	require.NoError(b, err)

	for n := 0; b.Loop(); n++ {
		require.NoError(b, sender.SendMessage(ctx, message(fmt.Sprintf("s-%d/1", n)), nil))
		s, err := client.AcceptNextSessionForSubscription(ctx, "orders", "billing", nil)
		require.NoError(b, err)
		messages, err := s.ReceiveMessages(ctx, 1, nil)
		require.NoError(b, err)
		require.NoError(b, s.CompleteMessage(ctx, messages[0], nil))
		require.NoError(b, s.Close(ctx))
	}

	require.NoError(b, client.Close(ctx))
	cancel()
	require.NoError(b, <-served)
	require.NoError(b, bus.Close())
}
