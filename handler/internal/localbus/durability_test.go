package localbus

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// copyFile copies the file as it is on disk at this moment, which is what a
// killed process would leave behind.
func copyFile(t require.TestingT, from, to string) {
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(from + suffix)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to+suffix, content, 0o600))
	}
}

func TestTheNextRunFindsEverythingButTheLocks(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t *testing.T, b *Bus, path string) *Bus{
		"closed": func(t *testing.T, b *Bus, path string) *Bus {
			require.NoError(t, b.Close())
			return openBus(t, path, oneQueue())
		},
		"killed": func(t *testing.T, _ *Bus, path string) *Bus {
			next := path + "-after"
			copyFile(t, path, next)
			return openBus(t, next, oneQueue())
		},
	}
	for name, reopen := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				path := newFile(t)
				b := openBus(t, path, oneQueue())
				ctx := t.Context()
				due := time.Now().Add(time.Hour)
				late := send(t, b, scheduledAt(message("s", "late"), due), scheduledAt(message("s", "cancelled"), due))
				require.NoError(t, b.CancelScheduled(ctx, orders, late[1]))
				last := send(t, b, numbered("s", 4)...)
				s := accept(t, b)
				require.NoError(t, s.Complete(ctx, receive(t, s)))
				require.NoError(t, s.DeadLetter(ctx, receive(t, s), "reason", "description"))
				require.NoError(t, s.Abandon(ctx, receive(t, s)))
				inDelivery := receive(t, s)

				b = reopen(t, b, path)

				require.Greater(t, send(t, b, message("s", "new"))[0], last[3], "numbers go on")
				s = accept(t, b)
				again := receive(t, s)
				require.Equal(t, inDelivery.MessageID, again.MessageID)
				require.Equal(t, 2, again.DeliveryCount, "a delivery cut short is not counted")
				require.NoError(t, s.Complete(ctx, again))
				for _, want := range []string{"s-4", "new"} {
					m := receive(t, s)
					require.Equal(t, want, m.MessageID)
					require.Equal(t, 1, m.DeliveryCount)
					require.NoError(t, s.Complete(ctx, m))
				}
				require.NoError(t, s.Close())

				require.Equal(t, "late", receive(t, accept(t, b)).MessageID)
				require.True(t, due.Equal(time.Now()))
				dead, err := b.DeadLetters(ctx, orders, billing)
				require.NoError(t, err)
				require.Equal(t, []string{"s-2"}, ids(dead))
				require.Equal(t, "reason", dead[0].DeadLetterReason)
				sent, err := b.Sent(ctx, orders)
				require.NoError(t, err)
				require.Equal(t, []string{"late", "cancelled", "s-1", "s-2", "s-3", "s-4", "new"}, ids(sent))
			})
		})
	}
}

func TestAMessageThatBecameDueBetweenTwoRunsIsActiveAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := newFile(t)
		b := openBus(t, path, oneQueue())
		send(t, b, scheduledAt(message("s", "m"), time.Now().Add(time.Hour)))
		require.NoError(t, b.Close())
		pass(2 * time.Hour)
		b = openBus(t, path, oneQueue())
		require.Equal(t, "m", receive(t, accept(t, b)).MessageID)
	})
}

func TestARepeatIsKnownToTheNextRun(t *testing.T) {
	t.Parallel()
	topics := oneQueue()
	topics[0].DuplicateDetection = time.Hour
	path := newFile(t)
	b := openBus(t, path, topics)
	first := send(t, b, message("s", "m"))
	require.NoError(t, b.Close())
	b = openBus(t, path, topics)
	require.Equal(t, first, send(t, b, message("s", "m")))
}

func TestMessagesOfEntitiesNoLongerDeclaredStayInTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := newFile(t)
		b := openBus(t, path, oneQueue())
		send(t, b, message("s", "m"), scheduledAt(message("s", "late"), time.Now().Add(time.Hour)))
		require.NoError(t, b.Close())

		b = openBus(t, path, []Topic{{Name: "other"}})
		pass(2 * time.Hour)
		counts, err := b.Counts(t.Context())
		require.NoError(t, err)
		require.Equal(t, map[string]TopicCounts{"other": {Subscriptions: map[string]SubscriptionCounts{}}}, counts)
		require.NoError(t, b.Close())

		b = openBus(t, path, oneQueue())
		pass(time.Second)
		require.Equal(t, []string{"m", "late"}, peeked(t, b))
	})
}

func TestAFileIsFoundWhateverItsName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"plain.db", "with space.db", "50%.db", "a?b#c.db"} {
		path := filepath.Join(t.TempDir(), name)
		b := openBus(t, path, oneQueue())
		send(t, b, message("s", "m"))
		require.FileExists(t, path)
	}
}

func TestAFileThatCannotBeUsedIsAnError(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	_, err := Open(filepath.Join(path, "missing", "bus.db"), oneQueue(), time.Now)
	require.Error(t, err)

	require.NoError(t, os.WriteFile(path, []byte("this is not a database, and long enough to be looked at"), 0o600))
	_, err = Open(path, oneQueue(), time.Now)
	require.Error(t, err)

	path = newFile(t)
	b := openBus(t, path, oneQueue())
	_, err = b.store.writer.ExecContext(context.Background(), `PRAGMA user_version = 99`)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	for range 2 { // the failure gives the file back
		_, err = Open(path, oneQueue(), time.Now)
		require.ErrorContains(t, err, "schema version 99")
	}
}

func TestAFaultyDeclarationIsAnError(t *testing.T) {
	t.Parallel()
	for name, topics := range map[string][]Topic{
		"unnamed topic":        {{}},
		"topic twice":          {{Name: "t"}, {Name: "t"}},
		"unnamed subscription": {{Name: "t", Subscriptions: []Subscription{{}}}},
		"subscription twice":   {{Name: "t", Subscriptions: []Subscription{{Name: "s"}, {Name: "s"}}}},
		"negative lock":        {{Name: "t", Subscriptions: []Subscription{{Name: "s", LockDuration: -1}}}},
	} {
		_, err := Open(newFile(t), topics, time.Now)
		require.Error(t, err, name)
	}
}

func TestAFailingDatabaseLosesNothingAndLeavesTheBusUsable(t *testing.T) {
	bubble(t, oneQueue(), func(t *testing.T, b *Bus) {
		ctx := t.Context()
		kill(t, b, message("s", "dead"))
		r := openDead(t, b)
		letter := receiveDead(t, r)
		send(t, b, append(numbered("s", 2), lasting(message("s", "short"), time.Second))...)
		s := accept(t, b)
		m := receive(t, s)
		breakWrites(t, b, true)

		_, err := b.Send(ctx, orders, message("s", "lost"))
		require.ErrorContains(t, err, "broken")
		require.ErrorContains(t, s.Complete(ctx, m), "broken")
		pass(2 * time.Minute) // nor can what expires be written
		<-s.Lost()
		require.ErrorIs(t, s.Renew(ctx), ErrSessionLockLost)
		require.ErrorIs(t, r.Complete(ctx, letter), ErrMessageLockLost)
		require.Equal(t, []string{"s-1", "s-2", "short"}, peeked(t, b))
		_, err = b.AcceptSession(ctx, orders, billing, "s")
		require.ErrorIs(t, err, ErrSessionLocked)

		breakWrites(t, b, false)
		s = accept(t, b)
		again := receive(t, s)
		require.Equal(t, m.MessageID, again.MessageID)
		require.Equal(t, 2, again.DeliveryCount)
		require.NoError(t, s.Complete(ctx, again))
		require.Equal(t, []string{"s-2"}, peeked(t, b))
		require.Equal(t, 2, receiveDead(t, r).DeliveryCount)
		require.Equal(t, "short", receiveDead(t, r).MessageID)
	})
}

// breakWrites has every change of a message fail in the database, or ends that.
func breakWrites(t *testing.T, b *Bus, broken bool) {
	t.Helper()
	for _, on := range []string{"insert on sent", "update on delivery", "delete on delivery"} {
		name := `"broken ` + on + `"`
		statement := `DROP TRIGGER ` + name
		if broken {
			statement = `CREATE TRIGGER ` + name + ` BEFORE ` + on + ` BEGIN SELECT RAISE(ABORT, 'broken'); END`
		}
		_, err := b.store.writer.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
}

func TestWhatIsAcceptedIsOnTheDisk(t *testing.T) {
	t.Parallel()
	s, err := openStore(filepath.Join(t.TempDir(), "bus.db"))
	require.NoError(t, err)
	defer s.close()
	const full = 2 // with NORMAL a failing power may take the last messages
	var synchronous int
	require.NoError(t, s.writer.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous))
	require.Equal(t, full, synchronous)
}
