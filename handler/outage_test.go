package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/funchost"
	"orderflow/workflow/store/storetest"
)

// befriend plays the services around a rig's orders, calm and without faults,
// until end has been called.
func befriend(t *testing.T, r *rig) (world *rough, end func()) {
	t.Helper()
	world = &rough{
		bus: r.bus, commands: r.settings.CommandsTopic, orders: r.settings.OrdersTopic, friendly: true,
		calm: new(atomic.Bool), done: make(map[string]*deeds), said: make(map[string]int),
	}
	world.calm.Store(true)
	working, stop := context.WithCancel(t.Context())
	var services sync.WaitGroup
	services.Go(func() { world.run(working) })
	return world, func() {
		stop()
		services.Wait()
	}
}

// TestADatabaseTakenAwayForThirtySecondsUsesAtMostThreeDeliveries takes the
// database away while 500 orders are under way. The host delivers what fails
// again at once, and after ten times not at all.
func TestADatabaseTakenAwayForThirtySecondsUsesAtMostThreeDeliveries(t *testing.T) {
	t.Parallel()
	outage, patience := 30*time.Second, 60*time.Second // the default of HandlerDeadline
	if testing.Short() {
		outage, patience = 5*time.Second, 10*time.Second
	}
	const orders = 500

	executable, err := binary()
	require.NoError(t, err)
	var most, exits atomic.Int64
	r := raise(t, rigging{
		instances: 1, executable: executable, window: 10 * time.Minute, idle: 200 * time.Millisecond,
		environ: map[string]string{"HandlerDeadline": patience.String()},
		onExit:  func() { exits.Add(1) },
		onInvocation: func(i funchost.Invocation) {
			for n := most.Load(); int64(i.DeliveryCount) > n && !most.CompareAndSwap(n, int64(i.DeliveryCount)); n = most.Load() {
			}
		},
	})

	world, end := befriend(t, r)
	defer end()
	for n := range orders {
		order := fmt.Sprintf("order-%03d", n)
		require.NoError(t, world.mail(t.Context(), order, "shop:"+order, orderBody(order, 12990)))
	}

	db := r.sql()
	completed := func() int { return number(t.Context(), db, `SELECT COUNT(*) FROM orders WHERE status = 'Completed'`) }
	require.Eventually(t, func() bool { return number(t.Context(), db, `SELECT COUNT(*) FROM orders`) > orders/4 },
		30*time.Second, 20*time.Millisecond, "orders are under way")
	require.Less(t, completed(), orders/2, "and not yet at their end")

	t.Logf("%d orders are at their end", completed())
	printed := len(r.printed())
	away, err := takeDatabase(t.Context(), db, outage)
	require.NoError(t, err)
	require.GreaterOrEqual(t, away, outage)
	require.Less(t, completed(), orders, "nothing moved meanwhile")
	t.Logf("it is back; %d orders are at their end", completed())
	during := r.printed()[printed:]

	require.Eventually(t, func() bool { return completed() == orders && r.onTheBus(t.Context()) == 0 },
		60*time.Second, 100*time.Millisecond, "every order goes on and ends well")
	t.Log("all orders are at their end")
	r.stop()
	require.Empty(t, r.deadLetters(t.Context()))
	require.LessOrEqual(t, most.Load(), int64(3), "deliveries of a message")
	require.Zero(t, exits.Load(), "the handler lives")
	record := storetest.Sound(t.Context(), t, r.sql())
	require.Empty(t, record.Unrest(time.Now()))
	wrong, belated := record.Misheard(world.heard)
	require.Empty(t, wrong)
	require.Empty(t, belated)
	require.Empty(t, record.Unheard(world.heard))

	complaints := 0
	for _, line := range during {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, `"level":"WARN"`) {
			complaints++
		}
	}
	t.Logf("away for %s; most deliveries %d; %d lines, of which %d complain", away.Round(time.Second), most.Load(), len(during), complaints)
	require.LessOrEqual(t, complaints, 30, "it says what is wrong, and not all the time:\n%s", strings.Join(during[:min(len(during), 10)], "\n"))
}
