package servicebus

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
	"orderflow/workflow"
)

const (
	keyName = "RootManageSharedAccessKey"
	key     = "c2VjcmV0LXNlY3JldC1zZWNyZXQ="
)

var topics = Topics{Orders: "orders", Commands: "commands"}

// broker is a bus behind a listener on a loopback address, with one
// subscription, "all", to each of the two topics.
type broker struct {
	t      *testing.T
	bus    *localbus.Bus
	config busserver.Config
	addr   string
	stop   func()
	on     func(busserver.Event) busserver.Fault

	mu     sync.Mutex
	noted  []busserver.Event
	struck int // how often something went wrong
}

// serve starts a broker; on may be nil.
func serve(t *testing.T, on func(busserver.Event) busserver.Fault) *broker {
	t.Helper()
	return serveAt(t, time.Now, on)
}

// serveAt is serve for a broker with another clock.
func serveAt(t *testing.T, now func() time.Time, on func(busserver.Event) busserver.Fault) *broker {
	t.Helper()
	all := []localbus.Subscription{{Name: "all"}}
	bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), []localbus.Topic{
		{Name: topics.Orders, DuplicateDetection: time.Hour, Subscriptions: all},
		{Name: topics.Commands, DuplicateDetection: time.Hour, Subscriptions: all},
	}, now)
	require.NoError(t, err)
	b := &broker{t: t, bus: bus, addr: "127.0.0.1:0", on: on}
	b.config = busserver.Config{KeyName: keyName, Key: key, Now: time.Now, Faults: busserver.Faults{On: b.note}}
	b.start()
	t.Cleanup(func() {
		b.stop()
		require.NoError(t, bus.Close())
	})
	return b
}

// start listens, at the address that it had before if it was stopped.
func (b *broker) start() {
	b.t.Helper()
	server, err := busserver.New(b.bus, b.config)
	require.NoError(b.t, err)
	ln, err := net.Listen("tcp", b.addr)
	require.NoError(b.t, err)
	b.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(b.t, <-ended)
	})
}

func (b *broker) note(e busserver.Event) busserver.Fault {
	var f busserver.Fault
	if b.on != nil {
		f = b.on(e)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.noted = append(b.noted, e)
	if f != (busserver.Fault{}) {
		b.struck++
	}
	return f
}

// events are the moments so far.
func (b *broker) events() []busserver.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.noted)
}

// arrived is the IDs of each batch that came.
func (b *broker) arrived() (batches [][]string) {
	for _, e := range b.events() {
		if e.Moment == busserver.Arrived {
			batches = append(batches, ids(e.Messages))
		}
	}
	return batches
}

// sent is what a topic accepted, repeats included.
func (b *broker) sent(topic string) []localbus.Message {
	b.t.Helper()
	messages, err := b.bus.Sent(b.t.Context(), topic)
	require.NoError(b.t, err)
	return messages
}

// active is what is there to be received from a topic.
func (b *broker) active(topic string) []localbus.Message {
	b.t.Helper()
	messages, err := b.bus.Peek(b.t.Context(), topic, "all")
	require.NoError(b.t, err)
	return messages
}

func (b *broker) scheduled() []localbus.Message {
	b.t.Helper()
	messages, err := b.bus.Scheduled(b.t.Context(), topics.Orders)
	require.NoError(b.t, err)
	return messages
}

func ids(messages []localbus.Message) []string {
	list := make([]string, len(messages))
	for i, m := range messages {
		list[i] = m.MessageID
	}
	return list
}

func (b *broker) connection() string { return connection(b.addr, key) }

func connection(addr, key string) string {
	return fmt.Sprintf("Endpoint=sb://%s;SharedAccessKeyName=%s;SharedAccessKey=%s;UseDevelopmentEmulator=true", addr, keyName, key)
}

// sender is a sender over one client, closed with the test.
func sender(t *testing.T, connection string) *Sender {
	t.Helper()
	s, err := New(Connection{String: connection}, topics)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Second)
		defer cancel()
		require.NoError(t, s.Close(ctx))
	})
	return s
}

// within is a context for one call, which is to be quick.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// commands are the first n of an order, "order-42:1" and so on, with bodies of
// at least a size.
func commands(order string, n, size int) []workflow.Outgoing {
	list := make([]workflow.Outgoing, n)
	for i := range list {
		id := fmt.Sprintf("%s:%d", order, i+1)
		list[i] = workflow.Outgoing{
			ID: id, Type: workflow.CapturePayment, OrderID: order,
			Conversation: "conversation-of-" + order, ParentID: "parent-of-" + id, OriginID: "origin-of-" + order,
			Body: fmt.Appendf(nil, `{"orderId":%q,"n":%d,"note":"%s"}`, order, i+1, strings.Repeat("x", size)),
		}
	}
	return list
}

func deadline(order string, due time.Time) workflow.Outgoing {
	id := workflow.DeadlineID(order, workflow.PaymentTimeout, 1)
	return workflow.Outgoing{
		ID: id, Type: workflow.PaymentDeadlineExpired, OrderID: order, Purpose: workflow.PaymentTimeout, DueAt: due,
		Conversation: "conversation-of-" + order, ParentID: "parent-of-" + id, OriginID: "origin-of-" + order,
		Body: workflow.DeadlineBody(order, id, due),
	}
}

func names(messages []workflow.Outgoing) []string {
	var list []string
	for _, m := range messages {
		list = append(list, m.ID)
	}
	return list
}

// give sends messages that are to be accepted.
func give(t *testing.T, s *Sender, messages ...workflow.Outgoing) []int64 {
	t.Helper()
	sequences, err := s.Send(within(t, 10*time.Second), messages)
	require.NoError(t, err)
	require.Len(t, sequences, len(messages))
	return sequences
}

// every is On that answers each kth event of one moment with a fault, n times.
func every(k, n int, at busserver.Moment, f func() busserver.Fault) func(busserver.Event) busserver.Fault {
	var mu sync.Mutex
	var seen, struck int
	return func(e busserver.Event) busserver.Fault {
		mu.Lock()
		defer mu.Unlock()
		if e.Moment != at || struck == n {
			return busserver.Fault{}
		}
		if seen++; seen%k != 0 {
			return busserver.Fault{}
		}
		struck++
		return f()
	}
}

// has reports whether an event is about a message.
func has(e busserver.Event, id string) bool {
	return slices.ContainsFunc(e.Messages, func(m localbus.Message) bool { return m.MessageID == id })
}
