package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow/outbox"
)

// leased is a dispatcher with a lease of six seconds, which it renews every two,
// and ample time for a send.
func leased(t *testing.T, rows *table, bus *broker) *outbox.Dispatcher {
	t.Helper()
	d := known(t, rows, bus)
	d.Lease, d.SendTimeout, d.Budget = 6*time.Second, time.Hour, 24*time.Hour
	return d
}

// drains starts a drain that must not fail, and waits for its end.
func drains(t *testing.T, d *outbox.Dispatcher) (ended func()) {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		_, _, err := d.Drain(t.Context())
		result <- err
	}()
	return func() {
		t.Helper()
		require.NoError(t, <-result)
	}
}

func TestASendMayTakeLongerThanTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(time.Minute, "A1")}
		d := leased(t, &rows, &bus)
		rows.add("A1", "A2")
		ended := drains(t, d)
		for range 70 { // another looks all the time
			time.Sleep(time.Second)
			drained(t, dispatcher(&rows, &bus))
		}
		ended()
		require.Equal(t, []string{"A1", "A2"}, bus.of("A"))
		require.Equal(t, "sent", rows.state("A1"))
	})
}

func TestWhatWaitsForItsTurnKeepsItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(9 * time.Second)}
		d := leased(t, &rows, &bus)
		d.Parallel = 1
		rows.alphabet()
		sent, more := drained(t, d)
		require.Equal(t, 26, sent)
		require.False(t, more)
		require.Len(t, bus.got, 26, "each was sent once, in a claim that held")
		require.Equal(t, 2, rows.claims, "and that was the only one")
	})
}

func TestALeaseThatIsNotNeededIsNotRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(5 * time.Second)}
		d := leased(t, &rows, &bus)
		rows.add("A1")
		drained(t, d)
		require.Equal(t, 2, rows.renewals, "after two and after four seconds")
		bus.refuse = taking(900 * time.Millisecond)
		rows.add("A2", "A3")
		drained(t, d)
		require.Equal(t, 2, rows.renewals)
	})
}

func TestAfterARenewalThatFailsNothingOfTheClaimIsBegunAndWhatIsUnderWayIsMarked(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"before", "after"} {
		synctest.Test(t, func(t *testing.T) {
			var rows table
			bus := broker{refuse: taking(3 * time.Second)}
			d := leased(t, &rows, &bus)
			d.Parallel = 1
			log := logTo(d)
			rows.add("A1", "B1", "C1")
			failing := only("renew", errors.New("no connection"))
			if how == "before" {
				rows.before = failing
			} else {
				rows.after = failing
			}
			ended := drains(t, d)
			time.Sleep(2500 * time.Millisecond) // the renewal failed at two
			rows.set(nil, nil)
			require.Equal(t, 1, rows.asked())
			require.Equal(t, "waiting after 0 attempts", rows.state("B1"), "given back at once")
			require.Equal(t, "claimed", rows.state("A1"))
			ended()
			require.Equal(t, []string{"A1", "B1", "C1"}, bus.got)
			require.Greater(t, rows.claims, 1, "the others were claimed anew")
			require.Len(t, log.with(warnLine), 1)
		})
	}
}

func TestAfterARenewalThatShowsThatOthersHaveRowsNothingOfTheClaimIsBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: taking(3 * time.Second)}
		d := leased(t, &rows, &bus)
		d.Parallel = 1
		log := logTo(d)
		rows.add("A1", "B1", "C1")
		begun := time.Now()
		ended := drains(t, d)
		time.Sleep(time.Second)
		rows.mu.Lock()
		rows.find("C1").token = "another" // as after a pause of this process
		rows.mu.Unlock()
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, "waiting after 0 attempts", rows.state("B1"))
		require.Equal(t, "claimed", rows.state("C1"), "by the other")
		ended()
		require.Equal(t, []string{"A1", "B1", "C1"}, bus.got)
		require.Equal(t, 9*time.Second, time.Since(begun), "C was sent when the other's lease was over")
		require.Equal(t, []string{`"a lease was lost" rows=3 held=2`}, log.with(warnLine))
	})
}

// stuck makes some calls of one method wait.
func stuck(method string, d time.Duration, times int64) func(string) error {
	var calls atomic.Int64
	return func(m string) error {
		if m == method && calls.Add(1) <= times {
			time.Sleep(d)
		}
		return nil
	}
}

func TestNothingIsBegunWhenTheLeaseCannotBeShownToHoldAnyMore(t *testing.T) {
	t.Parallel()
	for range 20 { // as which of two things is seen to first is left to chance
		synctest.Test(t, func(t *testing.T) {
			var rows table
			bus := broker{refuse: taking(time.Second, "A1")}
			d := leased(t, &rows, &bus)
			d.Parallel = 1
			held := ownLease(t, &rows, &bus)
			rows.add("A1", "B1")
			wake, stop := running(t, d)
			wake <- struct{}{}
			time.Sleep(500 * time.Millisecond)
			// A1 is under way and B1 waits. The books stand still over a claim for
			// almost as long as their lease, and then it cannot be renewed.
			still, lost := stuck("claim", 5*time.Second, 1), only("renew", errors.New("no connection"))
			rows.set(func(method string) error { return errors.Join(still(method), lost(method)) }, nil)
			wake <- struct{}{}
			time.Sleep(time.Minute)
			stop()
			held()
			require.Equal(t, []string{"A1", "B1"}, bus.got)
		})
	}
}

// ownLease makes a test fail if something is begun that has less than a tenth of
// its lease of six seconds left; held looks that something was begun at all.
func ownLease(t *testing.T, rows *table, bus *broker) (held func()) {
	t.Helper()
	begun, refuse := 0, bus.refuse
	bus.refuse = func(ctx context.Context, id string) error {
		rows.mu.Lock()
		begun++
		if r := rows.find(id); r.token == "" || time.Until(r.visibleAt) < 600*time.Millisecond {
			t.Errorf("%s is begun %s before its lease ends", id, time.Until(r.visibleAt))
		}
		rows.mu.Unlock()
		if refuse == nil {
			return nil
		}
		return refuse(ctx, id)
	}
	return func() {
		t.Helper()
		require.NotZero(t, begun)
	}
}

func TestALeaseIsCountedFromBeforeItWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var bus broker
		d := leased(t, &rows, &bus)
		rows.add("A1")
		rows.set(nil, stuck("claim", 7*time.Second, 1))
		_, more, err := d.Drain(t.Context())
		require.EqualError(t, err, "drain the outbox: it takes longer than a lease lasts")
		require.True(t, more)
		require.Empty(t, bus.got)
		drained(t, d)
		require.Equal(t, []string{"A1"}, bus.got)
	})
}

func TestALeaseThatWasRenewedIsCountedFromBeforeThat(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			var rows table
			bus := broker{refuse: taking(3500*time.Millisecond, "A1")}
			d := leased(t, &rows, &bus)
			d.Parallel = 1
			held := ownLease(t, &rows, &bus)
			rows.add("A1", "B1")
			wake, stop := running(t, d)
			wake <- struct{}{}
			time.Sleep(time.Second)
			// The renewal after two seconds is carried out at once and answered
			// after almost two more; then the books stand still over a claim, and
			// there is no second renewal.
			still, renewals := stuck("claim", 3700*time.Millisecond, 1), 0
			rows.set(func(method string) error {
				if method == "renew" {
					if renewals++; renewals > 1 {
						return errors.New("no connection")
					}
				}
				return still(method)
			}, stuck("renew", 1900*time.Millisecond, 1))
			time.Sleep(1500 * time.Millisecond)
			wake <- struct{}{}
			time.Sleep(time.Minute)
			stop()
			held()
			require.Equal(t, []string{"A1", "B1"}, bus.got)
		})
	}
}
