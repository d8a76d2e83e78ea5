package busserver

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/localbus"
)

func operations() []string {
	return []string{
		"com.microsoft:schedule-message", "com.microsoft:cancel-scheduled-message", "com.microsoft:peek-message",
		"com.microsoft:get-message-sessions", "com.microsoft:renew-lock", "com.microsoft:renew-session-lock",
		"com.microsoft:get-session-state", "com.microsoft:set-session-state",
		"com.microsoft:receive-by-sequence-number", "com.microsoft:update-disposition",
	}
}

// solitary is a connection without links.
func solitary(t testing.TB) (*connection, address) {
	bus, err := localbus.Open(filepath.Join(t.TempDir(), "bus.db"), []localbus.Topic{{
		Name: "orders", Subscriptions: []localbus.Subscription{{Name: "billing"}},
	}}, time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, bus.Close()) })
	server, err := New(bus, Config{})
	require.NoError(t, err)
	return newConnection(server, nil), address{topic: "orders", subscription: "billing"}
}

func TestARequestThatAsksForNothingIsRefused(t *testing.T) {
	t.Parallel()
	c, billing := solitary(t)
	for _, operation := range operations() {
		for _, entity := range []address{billing, {topic: "orders"}, {topic: "orders", subscription: "billing", deadLetters: true}} {
			r := c.manage(t.Context(), entity, request{operation: operation})
			require.NotEqual(t, int32(200), r.status, operation)
			require.NotEmpty(t, r.condition, operation)
		}
	}
	r := c.manage(t.Context(), billing, request{operation: "com.microsoft:no-such-thing"})
	require.Equal(t, int32(501), r.status)
	require.Equal(t, int32(501), c.putToken(request{operation: "delete-token"}).status)
}

func TestAListOfTheWrongTypeIsRefused(t *testing.T) {
	t.Parallel()
	c, billing := solitary(t)
	body := amqp.Map{{Key: "sequence-numbers", Value: []any{int64(1), "two"}}}
	r := c.manage(t.Context(), billing, request{operation: "com.microsoft:cancel-scheduled-message", body: body})
	require.Equal(t, int32(400), r.status)
	require.Equal(t, condArgument, r.condition)
}

// FuzzRequest sees that no message to a $management node or a topic panics.
func FuzzRequest(f *testing.F) {
	scheduled := amqp.Message{
		Properties:            &amqp.Properties{MessageID: "m"},
		ApplicationProperties: amqp.Map{{Key: "n", Value: uint64(1)}},
		Annotations:           amqp.Map{{Key: amqp.Symbol(annScheduled), Value: time.UnixMilli(1 << 42)}},
		Data:                  [][]byte{{1}},
	}
	for _, body := range []amqp.Map{
		{{Key: "messages", Value: []any{amqp.Map{{Key: "message", Value: scheduled.Append(nil)}}}}},
		{{Key: "sequence-numbers", Value: amqp.ArrayOf([]int64{1})}},
		{{Key: "lock-tokens", Value: amqp.ArrayOf([]amqp.UUID{{1}})}, {Key: "disposition-status", Value: "completed"}},
		{{Key: "from-sequence-number", Value: int64(-1)}, {Key: "message-count", Value: int32(10)}},
		{{Key: "skip", Value: int32(-5)}, {Key: "top", Value: int32(100)}},
		{{Key: "session-id", Value: "s"}, {Key: "session-state", Value: []byte{1}}},
	} {
		f.Add((&amqp.Message{Value: body, HasValue: true}).Append(nil))
	}
	f.Add(scheduled.Append(nil))
	c, billing := solitary(f)
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = unpack(b, 0)
		_, _ = unpack(b, batchFormat)
		m, err := amqp.DecodeMessage(b)
		if err != nil {
			return
		}
		for _, operation := range operations() {
			for _, entity := range []address{billing, {topic: "orders"}} {
				r := c.manage(context.Background(), entity, request{operation: operation, body: m.Value})
				if answer, err := amqp.DecodeMessage(r.encode(entity, "id")); err != nil || answer.Properties == nil {
					panic(err)
				}
			}
		}
	})
}
