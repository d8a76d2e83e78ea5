package localbus

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is what one subscription should hold, in the simplest form: lists. It
// drives a bus beside it and compares.
type model struct {
	t    *testing.T
	path string
	bus  *Bus

	sent      []string
	waiting   []*modelled // in order of activation, deferred ones included
	scheduled []*modelled
	dead      []*modelled // in order of activation
	sessions  []*heldSession
	receivers []*DeadLetterReceiver
	state     map[string][]byte

	activations int
}

type modelled struct {
	id, session string
	order       int // of activation; while scheduled, of acceptance
	sequence    int64
	due         time.Time
	timeToLive  time.Duration
	expires     time.Time // zero for never
	failed      int
	deferred    bool

	by    settler // nil when not in delivery
	got   *Message
	until time.Time // of a dead letter's lock
}

// settler is a session or a receiver of dead letters.
type settler interface {
	Complete(context.Context, *Message) error
	Abandon(context.Context, *Message) error
	Release(context.Context, *Message) error
	Defer(context.Context, *Message) error
}

type heldSession struct {
	*Session
	until time.Time
}

func TestTheBusBehavesLikeItsModelWhateverHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, run := t.TempDir(), 0
		inBubble := struct{ rapid.TB }{t} // rapid asks a *testing.T for its deadline, which a bubble forbids
		rapid.Check(inBubble, func(r *rapid.T) {
			run++
			m := &model{t: t, path: filepath.Join(dir, fmt.Sprint(run)), state: map[string][]byte{}}
			m.open(r)
			r.Cleanup(func() { require.NoError(t, m.bus.Close()) })
			r.Repeat(map[string]func(*rapid.T){
				"":                 m.compare,
				"send":             m.send,
				"schedule":         m.schedule,
				"cancel":           m.cancel,
				"accept next":      m.acceptNext,
				"accept named":     m.acceptNamed,
				"receive":          m.receive,
				"receive more":     m.receive,
				"receive deferred": m.receiveDeferred,
				"complete":         m.complete,
				"abandon":          m.abandon,
				"release":          m.release,
				"defer":            m.setAside,
				"dead-letter":      m.deadLetter,
				"set state":        m.setState,
				"renew":            m.renew,
				"close":            m.close,
				"open dead":        m.openDead,
				"receive dead":     m.receiveDead,
				"deferred dead":    m.receiveDeferredDead,
				"renew dead":       m.renewDead,
				"close dead":       m.closeDead,
				"time passes":      m.pass,
				"restart":          m.restart,
				"kill":             m.kill,
			})
		})
	})
}

func (m *model) open(r *rapid.T) {
	var err error
	m.bus, err = Open(m.path, oneQueue(), time.Now)
	require.NoError(r, err)
}

func (m *model) compare(r *rapid.T) {
	synctest.Wait() // for what happens by itself
	m.expire()
	ctx := m.t.Context()
	peeked, err := m.bus.Peek(ctx, orders, billing)
	require.NoError(r, err)
	compareMessages(r, m.waiting, peeked)
	dead, err := m.bus.DeadLetters(ctx, orders, billing)
	require.NoError(r, err)
	compareMessages(r, m.dead, dead)

	active := map[string]bool{}
	for session := range m.state {
		active[session] = true
	}
	for _, x := range m.waiting {
		if !x.deferred {
			active[x.session] = true
		}
	}
	sessions, err := m.bus.Sessions(ctx, orders, billing)
	require.NoError(r, err)
	require.Equal(r, slices.Sorted(maps.Keys(active)), sessions)
}

// compareMessages notes their numbers as well.
func compareMessages(r *rapid.T, want []*modelled, got []Message) {
	var all []string
	for i, x := range want {
		all = append(all, x.id)
		require.Less(r, i, len(got), "lost: %s", x.id)
		require.Equal(r, x.failed, got[i].DeliveryCount, x.id)
		require.Equal(r, x.deferred, got[i].State == StateDeferred, x.id)
		x.sequence = got[i].SequenceNumber
	}
	require.Equal(r, all, ids(got))
}

// compareRest is compare for what changes less.
func (m *model) compareRest(r *rapid.T) {
	sent, err := m.bus.Sent(m.t.Context(), orders)
	require.NoError(r, err)
	require.Equal(r, m.sent, ids(sent))
	counts, err := m.bus.Counts(m.t.Context())
	require.NoError(r, err)
	require.Equal(r, len(m.scheduled), counts[orders].Scheduled)
}

func (m *model) draw(r *rapid.T) Message {
	x := message(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "session"), fmt.Sprint("m", len(m.sent)))
	if rapid.Bool().Draw(r, "expires") {
		x.TimeToLive = time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds to live")) * time.Second
	}
	return x
}

func (m *model) send(r *rapid.T) {
	var batch []Message
	for range rapid.IntRange(1, 3).Draw(r, "messages") {
		x := m.draw(r)
		batch = append(batch, x)
		m.sent = append(m.sent, x.MessageID)
		m.activate(&modelled{id: x.MessageID, session: x.SessionID, timeToLive: x.TimeToLive}, time.Now())
	}
	_, err := m.bus.Send(m.t.Context(), orders, batch...)
	require.NoError(r, err)
}

func (m *model) activate(x *modelled, at time.Time) {
	m.activations++
	x.order = m.activations
	if x.timeToLive > 0 {
		x.expires = at.Add(x.timeToLive)
	}
	m.waiting = append(m.waiting, x)
}

// expire has messages die that have outlived their time to live.
func (m *model) expire() {
	for _, x := range m.waiting {
		if x.by == nil && !x.deferred && x.expired() {
			m.die(x)
		}
	}
}

func (x *modelled) expired() bool {
	return !x.expires.IsZero() && !time.Now().Before(x.expires)
}

func (m *model) die(x *modelled) {
	m.waiting = without(m.waiting, x)
	x.deferred, x.by = false, nil
	m.dead = append(m.dead, x)
	slices.SortFunc(m.dead, func(a, b *modelled) int { return cmp.Compare(a.order, b.order) })
}

func (m *model) schedule(r *rapid.T) {
	x := m.draw(r)
	x.ScheduledAt = time.Now().Add(time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
	sequences, err := m.bus.Send(m.t.Context(), orders, x)
	require.NoError(r, err)
	m.scheduled = append(m.scheduled, &modelled{
		id: x.MessageID, session: x.SessionID, timeToLive: x.TimeToLive,
		due: x.ScheduledAt, order: len(m.sent), sequence: sequences[0],
	})
	m.sent = append(m.sent, x.MessageID)
}

func (m *model) cancel(r *rapid.T) {
	x := pick(r, m.scheduled)
	require.NoError(r, m.bus.CancelScheduled(m.t.Context(), orders, x.sequence))
	m.scheduled = without(m.scheduled, x)
	require.ErrorIs(r, m.bus.CancelScheduled(m.t.Context(), orders, x.sequence), ErrNotFound)
}

func (m *model) pass(r *rapid.T) {
	pass(time.Duration(rapid.IntRange(1, 70).Draw(r, "seconds")) * time.Second)
	now := time.Now()
	for _, s := range slices.Clone(m.sessions) {
		select {
		case <-s.Lost():
			require.False(r, now.Before(s.until))
		default:
			require.True(r, now.Before(s.until))
			continue
		}
		for _, x := range m.heldBy(s) {
			require.ErrorIs(r, s.Complete(m.t.Context(), x.got), ErrSessionLockLost)
			m.fail(x)
		}
		m.sessions = without(m.sessions, s)
	}
	for _, x := range m.dead {
		if x.by != nil && !now.Before(x.until) {
			require.ErrorIs(r, x.by.Complete(m.t.Context(), x.got), ErrMessageLockLost)
			m.fail(x)
		}
	}
	slices.SortFunc(m.scheduled, func(a, b *modelled) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.order, b.order))
	})
	for len(m.scheduled) > 0 && !now.Before(m.scheduled[0].due) {
		m.activate(m.scheduled[0], m.scheduled[0].due)
		m.scheduled = m.scheduled[1:]
	}
}

func (m *model) restart(r *rapid.T) {
	require.NoError(r, m.bus.Close())
	m.begin(r)
}

func (m *model) kill(r *rapid.T) {
	next := m.path + "+"
	copyFile(r, m.path, next)
	require.NoError(r, m.bus.Close())
	m.path = next
	m.begin(r)
}

// begin is the next run: nobody holds anything.
func (m *model) begin(r *rapid.T) {
	m.sessions, m.receivers = nil, nil
	for _, x := range slices.Concat(m.waiting, m.dead) {
		x.by = nil
	}
	m.open(r)
	m.compareRest(r)
}

func pick[T any](r *rapid.T, from []T) T {
	if len(from) == 0 {
		r.Skip("nothing to pick from")
	}
	return rapid.SampledFrom(from).Draw(r, "one")
}

func without[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(y T) bool { return y == x })
}
