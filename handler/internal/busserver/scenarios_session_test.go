package busserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/stretchr/testify/require"
)

func sessionHasOneHolder(t *testing.T, w world) {
	s := w.accept(t, "s")
	_, err := w.client.AcceptSessionForSubscription(w.ctx, w.topic, mainSubscription, "s", nil)
	require.ErrorContains(t, err, "session-cannot-be-locked")
	require.NoError(t, s.Close(w.ctx))
	require.Equal(t, "s", w.accept(t, "s").SessionID())
}

func nextSession(t *testing.T, w world) {
	w.send(t, "a/1", "b/1")
	require.Equal(t, "a", w.next(t).SessionID())
	require.Equal(t, "b", w.next(t).SessionID())
	accepted := make(chan string, 1)
	go func() {
		s, err := w.client.AcceptNextSessionForSubscription(w.ctx, w.topic, mainSubscription, nil)
		if err != nil {
			accepted <- err.Error()
			return
		}
		accepted <- s.SessionID()
	}()
	w.send(t, "c/1")
	require.Equal(t, "c", <-accepted)
}

func acceptTimesOut(t *testing.T, w world) {
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
	defer cancel()
	_, err := w.client.AcceptNextSessionForSubscription(ctx, w.topic, mainSubscription, nil)
	requireCode(t, err, azservicebus.CodeTimeout)
}

func sessionState(t *testing.T, w world) {
	s := w.accept(t, "s")
	state, err := s.GetSessionState(w.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, state)
	require.NoError(t, s.SetSessionState(w.ctx, []byte("half way"), nil))
	require.NoError(t, s.Close(w.ctx))
	s = w.accept(t, "s")
	state, err = s.GetSessionState(w.ctx, nil)
	require.NoError(t, err)
	require.Equal(t, "half way", string(state))
	require.NoError(t, s.SetSessionState(w.ctx, nil, nil))
	state, err = s.GetSessionState(w.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, state)
}

func sessionRenewed(t *testing.T, w world) {
	w.send(t, "s/1")
	s := w.accept(t, "s")
	m := w.receive(t, s)
	first := s.LockedUntil()
	for range 3 {
		require.NoError(t, s.RenewSessionLock(w.ctx, nil))
		ctx, cancel := context.WithTimeout(w.ctx, w.lock/2)
		_, err := w.client.AcceptNextSessionForSubscription(ctx, w.topic, mainSubscription, nil)
		require.Error(t, err, "nobody else gets it")
		cancel()
	}
	require.True(t, s.LockedUntil().After(first))
	require.NoError(t, s.CompleteMessage(w.ctx, m, nil))
}

// The client does not say at once that the lock is lost: it takes a settlement
// to the management link, then the session once more, at its own leisure.
func sessionExpires(t *testing.T, w world) {
	w.send(t, "s/1")
	s := w.accept(t, "s")
	m := w.receive(t, s)
	again := w.next(t) // waits until the lock has expired
	require.Equal(t, "s", again.SessionID())
	ctx, cancel := context.WithTimeout(w.ctx, w.lock/4)
	defer cancel()
	require.Error(t, s.CompleteMessage(ctx, m, nil))
	m = w.receive(t, again)
	require.Equal(t, uint32(2), m.DeliveryCount, "a lock that is lost counts as a failed delivery")
	require.NoError(t, again.CompleteMessage(w.ctx, m, nil))
}

func sessionClosed(t *testing.T, w world) {
	w.send(t, "s/1", "s/2")
	s := w.accept(t, "s")
	messages, err := s.ReceiveMessages(w.ctx, 2, nil)
	require.NoError(t, err)
	require.NotEmpty(t, messages)
	require.NoError(t, s.Close(w.ctx))
	s = w.accept(t, "s")
	m := w.receive(t, s)
	require.Equal(t, "s/1", m.MessageID)
	require.Equal(t, uint32(1), m.DeliveryCount, "a closed session counts no delivery")
}

// A receive that ends with credit left has the client release what comes late,
// in the background. A receive meanwhile can get a later message first.
func released(t *testing.T, w world) {
	s := w.accept(t, "s")
	ctx, cancel := context.WithTimeout(w.ctx, 200*time.Millisecond)
	defer cancel()
	_, err := s.ReceiveMessages(ctx, 5, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	w.send(t, "s/1", "s/2", "s/3")
	var ids []string
	for range 3 {
		m := w.receive(t, s)
		require.Equal(t, uint32(1), m.DeliveryCount)
		require.NoError(t, s.CompleteMessage(w.ctx, m, nil))
		ids = append(ids, m.MessageID)
	}
	require.ElementsMatch(t, []string{"s/1", "s/2", "s/3"}, ids)
}

func peeking(t *testing.T, w world) {
	w.send(t, "s/1", "s/2", "s/3")
	s := w.accept(t, "s")
	require.Equal(t, []string{"s/1", "s/2", "s/3"}, w.peeked(t, s))
	var first int64
	messages, err := s.PeekMessages(w.ctx, 1, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &first})
	require.NoError(t, err)
	require.Len(t, messages, 1)
	from := *messages[0].SequenceNumber + 1
	messages, err = s.PeekMessages(w.ctx, 10, &azservicebus.PeekMessagesOptions{FromSequenceNumber: &from})
	require.NoError(t, err)
	require.Len(t, messages, 2)
	m := w.receive(t, s)
	require.Equal(t, "s/1", m.MessageID)
	require.Equal(t, uint32(1), m.DeliveryCount)
}

func sessionsListed(t *testing.T, w world) {
	w.send(t, "a/1", "b/1", "a/2")
	var ids []string
	for pager := w.client.NewListSessionsForSubscriptionPager(w.topic, mainSubscription, nil); pager.More(); {
		page, err := pager.NextPage(w.ctx)
		require.NoError(t, err)
		ids = append(ids, page.Sessions...)
	}
	require.ElementsMatch(t, []string{"a", "b"}, ids)
}

func unknownEntity(t *testing.T, w world) {
	sender, err := w.client.NewSender("no-such-topic", nil)
	require.NoError(t, err)
	require.ErrorContains(t, sender.SendMessage(w.ctx, message("s/1"), nil), "amqp:not-found")
	_, err = w.client.AcceptSessionForSubscription(w.ctx, w.topic, "no-such-subscription", "s", nil)
	require.ErrorContains(t, err, "amqp:not-found")
}

func receiverNeedsSession(t *testing.T, w world) {
	r, err := w.client.NewReceiverForSubscription(w.topic, mainSubscription, nil)
	require.NoError(t, err)
	_, err = r.ReceiveMessages(w.ctx, 1, nil)
	require.ErrorContains(t, err, "requires sessions")
}
