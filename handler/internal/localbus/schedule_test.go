package localbus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func scheduledAt(m Message, at time.Time) Message {
	m.ScheduledAt = at
	return m
}

func TestAScheduledMessageBecomesActiveWhenItIsDueUnderANewNumber(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		due := time.Now().Add(24 * time.Hour)
		sequences := send(t, b, scheduledAt(message("s", "late"), due))
		send(t, b, message("s", "now"))

		scheduled, err := b.Scheduled(t.Context(), orders)
		require.NoError(t, err)
		require.Equal(t, []string{"late"}, ids(scheduled))
		require.Equal(t, sequences[0], scheduled[0].SequenceNumber)
		require.Equal(t, StateScheduled, scheduled[0].State)
		require.Equal(t, []string{"now"}, peeked(t, b))

		pass(24*time.Hour - time.Nanosecond)
		require.Equal(t, []string{"now"}, peeked(t, b))
		pass(time.Nanosecond)

		active, err := b.Peek(t.Context(), orders, billing)
		require.NoError(t, err)
		require.Equal(t, []string{"now", "late"}, ids(active))
		require.Greater(t, active[1].SequenceNumber, active[0].SequenceNumber)
		require.True(t, due.Equal(active[1].EnqueuedAt))
		require.True(t, due.Equal(active[1].ScheduledAt))
		scheduled, err = b.Scheduled(t.Context(), orders)
		require.NoError(t, err)
		require.Empty(t, scheduled)
	})
}

func TestAMessageIsNeverActiveEarlyByAFractionOfTheFilesPrecision(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		send(t, b, scheduledAt(message("s", "m"), time.Now().Add(time.Second+time.Nanosecond)))
		pass(time.Second)
		require.Empty(t, peeked(t, b))
		pass(time.Microsecond)
		require.Equal(t, []string{"m"}, peeked(t, b))
	})
}

func TestDueMessagesBecomeActiveInTheOrderInWhichTheyAreDue(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		now := time.Now()
		send(t, b,
			scheduledAt(message("s", "third"), now.Add(2*time.Hour)),
			scheduledAt(message("s", "first"), now.Add(time.Hour)),
			scheduledAt(message("s", "second"), now.Add(time.Hour)),
			scheduledAt(message("s", "past"), now.Add(-time.Hour)))
		pass(3 * time.Hour)
		require.Equal(t, []string{"past", "first", "second", "third"}, peeked(t, b))
	})
}

func TestMoreDueMessagesThanOneTransactionTakesAllBecomeActive(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		messages := numbered("s", 2*maxActivated+1)
		for i := range messages {
			messages[i].ScheduledAt = time.Now().Add(time.Hour)
		}
		send(t, b, messages...)
		pass(time.Hour)
		require.Equal(t, ids(messages), peeked(t, b))
	})
}

func TestACancelledMessageNeverBecomesActive(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		due := time.Now().Add(time.Hour)
		sequences := send(t, b, scheduledAt(message("s", "m"), due), scheduledAt(message("s", "n"), due))
		require.NoError(t, b.CancelScheduled(t.Context(), orders, sequences[0]))
		require.ErrorIs(t, b.CancelScheduled(t.Context(), orders, sequences[0]), ErrNotFound, "cancelled")
		require.ErrorIs(t, b.CancelScheduled(t.Context(), orders, 1_000), ErrNotFound, "unknown")

		pass(2 * time.Hour)
		require.Equal(t, []string{"n"}, peeked(t, b))
		require.ErrorIs(t, b.CancelScheduled(t.Context(), orders, sequences[1]), ErrNotFound, "active")
		active, err := b.Peek(t.Context(), orders, billing)
		require.NoError(t, err)
		require.ErrorIs(t, b.CancelScheduled(t.Context(), orders, active[0].SequenceNumber), ErrNotFound, "active, by its new number")
	})
}

func TestDuplicateDetectionCountsAScheduledMessageFromItsAcceptance(t *testing.T) {
	topics := oneQueue()
	topics[0].DuplicateDetection = 10 * time.Minute
	bubble(t, topics, func(t *testing.T, b *Bus) {
		late := scheduledAt(message("s", "m"), time.Now().Add(time.Hour))
		first := send(t, b, late)
		require.Equal(t, first, send(t, b, late), "repeated while scheduled")
		require.NoError(t, b.CancelScheduled(t.Context(), orders, first[0]))
		require.Equal(t, first, send(t, b, message("s", "m")), "repeated when cancelled")

		pass(10 * time.Minute)
		require.NotEqual(t, first, send(t, b, message("s", "m")))
		require.Equal(t, []string{"m"}, peeked(t, b))
	})
}

func TestADueMessageWakesWhoWaits(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		start := time.Now()
		send(t, b, scheduledAt(message("s", "m"), start.Add(time.Hour)), scheduledAt(message("s", "n"), start.Add(time.Hour+time.Second)))
		s := accept(t, b)
		require.Equal(t, time.Hour, time.Since(start))
		require.NoError(t, s.Complete(t.Context(), receive(t, s)))
		require.Equal(t, "n", receive(t, s).MessageID)
		require.Equal(t, time.Hour+time.Second, time.Since(start))
	})
}
