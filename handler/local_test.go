package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/simulation"
	"orderflow/workflow"
	"orderflow/workflow/store"
)

// outcome is what is compared between runs: each order's ending and everything
// it sent.
type outcome struct {
	Endings map[string]workflow.Status
	Emitted []string
}

// outcomeOf reads a run's outcome from its database.
func outcomeOf(t *testing.T, dir string) outcome {
	t.Helper()
	db, err := store.Open(t.Context(), filepath.Join(dir, "orders.db"), store.Options{Now: time.Now})
	require.NoError(t, err)
	defer db.Close()
	orders, err := db.List(t.Context())
	require.NoError(t, err)
	o := outcome{Endings: make(map[string]workflow.Status)}
	for _, order := range orders {
		o.Endings[order.ID] = order.Status
		story, err := db.Story(t.Context(), order.ID)
		require.NoError(t, err)
		require.Empty(t, story.Held)
		require.Empty(t, story.Rejected)
		for _, d := range story.Outbox {
			o.Emitted = append(o.Emitted, d.ID)
		}
	}
	slices.Sort(o.Emitted)
	return o
}

// patient is a deadline well above a restart and the lease of what a killed
// process had claimed, so that no kill makes an answer late.
const patient = "15s"

// sampleRun begins a run of the sample orders that ends by itself.
func sampleRun(t *testing.T, dir string) *process {
	t.Helper()
	return start(t, nil, "local", "-exit", "-dir", dir, "-port", "0", "-deadline", patient)
}

// ends waits for a run's good end and returns what it printed.
func (p *process) ends(t *testing.T) string {
	t.Helper()
	require.Zero(t, p.exitCode(t, 2*time.Minute), "stdout: %s\nstderr: %s", &p.stdout, &p.stderr)
	return p.stdout.String()
}

func TestKilledAtTwentyRandomMomentsARunEndsAsAnUndisturbedOne(t *testing.T) {
	t.Parallel()
	calm := folder(t)
	undisturbed := sampleRun(t, calm)

	t.Run("the host with its bus", func(t *testing.T) {
		t.Parallel()
		dir := folder(t)
		for kills := range 20 {
			p := sampleRun(t, dir)
			require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "/api/orders") }, 20*time.Second, 5*time.Millisecond)
			select {
			case <-time.After(100*time.Millisecond + rand.N(1200*time.Millisecond)):
				p.kill()
			case <-p.done:
				require.Failf(t, "it ended before it was killed twenty times", "after %d kills; stdout: %s\nstderr: %s", kills, &p.stdout, &p.stderr)
			}
		}
		sampleRun(t, dir).ends(t)
		undisturbed.ends(t)
		require.Equal(t, outcomeOf(t, calm), outcomeOf(t, dir))
	})

	t.Run("the handler", func(t *testing.T) {
		t.Parallel()
		dir := folder(t)
		p := sampleRun(t, dir)
		for range 20 {
			select {
			case <-time.After(100*time.Millisecond + rand.N(900*time.Millisecond)):
				killHandler(dir)
			case <-p.done:
				require.Failf(t, "it ended before its handler was killed twenty times", "stdout: %s\nstderr: %s", &p.stdout, &p.stderr)
			}
		}
		p.ends(t)
		undisturbed.ends(t)
		require.Equal(t, outcomeOf(t, calm), outcomeOf(t, dir))
	})
}

// handlerPID is the process ID of a run's handler, 0 while there is none.
func handlerPID(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "handler.pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// killHandler kills a run's handler, if there is one at the moment.
func killHandler(dir string) {
	if pid := handlerPID(dir); pid > 0 {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill() // it may be gone
		}
	}
}

func TestTheHandlerEndsWithTheHostThatStartedIt(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	host := start(t, nil, "local", "-empty", "-dir", dir, "-port", "0")
	require.Eventually(t, func() bool { return handlerPID(dir) > 0 }, 10*time.Second, 5*time.Millisecond)
	handler, err := os.FindProcess(handlerPID(dir))
	require.NoError(t, err)
	require.NoError(t, handler.Signal(syscall.Signal(0)), "it runs")
	host.kill()
	require.Eventually(t, func() bool {
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", handler.Pid)) // whoever adopts it may not bury it
		return handler.Signal(syscall.Signal(0)) != nil || strings.Contains(string(state), ") Z ")
	}, 10*time.Second, 10*time.Millisecond)
}

func TestTheReadmesTranscriptIsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	printed := sampleRun(t, folder(t)).ends(t)
	moment := regexp.MustCompile(` +\d+\.\ds`)
	blocks := regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(document(t, "README.md"), 2)
	require.Len(t, blocks, 2, "a timeline and the endings")
	for _, block := range blocks {
		shown, said := moment.ReplaceAllString(printed, " 0.0s"), moment.ReplaceAllString(block[1], " 0.0s")
		require.True(t, strings.Contains(shown, said), "the README shows what is not printed:\n%s", block[1]) //nolint:testifylint // Contains would print all of it
	}
}

func TestASecondLocalRunOnTheSameFolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	first := start(t, nil, "local", "-empty", "-dir", dir, "-port", "0")
	require.Eventually(t, func() bool { return strings.Contains(first.stdout.String(), "/api/orders") }, 10*time.Second, 5*time.Millisecond)
	second := start(t, nil, "local", "-empty", "-dir", dir, "-port", "0")
	require.Equal(t, exitFailed, second.exitCode(t, 2*time.Second))
	require.Contains(t, second.stderr.String(), "-dir")
	require.Contains(t, second.stderr.String(), dir)
	require.Contains(t, second.stderr.String(), "another handler local")
}

func TestAFolderThatCannotBeUsedIsNotTakenForABusyOne(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "in-use.lock"), 0o700)) // root may write anywhere, but not a folder
	p := start(t, nil, "local", "-empty", "-dir", dir, "-port", "0")
	require.Equal(t, exitFailed, p.exitCode(t, 2*time.Second))
	require.Contains(t, p.stderr.String(), dir)
	require.NotContains(t, p.stderr.String(), "another handler local")
}

func TestAFolderIsTakenUnderItsOwnNameWhateverItIs(t *testing.T) {
	t.Parallel()
	parent := folder(t)
	for _, name := range []string{"a?b", "a%2Fb", "a b#c"} {
		p := start(t, nil, "local", "-empty", "-dir", filepath.Join(parent, name), "-port", "0")
		require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "/api/orders") }, 10*time.Second, 5*time.Millisecond, "stderr: %s", &p.stderr)
		require.FileExists(t, filepath.Join(parent, name, "in-use.lock"))
	}
	made, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, made, 3, "nothing beside the folders")
}

func TestAWrongEndingIsNamedAndTheRunFails(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	db, err := store.Open(t.Context(), filepath.Join(dir, "orders.db"), store.Options{Now: time.Now})
	require.NoError(t, err)
	other := simulation.Samples()[0] // an order of the same ID that cannot be had
	other.SKU = simulation.OutOfStock
	m, err := workflow.Envelope{ID: "another", Type: workflow.OrderPlaced, OrderID: other.OrderID, Body: other.Body()}.Decode()
	require.NoError(t, err)
	_, err = db.Handle(t.Context(), m)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	p := start(t, nil, "local", "-exit", "-dir", dir, "-port", "0", "-deadline", "3s")
	require.Equal(t, exitFailed, p.exitCode(t, time.Minute))
	require.Contains(t, p.stderr.String(), "wrong endings: order-1-ships is Cancelled, expected Completed")
	require.Contains(t, p.stdout.String(), "✗ order-1-ships")
}

func TestARunThatIsStoppedBeforeItsEndIsNotTakenForAGoodOne(t *testing.T) {
	t.Parallel()
	p := sampleRun(t, folder(t))
	require.Eventually(t, func() bool { return strings.Contains(p.stdout.String(), "order-1-ships") }, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitFailed, p.exitCode(t, 10*time.Second))
	require.Contains(t, p.stderr.String(), "-exit: stopped before every order was at rest")
	require.NotContains(t, p.stderr.String(), "context canceled")
}

func TestAFailedUndoOfASampleIsTriedAgainAndThatOfAnyOtherOrderIsLeftToWhoeverPlacedIt(t *testing.T) {
	t.Parallel()
	stuck := workflow.Order{ID: "order-9-refund-fails", Status: workflow.NeedsAttention, Effects: []workflow.Effect{{State: workflow.EffectFailed}}}
	require.True(t, retried(stuck))
	other := stuck
	other.ID = "order-42"
	require.False(t, retried(other))
	stuck.Effects = nil
	require.False(t, retried(stuck))
}

func TestTheSampleOrdersCoverEveryEnding(t *testing.T) {
	t.Parallel()
	endings := make(map[workflow.Status]bool)
	for _, s := range simulation.Samples() {
		endings[s.Ending] = true
	}
	require.ElementsMatch(t,
		[]workflow.Status{workflow.Completed, workflow.Cancelled, workflow.NeedsAttention},
		slices.Collect(maps.Keys(endings)))
}
