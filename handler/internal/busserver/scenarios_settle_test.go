package busserver_test

import (
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/stretchr/testify/require"
)

func completed(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s := w.accept(t, "s")
	require.NoError(t, s.CompleteMessage(w.ctx, w.receive(t, s), nil))
	require.Equal(t, []string{"s/2"}, w.peeked(t, s))
}

func abandoned(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s := w.accept(t, "s")
	require.NoError(t, s.AbandonMessage(w.ctx, w.receive(t, s), nil))
	m := w.receive(t, s)
	require.Equal(t, "s/1", m.MessageID, "it stays before the others of its session")
	require.Equal(t, uint32(2), m.DeliveryCount)
}

func deadLettered(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s := w.accept(t, "s")
	reason, description := "Rejected", "the body is not JSON"
	require.NoError(t, s.DeadLetterMessage(w.ctx, w.receive(t, s), &azservicebus.DeadLetterOptions{Reason: &reason, ErrorDescription: &description}))
	require.Equal(t, "s/2", w.receive(t, s).MessageID, "the session goes on")
	r := w.deadLetters(t)
	m := w.receive(t, r)
	require.Equal(t, "s/1", m.MessageID)
	require.Equal(t, reason, *m.DeadLetterReason)
	require.Equal(t, description, *m.DeadLetterErrorDescription)
	require.NoError(t, r.CompleteMessage(w.ctx, m, nil))
	require.Empty(t, w.peeked(t, r))
}

func tooManyDeliveries(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s := w.accept(t, "s")
	for range 2 {
		m := w.receive(t, s)
		require.Equal(t, "s/1", m.MessageID)
		require.NoError(t, s.AbandonMessage(w.ctx, m, nil))
	}
	require.Equal(t, "s/2", w.receive(t, s).MessageID, "the session goes on")
	m := w.receive(t, w.deadLetters(t))
	require.Equal(t, "s/1", m.MessageID)
	require.Equal(t, "MaxDeliveryCountExceeded", *m.DeadLetterReason)
}

func deadLetterLocks(t *testing.T, w world) {
	w.send(t, "s/1")
	s := w.accept(t, "s")
	require.NoError(t, s.DeadLetterMessage(w.ctx, w.receive(t, s), nil))
	r := w.deadLetters(t)
	m := w.receive(t, r)
	require.NoError(t, r.RenewMessageLock(w.ctx, m, nil))
	require.NoError(t, r.AbandonMessage(w.ctx, m, nil))
	requireCode(t, r.RenewMessageLock(w.ctx, m, nil), azservicebus.CodeLockLost)
	m = w.receive(t, r)
	require.NoError(t, r.DeferMessage(w.ctx, m, nil))
	messages, err := r.ReceiveDeferredMessages(w.ctx, []int64{*m.SequenceNumber}, nil)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.NoError(t, r.CompleteMessage(w.ctx, messages[0], nil))
}

func deferred(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s := w.accept(t, "s")
	first := w.receive(t, s)
	require.NoError(t, s.DeferMessage(w.ctx, first, nil))
	second := w.receive(t, s)
	require.Equal(t, "s/2", second.MessageID)
	require.NoError(t, s.CompleteMessage(w.ctx, second, nil))
	messages, err := s.ReceiveDeferredMessages(w.ctx, []int64{*first.SequenceNumber}, nil)
	require.NoError(t, err)
	require.Len(t, messages, 1)
	require.Equal(t, "s/1", messages[0].MessageID)
	require.Equal(t, azservicebus.MessageStateDeferred, messages[0].State)
	require.NoError(t, s.CompleteMessage(w.ctx, messages[0], nil))
	require.Empty(t, w.peeked(t, s))
}

func deferredSettled(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s := w.accept(t, "s")
	again := func(m *azservicebus.ReceivedMessage) *azservicebus.ReceivedMessage {
		messages, err := s.ReceiveDeferredMessages(w.ctx, []int64{*m.SequenceNumber}, nil)
		require.NoError(t, err)
		require.Len(t, messages, 1)
		return messages[0]
	}
	first, second := w.receive(t, s), w.receive(t, s)
	require.NoError(t, s.DeferMessage(w.ctx, first, nil))
	require.NoError(t, s.DeferMessage(w.ctx, second, nil))

	require.NoError(t, s.AbandonMessage(w.ctx, again(first), nil))
	require.NoError(t, s.DeferMessage(w.ctx, again(first), nil))
	reason := "Late"
	require.NoError(t, s.DeadLetterMessage(w.ctx, again(first), &azservicebus.DeadLetterOptions{Reason: &reason}))
	require.NoError(t, s.CompleteMessage(w.ctx, again(second), nil))
	_, err := s.ReceiveDeferredMessages(w.ctx, []int64{*second.SequenceNumber}, nil)
	requireCode(t, err, azservicebus.CodeNotFound)
	m := w.receive(t, w.deadLetters(t))
	require.Equal(t, "s/1", m.MessageID)
	require.Equal(t, reason, *m.DeadLetterReason)
}

func receiveAndDelete(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s, err := w.client.AcceptSessionForSubscription(w.ctx, w.topic, mainSubscription, "s", &azservicebus.SessionReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	require.NoError(t, err)
	require.Equal(t, "s/1", w.receive(t, s).MessageID)
	require.Equal(t, "s/2", w.receive(t, s).MessageID)
	require.Empty(t, w.peeked(t, s))
}
