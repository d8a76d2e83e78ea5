package busserver_test

import (
	"context"
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

func orders() localbus.Topic {
	return localbus.Topic{Name: "Orders", Subscriptions: []localbus.Subscription{{Name: "Billing"}}}
}

// client is a client with a deadline for what it does.
func client(t *testing.T, connection string) (context.Context, *azservicebus.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx, dial(t, connection)
}

func TestATokenOfAnotherKeyIsRefused(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, secured(), orders())
	for name, wrong := range map[string]string{
		"key":  strings.Replace(connectionString(addr), key, "b3RoZXI=", 1),
		"name": strings.Replace(connectionString(addr), keyName, "Guest", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, c := client(t, wrong)
			sender, err := c.NewSender("orders", nil)
			require.NoError(t, err)
			requireCode(t, sender.SendMessage(ctx, message("s/1"), nil), azservicebus.CodeUnauthorizedAccess)
		})
	}
}

func TestATokenThatHasExpiredIsRefused(t *testing.T) {
	t.Parallel()
	config := secured()
	config.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	_, addr := serve(t, config, orders())
	ctx, c := client(t, connectionString(addr))
	sender, err := c.NewSender("orders", nil)
	require.NoError(t, err)
	requireCode(t, sender.SendMessage(ctx, message("s/1"), nil), azservicebus.CodeUnauthorizedAccess)
}

func TestWithoutAKeyAnyTokenWillDo(t *testing.T) {
	t.Parallel()
	bus, addr := serve(t, busserver.Config{}, orders())
	ctx, c := client(t, connectionString(addr))
	sender, err := c.NewSender("orders", nil)
	require.NoError(t, err)
	require.NoError(t, sender.SendMessage(ctx, message("s/1"), nil))
	messages, err := bus.Peek(ctx, "Orders", "Billing")
	require.NoError(t, err)
	require.Len(t, messages, 1)
}

func TestEntitiesAreFoundWhateverTheCaseOfTheirNames(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, secured(), orders())
	ctx, c := client(t, connectionString(addr))
	s, err := c.AcceptSessionForSubscription(ctx, "oRDERS", "bILLING", "S", nil)
	require.NoError(t, err)
	require.Equal(t, "S", s.SessionID(), "the case of a session counts")
}

func TestAMessageWithoutASessionIsRefused(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, secured(), orders())
	ctx, c := client(t, connectionString(addr))
	sender, err := c.NewSender("orders", nil)
	require.NoError(t, err)
	require.ErrorContains(t, sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil), "SessionId was not set")
	_, err = sender.ScheduleMessages(ctx, []*azservicebus.Message{{Body: []byte("x")}}, time.Now().Add(time.Hour), nil)
	require.ErrorContains(t, err, "SessionId was not set")
	batch, err := sender.NewMessageBatch(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, batch.AddMessage(message("s/1"), nil))
	require.NoError(t, batch.AddMessage(&azservicebus.Message{Body: []byte("x")}, nil))
	require.ErrorContains(t, sender.SendMessageBatch(ctx, batch, nil), "SessionId was not set", "all of a batch or none")
}

func TestABodyThatIsNotBytesIsRefused(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, secured(), orders())
	ctx, c := client(t, connectionString(addr))
	sender, err := c.NewSender("orders", nil)
	require.NoError(t, err)
	err = sender.SendAMQPAnnotatedMessage(ctx, &azservicebus.AMQPAnnotatedMessage{Body: azservicebus.AMQPAnnotatedMessageBody{Value: "text"}}, nil)
	require.ErrorContains(t, err, "data sections")
}

func TestAPropertyOfAnyWidthOfNumberIsKept(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, secured(), orders())
	ctx, c := client(t, connectionString(addr))
	sender, err := c.NewSender("orders", nil)
	require.NoError(t, err)
	m := message("s/1")
	m.ApplicationProperties = map[string]any{
		"int8": int8(-8), "uint16": uint16(16), "uint32": uint32(32), "uint64": uint64(64), "float32": float32(0.5),
		"bytes": []byte{1, 2}, "time": time.UnixMilli(1000).UTC(), "nothing": nil,
	}
	require.NoError(t, sender.SendMessage(ctx, m, nil))
	s, err := c.AcceptNextSessionForSubscription(ctx, "orders", "billing", nil)
	require.NoError(t, err)
	messages, err := s.ReceiveMessages(ctx, 1, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"int8": int32(-8), "uint16": int32(16), "uint32": int64(32), "uint64": int64(64), "float32": 0.5,
		"bytes": []byte{1, 2}, "time": time.UnixMilli(1000), // the client gives local time
	}, messages[0].ApplicationProperties)
}

func TestAConnectionThatBreaksGivesItsSessionsBack(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, secured(), orders())
	var conn net.Conn
	c, err := azservicebus.NewClientFromConnectionString(
		strings.Replace(connectionString(addr), ";UseDevelopmentEmulator=true", "", 1),
		&azservicebus.ClientOptions{NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			var err error
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr.String())
			return conn, err
		}})
	require.NoError(t, err)
	ctx, other := client(t, connectionString(addr))
	_, err = c.AcceptSessionForSubscription(ctx, "orders", "billing", "s", nil)
	require.NoError(t, err)
	_, err = other.AcceptSessionForSubscription(ctx, "orders", "billing", "s", nil)
	require.ErrorContains(t, err, "session-cannot-be-locked")
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool {
		s, err := other.AcceptSessionForSubscription(ctx, "orders", "billing", "s", nil)
		return err == nil && s != nil
	}, 10*time.Second, 10*time.Millisecond)
}

func TestADeadLetterCannotBeDeadLettered(t *testing.T) {
	t.Parallel()
	w, _ := faulty(t, nil, localbus.Topic{})
	w.send(t, "s/1")
	s := w.accept(t, "s")
	require.NoError(t, s.DeadLetterMessage(w.ctx, w.receive(t, s), nil))
	r := w.deadLetters(t)
	require.ErrorContains(t, r.DeadLetterMessage(w.ctx, w.receive(t, r), nil), "cannot be dead-lettered")
}

func TestTopicsAreNotReceivedFromAndSubscriptionsNotSentTo(t *testing.T) {
	t.Parallel()
	w, _ := faulty(t, nil, localbus.Topic{})
	r, err := w.client.NewReceiverForQueue(w.topic, nil)
	require.NoError(t, err)
	_, err = r.ReceiveMessages(w.ctx, 1, nil)
	require.ErrorContains(t, err, "not from a topic")
	sender, err := w.client.NewSender(w.topic+"/Subscriptions/"+mainSubscription, nil)
	require.NoError(t, err)
	require.ErrorContains(t, sender.SendMessage(w.ctx, message("s/1"), nil), "not to a subscription")
}

// The client releases what comes when nobody is receiving any more.
func TestWhatComesLateIsReleasedInOrderAndNotCounted(t *testing.T) {
	t.Parallel()
	settling := make(chan string, 1000)
	w, _ := faulty(t, func(e busserver.Event) busserver.Fault {
		if e.Moment == busserver.Settling {
			select {
			case settling <- e.Messages[0].MessageID:
			default:
			}
		}
		return busserver.Fault{}
	}, localbus.Topic{})
	s := w.accept(t, "s")
	ctx, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
	defer cancel()
	_, err := s.ReceiveMessages(ctx, 5, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	w.send(t, "s/1", "s/2")
	for range 5 { // every delivery that the credit of five allows
		<-settling
	}
	for _, id := range []string{"s/1", "s/2"} {
		m := w.receive(t, s)
		require.Equal(t, id, m.MessageID)
		require.Equal(t, uint32(1), m.DeliveryCount)
		require.NoError(t, s.CompleteMessage(w.ctx, m, nil))
	}
}

func TestAServerListensOnALoopbackAddressOnly(t *testing.T) {
	t.Parallel()
	bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), nil, time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bus.Close()) })
	server, err := busserver.New(bus, busserver.Config{})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	require.ErrorContains(t, server.Serve(t.Context(), ln), "not a loopback address")
}

func TestAKeyNeedsAClock(t *testing.T) {
	t.Parallel()
	bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), nil, time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bus.Close()) })
	_, err = busserver.New(bus, busserver.Config{Key: "k"})
	require.Error(t, err)
}
