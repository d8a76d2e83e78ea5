package audit

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// outage has a writer at work while its table goes away and comes back, and
// requires that everything is there in the end, and two lines in the log.
func outage(t *testing.T, c Connection, away, back func(), attempts func() int64) {
	t.Helper()
	s := &source{}
	w, said := writer(t, c, s)
	wake := runs(t, w)
	want := map[string][]workflow.Event{}
	add := func(from int) {
		for n := range 20 {
			id := fmt.Sprint("order-", from+n)
			want[id] = events(id, 5)
			s.add(want[id]...)
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	emptied := func() bool { return s.left() == 0 }
	add(0)
	require.Eventually(t, emptied, time.Minute, 20*time.Millisecond)
	require.Empty(t, said.read())

	away()
	add(20)
	require.Eventually(t, func() bool { return len(said.read()) == 1 }, time.Minute, 20*time.Millisecond)
	looks := s.looks()
	over := time.After(3 * time.Second)
	for waiting := true; waiting; {
		select {
		case <-over:
			waiting = false
		case <-time.After(50 * time.Millisecond):
			select { // commits go on
			case wake <- struct{}{}:
			default:
			}
		}
	}
	require.LessOrEqual(t, s.looks()-looks, 30, "it is not tried at each commit")
	if attempts != nil { // two tries of three orders at each look
		require.LessOrEqual(t, attempts(), int64(6*s.looks()))
	}
	require.Equal(t, 100, s.left())
	add(40)

	back()
	require.Eventually(t, emptied, 2*time.Minute, 20*time.Millisecond)
	for id, all := range want {
		require.Equal(t, all, story(trail(t, w, id)))
	}
	require.Eventually(t, func() bool { return len(said.read()) == 2 }, time.Minute, 20*time.Millisecond)
	require.Contains(t, said.read()[0], `level=ERROR msg="the audit cannot be written" error="AuditStorage: `)
	require.Contains(t, said.read()[1], `level=INFO msg="the audit is written again" failures=`)
}

func TestAfterATableWasAwayForAWhileEverythingIsThere(t *testing.T) {
	t.Parallel()
	t.Run("its connections are cut", func(t *testing.T) {
		t.Parallel()
		c := inAzurite(t)
		a, err := shared()
		require.NoError(t, err)
		way := wayTo(t, a.address)
		c.String = connectionString(way.address)
		outage(t, c, func() { way.close(false) }, way.open, way.tried.Load)
	})
	t.Run("it falls silent", func(t *testing.T) {
		t.Parallel()
		c := inAzurite(t)
		a, err := shared()
		require.NoError(t, err)
		way := wayTo(t, a.address)
		c.String = connectionString(way.address)
		outage(t, c, func() { way.close(true) }, way.open, way.tried.Load)
	})
	t.Run("it is stopped", func(t *testing.T) {
		t.Parallel()
		needsAzurite(t)
		folder := t.TempDir()
		a, err := startAzurite("0", folder)
		require.NoError(t, err)
		stop := a.stop
		t.Cleanup(func() { require.NoError(t, stop()) })
		_, port, err := net.SplitHostPort(strings.TrimPrefix(a.address, "http://"))
		require.NoError(t, err)
		outage(t, at(a.address), func() {
			require.NoError(t, stop())
			stop = func() error { return nil }
		}, func() {
			again, err := startAzurite(port, folder)
			require.NoError(t, err)
			stop = again.stop
		}, nil)
	})
}

func TestOverAConnectionThatBreaksAllTheTimeNothingIsMissingOrDoubled(t *testing.T) {
	t.Parallel()
	c := inAzurite(t)
	a, err := shared()
	require.NoError(t, err)
	way := wayTo(t, a.address)
	c.String = connectionString(way.address)
	s := &source{}
	want := map[string][]workflow.Event{}
	for n := range 40 {
		id := fmt.Sprint("order-", n)
		want[id] = events(id, 40)
		s.add(want[id]...)
	}
	w, _ := writer(t, c, s)
	breaking, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		again := time.NewTicker(25 * time.Millisecond)
		defer again.Stop()
		for {
			way.open() // which cuts off whoever passes
			select {
			case <-again.C:
			case <-breaking.Done():
				return
			}
		}
	})
	runs(t, w)
	require.Eventually(t, func() bool { return s.left() < 1000 }, 2*time.Minute, 10*time.Millisecond)
	cancel()
	running.Wait()
	require.Eventually(t, func() bool { return s.left() == 0 }, 2*time.Minute, 20*time.Millisecond)
	for id, all := range want {
		require.Equal(t, all, story(trail(t, w, id)))
	}
}

func TestAWriteThatEndsAmidstLeavesTheRestToTheNext(t *testing.T) {
	t.Parallel()
	c := inAzurite(t)
	want := map[string][]workflow.Event{}
	s := &source{}
	for n := range 30 {
		id := fmt.Sprint("order-", n)
		want[id] = events(id, 15)
		s.add(want[id]...)
	}
	w, said := writer(t, c, s)
	for patience := 5 * time.Millisecond; s.left() > 0; patience += 5 * time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		before := s.left()
		written, _, err := w.Write(ctx)
		require.Equal(t, before-written, s.left())
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, errRefused)
		}
		cancel()
	}
	for id, all := range want {
		require.Equal(t, all, story(trail(t, w, id)))
	}
	require.Empty(t, said.read())
	require.True(t, slices.IsSortedFunc(trail(t, w, "order-0"), func(a, b Entry) int { return b.At.Compare(a.At) }))
}
