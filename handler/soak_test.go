package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/funchost"
	"orderflow/workflow"
	"orderflow/workflow/store"
	"orderflow/workflow/store/storetest"
)

// The soak is one command:
//
//	go test ./handler -run TestSoak -soak 5m -v
var (
	soakFor  = flag.Duration("soak", 15*time.Second, "how long TestSoak breaks things")
	soakSeed = flag.Uint64("soak.seed", 0, "what TestSoak breaks, and when; 0 picks a seed and prints it")
	soakRate = flag.Float64("soak.rate", 8, "how many orders TestSoak places in a second")
)

// soakTime is how long the soak breaks things: as asked for, or a few seconds
// where time is short.
func soakTime() time.Duration {
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "soak" })
	if testing.Short() && !asked {
		return 6 * time.Second
	}
	return *soakFor
}

// soakDeadline is every deadline of an order in the soak.
const soakDeadline = 4 * time.Second

// TestSoak breaks whatever can break, all at once, while orders go through two
// instances of the app: handlers are killed, messages panic, sends fail or are
// lost or late, connections are cut, the database is taken away, services lie,
// repeat themselves and come too early or too late. Then everything is left
// alone, comes to rest, and the database is looked at: whatever the journal
// says is replayed, and nothing may be lost, doubled or stuck in silence.
//
// A seed repeats what is broken and how the world answers, as far as processes
// that race for one database let anything be repeated.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := newSoak(t)
	s.breakThings(t)
	s.rest(t)
	s.r.stop()
	s.verdict(t)
}

// soak is one run.
type soak struct {
	r     *rig
	world *rough
	seed  uint64
	lasts time.Duration
	dir   string
	db    *sql.DB      // past the store
	desk  *store.Store // the operator's
	calm  atomic.Bool

	mu     sync.Mutex
	counts map[string]int      // faults and deeds, by kind
	most   int                 // deliveries of a message
	failed map[string][]string // by message, how its deliveries failed
	placed atomic.Int64
	events atomic.Int64 // at the bus
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{seed: *soakSeed, lasts: soakTime(), dir: t.TempDir(), counts: make(map[string]int), failed: make(map[string][]string)}
	if s.seed == 0 {
		s.seed = rand.Uint64N(1_000_000)
	}
	t.Logf("seed %d: go test ./handler -run TestSoak -soak %s -soak.seed %d -v", s.seed, s.lasts, s.seed)

	require.NoError(t, os.Mkdir(s.file("marks"), 0o700))
	self, err := os.Executable()
	require.NoError(t, err)
	broken, err := json.Marshal(troubles{
		Seed: s.seed, Calm: s.file("calm"), Marks: s.file("marks"), Log: s.file("faults"),
		Panics: 0.02, PanicsThrice: 0.01, PanicsAlways: 0.004,
		RefusedOnce: 0.02, RefusedForGood: 0.01,
		Outage: 0.04, LostAnswer: 0.02, Slow: 0.01,
	})
	require.NoError(t, err)
	deadline := soakDeadline.String()
	s.r = raise(t, rigging{
		instances: 2, executable: self, faults: busserver.Faults{On: s.bus}, onInvocation: s.invoked,
		environ: map[string]string{
			faultyChild:         string(broken),
			"InventoryDeadline": deadline, "PaymentDeadline": deadline, "ShipmentDeadline": deadline, "CompensationDeadline": deadline,
			"TimeoutSendAhead": "1s", "OutboxSchedule": "* * * * * *", "SweepSchedule": "* * * * * *", "OutboxLease": "2s", "HandlerDeadline": "20s",
		},
	})
	s.world = &rough{
		bus: s.r.bus, commands: s.r.settings.CommandsTopic, orders: s.r.settings.OrdersTopic,
		seed: s.seed, deadline: soakDeadline, calm: &s.calm, done: make(map[string]*deeds), said: make(map[string]int),
	}
	s.desk, err = store.Open(t.Context(), s.r.database, store.Options{
		Now: time.Now, Deadlines: s.r.settings.deadlines(), SendAhead: s.r.settings.TimeoutSendAhead,
		DuplicateDetection: time.Second, // the bus of the soak has none
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.desk.Close() })
	s.db = s.r.sql()
	return s
}

func (s *soak) file(name string) string { return filepath.Join(s.dir, name) }

func (s *soak) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// bus breaks the broker's side of the wire.
func (s *soak) bus(e busserver.Event) busserver.Fault {
	if s.calm.Load() {
		return busserver.Fault{}
	}
	luck := roll(s.seed, "bus", s.events.Add(1))
	fault := func(what string, f busserver.Fault) busserver.Fault {
		s.count("bus: " + what)
		return f
	}
	switch e.Moment {
	case busserver.Arrived, busserver.Taken, busserver.Requested, busserver.Attaching:
	default:
		return busserver.Fault{}
	}
	switch {
	case luck < 0.010:
		return fault("connections cut", busserver.Fault{Cut: true})
	case luck < 0.020:
		return fault("links detached", busserver.Fault{Detach: amqp.Errorf(amqp.DetachForced, "the soak")})
	case luck < 0.030:
		return fault("server busy", busserver.Fault{Refuse: busserver.ServerBusy()})
	case luck < 0.038 && e.Moment == busserver.Taken:
		return fault("answers lost", busserver.Fault{LoseAnswer: true})
	case luck < 0.044 && e.Moment == busserver.Taken: // well above the lease: what is sent is there, its sender is not told
		until := make(chan struct{})
		time.AfterFunc(3*time.Second, func() { close(until) })
		return fault("answers later than the lease", busserver.Fault{Until: until})
	}
	return busserver.Fault{}
}

// invoked sees how a message's delivery ended.
func (s *soak) invoked(i funchost.Invocation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = max(s.most, i.DeliveryCount)
	if i.DeliveryCount > 1 {
		s.counts["deliveries repeated"]++
	}
	if i.Err != nil && i.MessageID != "" {
		s.failed[i.MessageID] = append(s.failed[i.MessageID], fmt.Sprintf("%s: %v", i.Duration.Round(time.Millisecond), i.Err))
	}
	switch {
	case errors.Is(i.Err, funchost.ErrKilled):
		s.counts["deliveries ended by a kill"]++
	case i.Err != nil && i.MessageID == "":
		s.counts["requests and timers cut off"]++
	case i.Err != nil:
		s.counts[fmt.Sprintf("deliveries answered with %d", i.Status)]++
	}
	for _, line := range i.Logs {
		if strings.Contains(line, ": "+string(workflow.Duplicate)) {
			s.counts["duplicates seen"]++
		}
	}
}

// breakThings breaks things for as long as was asked for.
func (s *soak) breakThings(t *testing.T) {
	t.Helper()
	until, cancel := context.WithTimeout(t.Context(), s.lasts)
	defer cancel()
	world, endWorld := context.WithCancel(t.Context())
	go s.world.run(world)
	t.Cleanup(endWorld)

	var wg sync.WaitGroup
	chaos := rand.New(rand.NewPCG(s.seed, 0)) //nolint:gosec // it is to be repeatable
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(chaos.Int64N(int64(most-least)))
	}
	var kills, thefts []time.Duration // drawn beforehand: a generator is not shared
	for range 10_000 {
		kills, thefts = append(kills, between(time.Second, 2*time.Second)), append(thefts, between(time.Second, 2*time.Second))
	}
	wg.Go(func() { // whoever kills handlers
		for n := 0; pass(until, kills[n]); n++ {
			s.r.instances[n%len(s.r.instances)].worker.kill()
			s.count("handlers killed")
		}
	})
	wg.Go(func() { // whoever takes the database away
		for n := 0; pass(until, 3*thefts[n]); n++ {
			if _, err := takeDatabase(until, s.db, thefts[n]); err == nil {
				s.count("database taken away")
			}
		}
	})
	always := t.Context()
	wg.Go(func() { // the customers
		var shops sync.WaitGroup
		defer shops.Wait()
		for n := 0; pass(until, time.Duration(float64(time.Second) / *soakRate)); n++ {
			shops.Go(func() {
				s.customer(always, t, //nolint:contextcheck // they do not give up when the faults end
					fmt.Sprintf("order-%d-%05d", s.seed, n))
			})
		}
	})
	wg.Go(func() { // the operator
		for n := 0; pass(until, 500*time.Millisecond); n++ {
			if time.Until(deadlineOf(until)) < s.lasts/2 {
				s.operate(until, n)
			}
		}
	})
	wg.Go(func() {
		for pass(until, 5*time.Second) {
			s.mu.Lock()
			t.Logf("%s left, %d orders placed, most deliveries %d, %s", time.Until(deadlineOf(until)).Round(time.Second), s.placed.Load(), s.most, tell(s.counts))
			s.mu.Unlock()
		}
	})
	wg.Wait()
	s.calm.Store(true)
	require.NoError(t, os.WriteFile(s.file("calm"), nil, 0o600))
}

func deadlineOf(ctx context.Context) time.Time {
	at, _ := ctx.Deadline()
	return at
}

// pass waits; false when ctx ended first.
func pass(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// customer is one order's: placed, foreseen, or only spoken of.
func (s *soak) customer(ctx context.Context, t *testing.T, order string) {
	luck := roll(s.seed, "customer", order)
	if luck < 0.10 { // the services are faster than the order
		if err := s.world.foresee(ctx, order); err != nil {
			t.Errorf("foresee %s: %v", order, err)
		}
	}
	if luck < 0.02 {
		s.count("orders never placed")
		return
	}
	if err := s.world.shop(ctx, s.r, order); err != nil {
		t.Errorf("place %s: %v", order, err)
	}
	s.placed.Add(1)
	if luck > 0.92 {
		err := s.world.say(ctx, order, nil, saying{
			id: order + ":changed-mind", kind: workflow.CancellationRequested, fields: map[string]any{"reason": "found it cheaper"},
			after: time.Duration(roll(s.seed, "change", order) * float64(2*time.Second)),
		})
		if err != nil {
			t.Errorf("cancel %s: %v", order, err)
		}
		s.count("orders cancelled by customers")
	}
}

// operate looks once at all that needs a person, and does something about most
// of it.
func (s *soak) operate(ctx context.Context, round int) {
	left := func(order string) bool { return roll(s.seed, "left", order) < 0.3 }
	for _, order := range s.orders(ctx, `SELECT order_id FROM orders WHERE status = 'NeedsAttention'
UNION SELECT order_id FROM outbox WHERE state = 'dead' UNION SELECT order_id FROM journal WHERE outcome = 'Blocked'`) {
		if left(order) || ctx.Err() != nil {
			continue
		}
		story, err := s.desk.Story(ctx, order)
		if err != nil {
			continue // another time
		}
		luck := roll(s.seed, "operator", order, round)
		switch {
		case story.BlockedBy != "" && luck < 0.8:
			s.act(ctx, workflow.RetryMessage, order, story.BlockedBy)
		case story.BlockedBy != "":
			s.act(ctx, workflow.SkipMessage, order, story.BlockedBy)
		case story.Order.Status == workflow.NeedsAttention:
			s.resolve(ctx, story.Order, luck)
			for _, id := range story.Order.Awaited() {
				if luck > 0.9 {
					s.act(ctx, workflow.SendAgain, order, id)
				}
			}
		}
		for _, d := range story.Outbox {
			switch {
			case d.State != workflow.DispatchDead:
			case story.Order.Awaits(d.ID):
				s.act(ctx, workflow.SendAgain, order, d.ID)
			default:
				s.act(ctx, workflow.DiscardCommand, order, d.ID)
			}
		}
	}
}

// orders asks the database for order IDs; one that is away has none.
func (s *soak) orders(ctx context.Context, query string) (ids []string) {
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if rows.Scan(&id) == nil {
			ids = append(ids, id)
		}
	}
	if rows.Err() != nil {
		return nil
	}
	return ids
}

func (s *soak) act(ctx context.Context, kind workflow.ActionKind, order, target string) {
	d, err := s.desk.Act(ctx, workflow.Action{Kind: kind, OrderID: order, Target: target, Reason: "the soak's operator", Actor: "ada"})
	if err != nil {
		s.count(fmt.Sprintf("operator: %s failed", kind))
		return
	}
	s.count(fmt.Sprintf("operator: %s %s", kind, d.Outcome))
}

// resolve decides about an order that only a person can decide about.
func (s *soak) resolve(ctx context.Context, o workflow.Order, luck float64) {
	how := workflow.ResolveCancelled
	switch {
	case failedUndo(o) && luck < 0.8:
		how = workflow.Retry
	case luck < 0.3:
		how = workflow.ResolveCompleted
	}
	m, err := workflow.Envelope{
		ID: workflow.ActionID(o.ID, how, o.Version), Type: how, OrderID: o.ID, Conversation: o.Conversation, OriginID: o.Origin,
		Body: workflow.ActionBody(o.ID, o.Version, "the soak's operator"),
	}.Decode()
	if err != nil {
		s.count("operator: " + err.Error())
		return
	}
	d, err := s.desk.Handle(ctx, m)
	if err != nil {
		s.count(fmt.Sprintf("operator: %s failed", how))
		return
	}
	s.count(fmt.Sprintf("operator: %s %s", how, d.Outcome))
}

// rest waits until nothing moves any more.
func (s *soak) rest(t *testing.T) {
	t.Helper()
	began := time.Now()
	limit, cancel := context.WithTimeout(t.Context(), 2*time.Minute+s.lasts/2)
	defer cancel()
	for quiet := 0; quiet < 3; {
		if !pass(limit, 500*time.Millisecond) {
			t.Errorf("it does not come to rest: after %s, %d messages are on the bus", time.Since(began).Round(time.Second), s.r.onTheBus(t.Context()))
			return // what is wrong with it the verdict says
		}
		quiet++
		record, err := storetest.Read(t.Context(), s.db)
		require.NoError(t, err)
		if s.r.onTheBus(t.Context()) != 0 || len(record.Unrest(time.Now())) > 0 {
			quiet = 0
		}
	}
	t.Logf("at rest %s after the last fault", time.Since(began).Round(100*time.Millisecond))
}

// verdict looks at what is left.
func (s *soak) verdict(t *testing.T) {
	t.Helper()
	record, err := storetest.Read(t.Context(), s.db)
	require.NoError(t, err)
	s.summary(t, record)

	s.world.mu.Lock()
	heard := slices.Clone(s.world.heard)
	s.world.mu.Unlock()
	accepted := s.r.accepted(t)
	misordered, belated := record.Misheard(accepted)
	misheard, _ := record.Misheard(heard)
	t.Logf("%d commands came after their order had turned back from them, having been on the way %s", len(belated), strings.Join(belated, "; "))
	wrong := slices.Concat(
		record.Faults(), record.Unrest(time.Now()), misordered, misheard, record.Unheard(heard),
		s.world.wrongs(), s.r.deadLetters(t.Context()),
	)
	require.Empty(t, strings.Join(wrong[:min(len(wrong), 30)], "\n"), "%d things are wrong", len(wrong))
	backlog, err := s.desk.Backlog(t.Context())
	require.NoError(t, err)
	_, outbox := record.Tally()
	require.Equal(t, workflow.Backlog{Dead: outbox["dead"], Blocked: record.Endings()["blocked"], Early: backlog.Early}, backlog)
	require.Less(t, s.most, 10, "deliveries of a message")
}

// summary prints what happened.
func (s *soak) summary(t *testing.T, record *storetest.Record) {
	t.Helper()
	faults, err := os.ReadFile(s.file("faults"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(string(faults)) {
		s.counts["handler: "+strings.TrimSpace(line)]++
	}
	s.world.mu.Lock()
	for kind, n := range s.world.said {
		s.counts["services: "+kind] = n
	}
	repeats, seen := 0, make(map[string]bool)
	for _, h := range s.world.heard {
		if seen[h.ID] {
			repeats++
		}
		seen[h.ID] = true
	}
	s.world.mu.Unlock()
	journal, outbox := record.Tally()
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s of faults, %d orders placed\n", s.seed, s.lasts, s.placed.Load())
	for _, part := range []struct {
		name string
		of   map[string]int
	}{
		{"orders by ending", record.Endings()}, {"journal by outcome", journal}, {"outbox by state", outbox}, {"faults and deeds", s.counts},
		{"services", map[string]int{"commands heard": len(seen), "heard again": repeats}},
		{"deliveries", map[string]int{"most of one message": s.most, "dead letters": len(s.r.deadLetters(t.Context()))}},
	} {
		fmt.Fprintf(&b, "\n  %s\n", part.name)
		for _, key := range slices.Sorted(maps.Keys(part.of)) {
			fmt.Fprintf(&b, "    %7d  %s\n", part.of[key], key)
		}
	}
	if worst, why := s.worst(); len(why) > 0 {
		fmt.Fprintf(&b, "\n  the most failed deliveries were of %s\n    %s\n", worst, strings.Join(why, "\n    "))
	}
	t.Log(b.String())
}

// worst is the message whose delivery failed most often, and how.
func (s *soak) worst() (id string, why []string) {
	for message, failures := range s.failed {
		if len(failures) > len(why) {
			id, why = message, failures
		}
	}
	return id, why
}

// tell is the largest few of counts, in a line.
func tell(counts map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	parts := make([]string, 0, 5)
	for _, key := range keys[:min(len(keys), 5)] {
		parts = append(parts, fmt.Sprintf("%d %s", counts[key], key))
	}
	return strings.Join(parts, ", ")
}
