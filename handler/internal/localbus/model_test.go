package localbus

import (
	"cmp"
	"fmt"
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
	waiting   []*modelled // in order of activation
	scheduled []*modelled
	dead      []string
	sessions  []*heldSession

	activations int
}

type modelled struct {
	id, session string
	order       int // of activation; while scheduled, of acceptance
	failed      int
	due         time.Time
	sequence    int64 // while scheduled
}

type heldSession struct {
	*Session
	until time.Time
	out   *modelled
	got   *Message
}

func TestTheBusBehavesLikeItsModelWhateverHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, run := t.TempDir(), 0
		inBubble := struct{ rapid.TB }{t} // rapid asks a *testing.T for its deadline, which a bubble forbids
		rapid.Check(inBubble, func(r *rapid.T) {
			run++
			m := &model{t: t, path: filepath.Join(dir, fmt.Sprint(run))}
			m.open(r)
			r.Cleanup(func() { require.NoError(t, m.bus.Close()) })
			r.Repeat(map[string]func(*rapid.T){
				"":             m.compare,
				"send":         m.send,
				"schedule":     m.schedule,
				"cancel":       m.cancel,
				"accept next":  m.acceptNext,
				"accept named": m.acceptNamed,
				"receive":      m.receive,
				"complete":     m.complete,
				"abandon":      m.abandon,
				"dead-letter":  m.deadLetter,
				"renew":        m.renew,
				"close":        m.close,
				"time passes":  m.pass,
				"restart":      m.restart,
				"kill":         m.kill,
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
	peeked, err := m.bus.Peek(m.t.Context(), orders, billing)
	require.NoError(r, err)
	var waiting []string
	for i, w := range m.waiting {
		waiting = append(waiting, w.id)
		require.Less(r, i, len(peeked), "lost: %s", w.id)
		require.Equal(r, w.failed, peeked[i].DeliveryCount, w.id)
	}
	require.Equal(r, waiting, ids(peeked))
	dead, err := m.bus.DeadLetters(m.t.Context(), orders, billing)
	require.NoError(r, err)
	require.ElementsMatch(r, m.dead, ids(dead))
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
	return message(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "session"), fmt.Sprint("m", len(m.sent)))
}

func (m *model) send(r *rapid.T) {
	var batch []Message
	for range rapid.IntRange(1, 3).Draw(r, "messages") {
		x := m.draw(r)
		batch = append(batch, x)
		m.sent = append(m.sent, x.MessageID)
		m.activate(&modelled{id: x.MessageID, session: x.SessionID})
	}
	_, err := m.bus.Send(m.t.Context(), orders, batch...)
	require.NoError(r, err)
}

func (m *model) activate(x *modelled) {
	m.activations++
	x.order = m.activations
	m.waiting = append(m.waiting, x)
}

func (m *model) schedule(r *rapid.T) {
	x := m.draw(r)
	x.ScheduledAt = time.Now().Add(time.Duration(rapid.IntRange(1, 90).Draw(r, "seconds")) * time.Second)
	sequences, err := m.bus.Send(m.t.Context(), orders, x)
	require.NoError(r, err)
	m.scheduled = append(m.scheduled, &modelled{
		id: x.MessageID, session: x.SessionID, due: x.ScheduledAt, order: len(m.sent), sequence: sequences[0],
	})
	m.sent = append(m.sent, x.MessageID)
}

func (m *model) cancel(r *rapid.T) {
	x := pick(r, m.scheduled)
	require.NoError(r, m.bus.CancelScheduled(m.t.Context(), orders, x.sequence))
	m.scheduled = without(m.scheduled, x)
	require.ErrorIs(r, m.bus.CancelScheduled(m.t.Context(), orders, x.sequence), ErrNotFound)
}

func (m *model) holder(session string) *heldSession {
	for _, s := range m.sessions {
		if s.ID() == session {
			return s
		}
	}
	return nil
}

func (m *model) acceptNext(r *rapid.T) {
	for _, w := range m.waiting {
		if m.holder(w.session) == nil {
			s, err := m.bus.AcceptNextSession(m.t.Context(), orders, billing)
			require.NoError(r, err)
			require.Equal(r, w.session, s.ID())
			m.hold(r, s)
			return
		}
	}
	r.Skip("no session is ready")
}

func (m *model) acceptNamed(r *rapid.T) {
	session := m.draw(r).SessionID
	s, err := m.bus.AcceptSession(m.t.Context(), orders, billing, session)
	if m.holder(session) != nil {
		require.ErrorIs(r, err, ErrSessionLocked)
		return
	}
	require.NoError(r, err)
	m.hold(r, s)
}

func (m *model) hold(r *rapid.T, s *Session) {
	until := time.Now().Add(time.Minute)
	require.True(r, until.Equal(s.LockedUntil()))
	m.sessions = append(m.sessions, &heldSession{Session: s, until: until})
}

func (m *model) receive(r *rapid.T) {
	s := pick(r, m.sessions)
	if s.out != nil {
		_, err := s.Receive(m.t.Context())
		require.ErrorIs(r, err, ErrOutstanding)
		return
	}
	for _, w := range m.waiting {
		if w.session == s.ID() {
			got, err := s.Receive(m.t.Context())
			require.NoError(r, err)
			require.Equal(r, w.id, got.MessageID)
			require.Equal(r, w.failed+1, got.DeliveryCount)
			s.out, s.got = w, got
			return
		}
	}
	r.Skip("the session is empty")
}

// inDelivery picks a session with a message in delivery.
func (m *model) inDelivery(r *rapid.T) *heldSession {
	return pick(r, slices.DeleteFunc(slices.Clone(m.sessions), func(s *heldSession) bool { return s.out == nil }))
}

func (m *model) complete(r *rapid.T) {
	s := m.inDelivery(r)
	require.NoError(r, s.Complete(m.t.Context(), s.got))
	m.waiting = without(m.waiting, s.out)
	m.settled(r, s)
}

func (m *model) abandon(r *rapid.T) {
	s := m.inDelivery(r)
	require.NoError(r, s.Abandon(m.t.Context(), s.got))
	m.fail(s.out)
	m.settled(r, s)
}

func (m *model) deadLetter(r *rapid.T) {
	s := m.inDelivery(r)
	require.NoError(r, s.DeadLetter(m.t.Context(), s.got, "reason", "description"))
	m.waiting = without(m.waiting, s.out)
	m.dead = append(m.dead, s.out.id)
	m.settled(r, s)
}

func (m *model) settled(r *rapid.T, s *heldSession) {
	require.ErrorIs(r, s.Complete(m.t.Context(), s.got), ErrMessageLockLost)
	s.out, s.got = nil, nil
}

func (m *model) fail(x *modelled) {
	if x.failed++; x.failed == 3 {
		m.waiting = without(m.waiting, x)
		m.dead = append(m.dead, x.id)
	}
}

func (m *model) renew(r *rapid.T) {
	s := pick(r, m.sessions)
	require.NoError(r, s.Renew(m.t.Context()))
	s.until = time.Now().Add(time.Minute)
}

func (m *model) close(r *rapid.T) {
	s := pick(r, m.sessions)
	require.NoError(r, s.Close())
	m.sessions = without(m.sessions, s)
	require.ErrorIs(r, s.Renew(m.t.Context()), ErrSessionLockLost)
}

func (m *model) pass(r *rapid.T) {
	pass(time.Duration(rapid.IntRange(1, 70).Draw(r, "seconds")) * time.Second)
	now := time.Now()
	for _, s := range slices.Clone(m.sessions) {
		if now.Before(s.until) {
			continue
		}
		if s.out != nil {
			m.fail(s.out)
			require.ErrorIs(r, s.Complete(m.t.Context(), s.got), ErrSessionLockLost)
		}
		m.sessions = without(m.sessions, s)
	}
	slices.SortFunc(m.scheduled, func(a, b *modelled) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.order, b.order))
	})
	for len(m.scheduled) > 0 && !now.Before(m.scheduled[0].due) {
		m.activate(m.scheduled[0])
		m.scheduled = m.scheduled[1:]
	}
}

func (m *model) restart(r *rapid.T) {
	require.NoError(r, m.bus.Close())
	m.sessions = nil
	m.open(r)
	m.compareRest(r)
}

func (m *model) kill(r *rapid.T) {
	next := m.path + "+"
	copyFile(r, m.path, next)
	require.NoError(r, m.bus.Close())
	m.sessions = nil
	m.path = next
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
