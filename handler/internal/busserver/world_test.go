package busserver_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
)

const (
	keyName = "RootManageSharedAccessKey"
	key     = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
)

// connectionString is that of a server at an address, for clients that are to
// use plain TCP.
func connectionString(addr net.Addr) string {
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true", addr, keyName, key)
}

// serve serves a new bus with the topics until the test ends.
func serve(t *testing.T, config busserver.Config, topics ...localbus.Topic) (*localbus.Bus, net.Addr) {
	t.Helper()
	bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), topics, time.Now)
	require.NoError(t, err)
	server, err := busserver.New(bus, config)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, bus.Close())
	})
	return bus, ln.Addr()
}

// secured is a server's configuration with the key of connectionString.
func secured() busserver.Config {
	return busserver.Config{KeyName: keyName, Key: key, Now: time.Now}
}

// dial is a client of its own connection.
func dial(t *testing.T, connection string) *azservicebus.Client {
	t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(connection, &azservicebus.ClientOptions{
		RetryOptions: azservicebus.RetryOptions{MaxRetries: 2, RetryDelay: 10 * time.Millisecond, MaxRetryDelay: 50 * time.Millisecond},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.WithoutCancel(t.Context()))) })
	return client
}

// world is where a scenario takes place: a topic with the subscription "main"
// and perhaps others.
type world struct {
	ctx        context.Context
	connection string
	client     *azservicebus.Client
	topic      string
	lock       time.Duration // of the subscriptions
}

const mainSubscription = "main"

func (w world) sender(t *testing.T) *azservicebus.Sender {
	t.Helper()
	sender, err := w.client.NewSender(w.topic, nil)
	require.NoError(t, err)
	return sender
}

// send sends messages without bodies, named session/id.
func (w world) send(t *testing.T, names ...string) {
	t.Helper()
	sender := w.sender(t)
	for _, name := range names {
		require.NoError(t, sender.SendMessage(w.ctx, message(name), nil))
	}
	require.NoError(t, sender.Close(w.ctx))
}

func message(name string) *azservicebus.Message {
	session, _, _ := strings.Cut(name, "/")
	return &azservicebus.Message{MessageID: &name, SessionID: &session, Body: []byte(name)}
}

func (w world) accept(t *testing.T, session string) *azservicebus.SessionReceiver {
	t.Helper()
	r, err := w.client.AcceptSessionForSubscription(w.ctx, w.topic, mainSubscription, session, nil)
	require.NoError(t, err)
	return r
}

func (w world) next(t *testing.T) *azservicebus.SessionReceiver {
	t.Helper()
	r, err := w.client.AcceptNextSessionForSubscription(w.ctx, w.topic, mainSubscription, nil)
	require.NoError(t, err)
	return r
}

func (w world) deadLetters(t *testing.T) *azservicebus.Receiver {
	t.Helper()
	r, err := w.client.NewReceiverForSubscription(w.topic, mainSubscription, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
	require.NoError(t, err)
	return r
}

type peeks interface {
	PeekMessages(context.Context, int, *azservicebus.PeekMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

// peeked are the IDs of the messages that a receiver can see.
func (w world) peeked(t *testing.T, r peeks) []string {
	t.Helper()
	messages, err := r.PeekMessages(w.ctx, 100, nil)
	require.NoError(t, err)
	var ids []string
	for _, m := range messages {
		ids = append(ids, m.MessageID)
	}
	return ids
}

type receives interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

func (w world) receive(t *testing.T, r receives) *azservicebus.ReceivedMessage {
	t.Helper()
	messages, err := r.ReceiveMessages(w.ctx, 1, nil)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	return messages[0]
}

func requireCode(t *testing.T, err error, code azservicebus.Code) {
	t.Helper()
	var e *azservicebus.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, code, e.Code, "%v", err)
}
