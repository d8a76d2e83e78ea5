package localbus

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestAMessageArrivesAsItWasSent(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		start := time.Now()
		sent := Message{
			MessageID: "m-1", SessionID: "séance\x001", CorrelationID: "c-1", Subject: "OrderPlaced", ContentType: "application/json",
			To: "to", ReplyTo: "answers", ReplyToSessionID: "s-2", PartitionKey: "séance\x001", TimeToLive: time.Hour + time.Nanosecond,
			Properties: map[string]any{
				"string": "täxt", "bool": true, "int32": int32(math.MinInt32), "int64": int64(math.MaxInt64), "float64": 1.0, "inf": math.Inf(-1),
				"bytes": []byte{0, 0xff}, "uuid": uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
				"time": time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
			},
			Body: []byte{0, 1, 0xff},
		}
		sequences := send(t, b, sent)

		s := accept(t, b)
		got := receive(t, s)

		require.NotEmpty(t, got.LockToken)
		sent.SequenceNumber = sequences[0]
		sent.EnqueuedAt = start.UTC()
		sent.DeliveryCount = 1
		sent.State = StateActive
		sent.LockToken = got.LockToken
		sent.LockedUntil = s.LockedUntil()
		require.Equal(t, sent, *got)
	})
}

func TestAMessageGoesToEverySubscriptionThatTakesItsSubject(t *testing.T) {
	topics := []Topic{{Name: orders, Subscriptions: []Subscription{
		{Name: "a", Subjects: []string{"A", "Both"}},
		{Name: "b", Subjects: []string{"B", "Both"}},
		{Name: "all"},
	}}}
	bubble(t, topics, func(t *testing.T, b *Bus) {
		for _, subject := range []string{"A", "B", "Both", "a"} {
			m := message("s", subject)
			m.Subject = subject
			send(t, b, m)
		}
		for subscription, want := range map[string][]string{
			"a": {"A", "Both"}, "b": {"B", "Both"}, "all": {"A", "B", "Both", "a"},
		} {
			got, err := b.Peek(t.Context(), orders, subscription)
			require.NoError(t, err)
			require.Equal(t, want, ids(got), subscription)
		}
	})
}

func TestAMessageThatNoSubscriptionTakesIsAcceptedAndDropped(t *testing.T) {
	topics := []Topic{{Name: orders, Subscriptions: []Subscription{{Name: billing, Subjects: []string{"A"}}}}}
	bubble(t, topics, func(t *testing.T, b *Bus) {
		send(t, b, message("s", "unwanted"))
		require.Empty(t, peeked(t, b))
		sent, err := b.Sent(t.Context(), orders)
		require.NoError(t, err)
		require.Equal(t, []string{"unwanted"}, ids(sent))
	})
}

func TestAFaultyMessageIsRefused(t *testing.T) {
	long := strings.Repeat("é", maxIDRunes)
	tests := map[string]struct {
		message Message
		want    error
	}{
		"without session":           {Message{MessageID: "m"}, ErrSessionRequired},
		"without MessageID":         {Message{SessionID: "s"}, ErrInvalidMessage},
		"long MessageID":            {message("s", long+"x"), ErrInvalidMessage},
		"long SessionID":            {message(long+"x", "m"), ErrInvalidMessage},
		"text that is not UTF-8":    {Message{MessageID: "m", SessionID: "s", Subject: "\xff"}, ErrInvalidMessage},
		"foreign PartitionKey":      {Message{MessageID: "m", SessionID: "s", PartitionKey: "t"}, ErrInvalidMessage},
		"negative TimeToLive":       {Message{MessageID: "m", SessionID: "s", TimeToLive: -1}, ErrInvalidMessage},
		"property of another type":  {Message{MessageID: "m", SessionID: "s", Properties: map[string]any{"n": 1}}, ErrInvalidMessage},
		"property that is nil":      {Message{MessageID: "m", SessionID: "s", Properties: map[string]any{"n": nil}}, ErrInvalidMessage},
		"property without a name":   {Message{MessageID: "m", SessionID: "s", Properties: map[string]any{"": "x"}}, ErrInvalidMessage},
		"property that isn't UTF-8": {Message{MessageID: "m", SessionID: "s", Properties: map[string]any{"n": "\xff"}}, ErrInvalidMessage},
		"large body":                {Message{MessageID: "m", SessionID: "s", Body: make([]byte, maxMessageBytes)}, ErrMessageTooLarge},
		"large property":            {Message{MessageID: "m", SessionID: "s", Properties: map[string]any{"n": strings.Repeat("x", maxMessageBytes)}}, ErrMessageTooLarge},
	}
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		for name, test := range tests {
			_, err := b.Send(t.Context(), orders, message("s", "good"), test.message)
			require.ErrorIs(t, err, test.want, name)
		}
		require.Empty(t, peeked(t, b), "all or none")

		send(t, b, message(long, long))
		send(t, b, Message{MessageID: "m", SessionID: "s", Body: make([]byte, maxMessageBytes-2)})
	})
}

func TestUnknownEntitiesAreNotFound(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		for name, call := range map[string]func() error{
			"send":                   func() error { _, err := b.Send(ctx, "x", message("s", "m")); return err },
			"cancel":                 func() error { return b.CancelScheduled(ctx, "x", 1) },
			"accept":                 func() error { _, err := b.AcceptSession(ctx, "x", billing, "s"); return err },
			"accept on subscription": func() error { _, err := b.AcceptSession(ctx, orders, "x", "s"); return err },
			"accept next":            func() error { _, err := b.AcceptNextSession(ctx, orders, "x"); return err },
			"peek":                   func() error { _, err := b.Peek(ctx, orders, "x"); return err },
			"dead letters":           func() error { _, err := b.DeadLetters(ctx, "x", billing); return err },
			"scheduled":              func() error { _, err := b.Scheduled(ctx, "x"); return err },
			"peek from":              func() error { _, err := b.PeekFrom(ctx, "x", billing, PeekOptions{}); return err },
			"sessions":               func() error { _, err := b.Sessions(ctx, orders, "x"); return err },
			"open dead letters":      func() error { _, err := b.OpenDeadLetters(ctx, orders, "x"); return err },
			"sent":                   func() error { _, err := b.Sent(ctx, "x"); return err },
		} {
			require.ErrorIs(t, call(), ErrNotFound, name)
		}
	})
}

func TestARepeatWithinTheWindowIsDroppedAndAnsweredWithTheFirstNumber(t *testing.T) {
	topics := oneQueue()
	topics[0].DuplicateDetection = 10 * time.Minute
	bubble(t, topics, func(t *testing.T, b *Bus) {
		first := send(t, b, message("s", "m"), message("s", "n"), message("s", "m"))
		require.Equal(t, first[0], first[2], "within one send")
		pass(10*time.Minute - time.Microsecond)
		require.Equal(t, first[:1], send(t, b, message("other", "m")))
		require.Equal(t, []string{"m", "n"}, peeked(t, b))

		pass(time.Microsecond)
		later := send(t, b, message("s", "m"))
		require.Greater(t, later[0], first[1])
		require.Equal(t, []string{"m", "n", "m"}, peeked(t, b), "the window counts from the first")
		require.Equal(t, later, send(t, b, message("s", "m")))

		sent, err := b.Sent(t.Context(), orders)
		require.NoError(t, err)
		require.Equal(t, []string{"m", "n", "m", "m", "m", "m"}, ids(sent), "repeats are recorded")
		require.Equal(t, first[0], sent[3].SequenceNumber)
	})
}

func TestWithoutDuplicateDetectionARepeatIsAnotherMessage(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, message("s", "m"), message("s", "m"))
		require.Equal(t, []string{"m", "m"}, peeked(t, b))
	})
}

func TestARepeatIsKnownByItsTopicAndAfterCompletion(t *testing.T) {
	topics := append(oneQueue(), Topic{Name: "other", DuplicateDetection: time.Minute})
	topics[0].DuplicateDetection = time.Minute
	bubble(t, topics, func(t *testing.T, b *Bus) {
		_, err := b.Send(t.Context(), "other", message("s", "m"))
		require.NoError(t, err)
		send(t, b, message("s", "m"))
		s := accept(t, b)
		require.NoError(t, s.Complete(t.Context(), receive(t, s)))
		send(t, b, message("s", "m"))
		require.Empty(t, peeked(t, b))
	})
}

func TestOldSendsAreForgottenUnlessSomethingNeedsThem(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		later := message("s", "scheduled")
		later.ScheduledAt = time.Now().Add(time.Hour)
		send(t, b, append(append(numbered("s", 2), later), numbered("done", 4)...)...)
		s, err := b.AcceptSession(t.Context(), orders, billing, "done")
		require.NoError(t, err)
		for range 4 {
			require.NoError(t, s.Complete(t.Context(), receive(t, s)))
		}
		require.NoError(t, s.Close())
		pass(time.Minute)
		trim := func(since time.Time) []string {
			require.NoError(t, b.store.transact(func(x *tx) { x.trim(orders, 2, since) }))
			sent, err := b.Sent(t.Context(), orders)
			require.NoError(t, err)
			return ids(sent)
		}

		require.Len(t, trim(time.Now().Add(-time.Hour)), 7, "within the window of duplicate detection")
		require.Equal(t, []string{"s-1", "s-2", "scheduled", "done-3", "done-4"}, trim(time.Now()))
		require.Equal(t, []string{"s-1", "s-2"}, peeked(t, b))
	})
}
