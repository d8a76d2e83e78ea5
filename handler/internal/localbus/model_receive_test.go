package localbus

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func (m *model) holder(session string) *heldSession {
	for _, s := range m.sessions {
		if s.ID() == session {
			return s
		}
	}
	return nil
}

func (m *model) acceptNext(r *rapid.T) {
	for _, x := range m.waiting {
		if !x.deferred && m.holder(x.session) == nil {
			s, err := m.bus.AcceptNextSession(m.t.Context(), orders, billing)
			require.NoError(r, err)
			require.Equal(r, x.session, s.ID())
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
	state, err := s.State(m.t.Context())
	require.NoError(r, err)
	require.Equal(r, m.state[session], state)
}

func (m *model) hold(r *rapid.T, s *Session) {
	until := time.Now().Add(time.Minute)
	require.True(r, until.Equal(s.LockedUntil()))
	m.sessions = append(m.sessions, &heldSession{Session: s, until: until})
}

func (m *model) setState(r *rapid.T) {
	s := pick(r, m.sessions)
	state := rapid.SampledFrom([][]byte{nil, {}, {1}, {2}}).Draw(r, "state")
	require.NoError(r, s.SetState(m.t.Context(), state))
	if delete(m.state, s.ID()); state != nil {
		m.state[s.ID()] = state
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
	<-s.Lost()
	m.sessions = without(m.sessions, s)
	for _, x := range m.heldBy(s) {
		x.by = nil
	}
	require.ErrorIs(r, s.Renew(m.t.Context()), ErrSessionLockLost)
}

func (m *model) receive(r *rapid.T) {
	s := pick(r, m.sessions)
	for _, x := range m.waiting {
		if x.session == s.ID() && x.by == nil && !x.deferred {
			got, err := s.Receive(m.t.Context())
			require.NoError(r, err)
			m.take(r, s, x, got)
			return
		}
	}
	r.Skip("the session is empty")
}

func (m *model) receiveDeferred(r *rapid.T) {
	s := pick(r, m.sessions)
	x := pick(r, m.waiting)
	got, err := s.ReceiveDeferred(m.t.Context(), x.sequence)
	if x.session != s.ID() || !x.deferred || x.by != nil || x.expired() {
		require.ErrorIs(r, err, ErrNotFound)
		if x.session == s.ID() && x.deferred && x.by == nil {
			m.die(x)
		}
		return
	}
	require.NoError(r, err)
	m.take(r, s, x, got[0])
}

func (m *model) take(r *rapid.T, by settler, x *modelled, got *Message) {
	require.Equal(r, x.id, got.MessageID)
	require.Equal(r, x.failed+1, got.DeliveryCount)
	x.by, x.got, x.until = by, got, time.Now().Add(time.Minute)
}

func (m *model) openDead(r *rapid.T) {
	receiver, err := m.bus.OpenDeadLetters(m.t.Context(), orders, billing)
	require.NoError(r, err)
	m.receivers = append(m.receivers, receiver)
}

func (m *model) receiveDead(r *rapid.T) {
	receiver := pick(r, m.receivers)
	for _, x := range m.dead {
		if x.by == nil && !x.deferred {
			got, err := receiver.Receive(m.t.Context())
			require.NoError(r, err)
			m.take(r, receiver, x, got)
			return
		}
	}
	r.Skip("no dead letters")
}

func (m *model) receiveDeferredDead(r *rapid.T) {
	receiver := pick(r, m.receivers)
	x := pick(r, m.dead)
	got, err := receiver.ReceiveDeferred(m.t.Context(), x.sequence)
	if !x.deferred || x.by != nil {
		require.ErrorIs(r, err, ErrNotFound)
		return
	}
	require.NoError(r, err)
	m.take(r, receiver, x, got[0])
}

func (m *model) renewDead(r *rapid.T) {
	x := pick(r, slices.DeleteFunc(slices.Clone(m.dead), func(x *modelled) bool { return x.by == nil }))
	until, err := x.by.(*DeadLetterReceiver).Renew(m.t.Context(), x.got)
	require.NoError(r, err)
	x.until = time.Now().Add(time.Minute)
	require.True(r, x.until.Equal(until))
}

func (m *model) closeDead(r *rapid.T) {
	receiver := pick(r, m.receivers)
	require.NoError(r, receiver.Close())
	m.receivers = without(m.receivers, receiver)
	for _, x := range m.heldBy(receiver) {
		x.by = nil
	}
}

func (m *model) heldBy(by settler) (held []*modelled) {
	for _, x := range slices.Concat(m.waiting, m.dead) {
		if x.by == by {
			held = append(held, x)
		}
	}
	return held
}

// inDelivery picks a message in delivery.
func (m *model) inDelivery(r *rapid.T) *modelled {
	all := slices.Concat(m.waiting, m.dead)
	return pick(r, slices.DeleteFunc(all, func(x *modelled) bool { return x.by == nil }))
}

func (m *model) complete(r *rapid.T) {
	x := m.inDelivery(r)
	require.NoError(r, x.by.Complete(m.t.Context(), x.got))
	m.settled(r, x)
	m.waiting, m.dead = without(m.waiting, x), without(m.dead, x)
}

func (m *model) abandon(r *rapid.T) {
	x := m.inDelivery(r)
	require.NoError(r, x.by.Abandon(m.t.Context(), x.got))
	m.settled(r, x)
	m.fail(x)
}

func (m *model) release(r *rapid.T) {
	x := m.inDelivery(r)
	require.NoError(r, x.by.Release(m.t.Context(), x.got))
	m.settled(r, x)
}

func (m *model) setAside(r *rapid.T) {
	x := m.inDelivery(r)
	require.NoError(r, x.by.Defer(m.t.Context(), x.got))
	m.settled(r, x)
	x.deferred = true
}

func (m *model) deadLetter(r *rapid.T) {
	x := m.inDelivery(r)
	s, alive := x.by.(*heldSession)
	if !alive {
		r.Skip("it is dead")
	}
	require.NoError(r, s.DeadLetter(m.t.Context(), x.got, "reason", "description"))
	m.settled(r, x)
	m.die(x)
}

func (m *model) settled(r *rapid.T, x *modelled) {
	require.ErrorIs(r, x.by.Complete(m.t.Context(), x.got), ErrMessageLockLost)
	x.by = nil
}

func (m *model) fail(x *modelled) {
	x.by = nil
	if x.failed++; x.failed >= 3 && !slices.Contains(m.dead, x) {
		m.die(x)
	}
}
