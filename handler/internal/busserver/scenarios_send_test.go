package busserver_test

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/stretchr/testify/require"
)

func messageKeepsItsProperties(t *testing.T, w world) {
	id, session, subject, correlation, contentType := "m", "s", "Placed", "c", "application/json"
	to, replyTo, replySession := "inventory", "orders", "s-reply"
	ttl := time.Hour
	require.NoError(t, w.sender(t).SendMessage(w.ctx, &azservicebus.Message{
		MessageID: &id, SessionID: &session, Subject: &subject, CorrelationID: &correlation, ContentType: &contentType,
		To: &to, ReplyTo: &replyTo, ReplyToSessionID: &replySession, PartitionKey: &session, TimeToLive: &ttl,
		ApplicationProperties: map[string]any{"text": "x", "yes": true, "small": int32(7), "large": int64(1 << 40), "half": 0.5},
		Body:                  []byte(`{"orderId":"s"}`),
	}, nil))
	before := time.Now().Add(-time.Minute)
	m := w.receive(t, w.next(t))
	require.Equal(t, id, m.MessageID)
	require.Equal(t, session, *m.SessionID)
	require.Equal(t, subject, *m.Subject)
	require.Equal(t, correlation, *m.CorrelationID)
	require.Equal(t, contentType, *m.ContentType)
	require.Equal(t, to, *m.To)
	require.Equal(t, replyTo, *m.ReplyTo)
	require.Equal(t, replySession, *m.ReplyToSessionID)
	require.Equal(t, session, *m.PartitionKey)
	require.Equal(t, ttl, *m.TimeToLive)
	require.Equal(t, map[string]any{"text": "x", "yes": true, "small": int32(7), "large": int64(1 << 40), "half": 0.5}, m.ApplicationProperties)
	require.JSONEq(t, `{"orderId":"s"}`, string(m.Body))
	require.Equal(t, uint32(1), m.DeliveryCount)
	require.Positive(t, *m.SequenceNumber)
	require.True(t, m.EnqueuedTime.After(before))
	require.True(t, m.LockedUntil.After(before))
	require.NotZero(t, m.LockToken)
	require.Equal(t, azservicebus.MessageStateActive, m.State)
}

func batchArrivesInOrder(t *testing.T, w world) {
	sender := w.sender(t)
	batch, err := sender.NewMessageBatch(w.ctx, nil)
	require.NoError(t, err)
	want := []string{"s/1", "s/2", "s/3", "s/4", "s/5"}
	for _, name := range want {
		require.NoError(t, batch.AddMessage(message(name), nil))
	}
	require.NoError(t, sender.SendMessageBatch(w.ctx, batch, nil))
	s := w.next(t)
	for _, id := range want {
		m := w.receive(t, s)
		require.Equal(t, id, m.MessageID)
		require.NoError(t, s.CompleteMessage(w.ctx, m, nil))
	}
}

func largeMessage(t *testing.T, w world) {
	m := message("s/large")
	m.Body = make([]byte, 200_000)
	for i := range m.Body {
		m.Body[i] = byte(i)
	}
	require.NoError(t, w.sender(t).SendMessage(w.ctx, m, nil))
	s := w.next(t)
	got := w.receive(t, s)
	require.Equal(t, m.Body, got.Body)
	require.NoError(t, s.CompleteMessage(w.ctx, got, nil))
}

func scheduled(t *testing.T, w world) {
	due := time.Now().Add(3 * time.Second)
	numbers, err := w.sender(t).ScheduleMessages(w.ctx, []*azservicebus.Message{message("s/1"), message("s/2")}, due, nil)
	require.NoError(t, err)
	require.Len(t, numbers, 2)
	annotated := message("s/3")
	annotated.ScheduledEnqueueTime = &due
	require.NoError(t, w.sender(t).SendMessage(w.ctx, annotated, nil))
	s := w.next(t)
	require.False(t, time.Now().Before(due.Add(-50*time.Millisecond)))
	for range 3 {
		m := w.receive(t, s)
		require.WithinDuration(t, due, *m.ScheduledEnqueueTime, time.Millisecond)
		require.NotContains(t, numbers, *m.SequenceNumber, "an active message has a new number")
		require.NoError(t, s.CompleteMessage(w.ctx, m, nil))
	}
}

func scheduleCancelled(t *testing.T, w world) {
	sender := w.sender(t)
	due := time.Now().Add(time.Hour)
	numbers, err := sender.ScheduleMessages(w.ctx, []*azservicebus.Message{message("s/1")}, due, nil)
	require.NoError(t, err)
	require.NoError(t, sender.CancelScheduledMessages(w.ctx, numbers, nil))
	requireCode(t, sender.CancelScheduledMessages(w.ctx, numbers, nil), azservicebus.CodeNotFound)
	requireCode(t, sender.CancelScheduledMessages(w.ctx, []int64{1 << 40}, nil), azservicebus.CodeNotFound)
}

func duplicate(t *testing.T, w world) {
	w.send(t, "s/1", "s/2", "s/1")
	require.Equal(t, []string{"s/1", "s/2"}, w.peeked(t, w.accept(t, "s")))
}

func subjects(t *testing.T, w world) {
	sender := w.sender(t)
	for _, subject := range []string{"Paid", "Placed"} {
		m := message("s/" + subject)
		m.Subject = &subject
		require.NoError(t, sender.SendMessage(w.ctx, m, nil))
	}
	require.Equal(t, []string{"s/Paid", "s/Placed"}, w.peeked(t, w.accept(t, "s")))
	paid, err := w.client.AcceptNextSessionForSubscription(w.ctx, w.topic, "paid", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"s/Paid"}, w.peeked(t, paid))
}
