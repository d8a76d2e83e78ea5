package localbus

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// killedFile names, in the environment of a second process, the file that it
// works on until it is killed.
const killedFile = "LOCALBUS_KILLED_FILE"

func TestAKilledProcessLosesNothingAcceptedAndDoublesNothingCompleted(t *testing.T) {
	t.Parallel()
	if path := os.Getenv(killedFile); path != "" {
		workUntilKilled(t, path)
		return
	}
	path := newFile(t)
	accepted, completed := map[string]bool{}, map[string]bool{}
	for range 3 {
		runAndKill(t, path, accepted, completed)

		b := openBus(t, path, oneQueue())
		left := map[string]bool{}
		last := map[string]int64{}
		messages, err := b.Peek(t.Context(), orders, billing)
		require.NoError(t, err)
		for _, m := range messages {
			require.False(t, left[m.MessageID], "%s is there twice", m.MessageID)
			require.False(t, completed[m.MessageID], "%s was completed", m.MessageID)
			require.Zero(t, m.DeliveryCount)
			require.Greater(t, m.SequenceNumber, last[m.SessionID])
			left[m.MessageID] = true
			last[m.SessionID] = m.SequenceNumber
		}
		sent, err := b.Sent(t.Context(), orders)
		require.NoError(t, err)
		known := map[string]bool{}
		for _, m := range sent {
			known[m.MessageID] = true
		}
		unsure := 0
		for id := range accepted {
			require.True(t, known[id], "%s was accepted and is lost", id)
			if !left[id] && !completed[id] {
				unsure++ // completed, and killed before it could be said
				completed[id] = true
			}
		}
		require.LessOrEqual(t, unsure, killedWorkers, "messages lost")
		require.NoError(t, b.Close())
	}
	require.NotEmpty(t, completed)
}

const killedWorkers = 4

// runAndKill has a second process work on the file, notes what it says that
// was accepted and completed, and kills it in the middle of that.
func runAndKill(t *testing.T, path string, accepted, completed map[string]bool) {
	ctx, kill := context.WithCancel(t.Context()) // kills with SIGKILL
	defer kill()
	worker := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	worker.Env = append(os.Environ(), killedFile+"="+path)
	worker.Stderr = os.Stderr
	said, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	lines := bufio.NewScanner(said)
	for n := 0; lines.Scan(); n++ {
		switch verb, id, _ := strings.Cut(lines.Text(), " "); verb {
		case "accepted":
			accepted[id] = true
		case "completed":
			completed[id] = true
		default:
			t.Errorf("the second process said: %s", lines.Text())
		}
		if n == 200 {
			_, err := Open(path, oneQueue(), time.Now)
			require.ErrorIs(t, err, ErrInUse, "it lives")
			kill()
		}
	}
	require.Error(t, worker.Wait(), "it was killed")
}

// workUntilKilled sends and completes, and says so.
func workUntilKilled(t *testing.T, path string) {
	b := openBus(t, path, oneQueue())
	run := time.Now().UnixNano()
	var wg sync.WaitGroup
	for w := range killedWorkers {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", run, w, i)
				if _, err := b.Send(t.Context(), orders, message(fmt.Sprint("s", i%7), id)); err != nil {
					fmt.Println(err)
					return
				}
				fmt.Println("accepted", id)
			}
		})
		wg.Go(func() {
			for {
				s, err := b.AcceptNextSession(t.Context(), orders, billing)
				if err != nil {
					fmt.Println(err)
					return
				}
				m, err := s.Receive(t.Context())
				if err == nil {
					err = s.Complete(t.Context(), m)
				}
				if err != nil {
					fmt.Println(err)
					return
				}
				fmt.Println("completed", m.MessageID)
				_ = s.Close()
			}
		})
	}
	wg.Wait()
}
