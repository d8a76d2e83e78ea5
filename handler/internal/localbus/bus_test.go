package localbus

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	orders  = "orders"
	billing = "billing" // takes everything
)

// oneQueue is a topic with one subscription that takes everything.
func oneQueue() []Topic {
	return []Topic{{Name: orders, Subscriptions: []Subscription{{Name: billing, MaxDeliveryCount: 3}}}}
}

// bubble runs the test in virtual time, which starts at whole seconds.
func bubble(t *testing.T, topics []Topic, test func(t *testing.T, b *Bus)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(t, openBus(t, newFile(t), topics))
	})
}

func newFile(t *testing.T) string {
	return filepath.Join(t.TempDir(), "bus.db")
}

func openBus(t *testing.T, path string, topics []Topic) *Bus {
	t.Helper()
	b, err := Open(path, topics, time.Now)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// pass lets virtual time pass and everything that it brings happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// message is a message of a session; its ID is also its body.
func message(session, id string) Message {
	return Message{MessageID: id, SessionID: session, Body: []byte(id)}
}

func send(t *testing.T, b *Bus, msgs ...Message) []int64 {
	t.Helper()
	sequences, err := b.Send(t.Context(), orders, msgs...)
	require.NoError(t, err)
	require.Len(t, sequences, len(msgs))
	return sequences
}

func accept(t *testing.T, b *Bus) *Session {
	t.Helper()
	s, err := b.AcceptNextSession(t.Context(), orders, billing)
	require.NoError(t, err)
	return s
}

func receive(t *testing.T, s *Session) *Message {
	t.Helper()
	m, err := s.Receive(t.Context())
	require.NoError(t, err)
	return m
}

func receiveAll(t *testing.T, s *Session, n int) []*Message {
	t.Helper()
	got := make([]*Message, n)
	for i := range got {
		got[i] = receive(t, s)
	}
	return got
}

// soon ends at once in virtual time.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func requireEmpty(t *testing.T, s *Session) {
	t.Helper()
	_, err := s.Receive(soon(t))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func requireNoSession(t *testing.T, b *Bus) {
	t.Helper()
	_, err := b.AcceptNextSession(soon(t), orders, billing)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func peeked(t *testing.T, b *Bus) []string {
	t.Helper()
	messages, err := b.Peek(t.Context(), orders, billing)
	require.NoError(t, err)
	return ids(messages)
}

func ids(messages []Message) []string {
	var ids []string
	for _, m := range messages {
		ids = append(ids, m.MessageID)
	}
	return ids
}

func pointed(messages []*Message) []string {
	var ids []string
	for _, m := range messages {
		ids = append(ids, m.MessageID)
	}
	return ids
}

func dead(t *testing.T, b *Bus) []Message {
	t.Helper()
	messages, err := b.DeadLetters(t.Context(), orders, billing)
	require.NoError(t, err)
	return messages
}

func numbered(session string, n int) []Message {
	var messages []Message
	for i := range n {
		messages = append(messages, message(session, fmt.Sprintf("%s-%d", session, i+1)))
	}
	return messages
}
