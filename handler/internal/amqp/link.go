package amqp

import (
	"context"
	"errors"
)

// ErrDetached is what a Link's methods answer when the link is gone.
var ErrDetached = errors.New("amqp: the link is detached")

// ErrNoCredit says that the client has taken back its credit.
var ErrNoCredit = errors.New("amqp: the client wants no delivery now")

// Link is one link (2.6), as its ServeLink sees it. Its methods may be called
// from several goroutines. On a link on which the client is the sender, Next
// gives what it sends. On one on which the client is the receiver, Credit, Send,
// NextOutcome and Settle deliver to it.
type Link struct {
	session *session
	conn    *conn
	attach  Attach
	cancel  context.CancelFunc // ends the context of ServeLink

	deliveries *mailbox[*Delivery]
	outcomes   *mailbox[Outcome]

	// Owned by the loop.

	answered     bool // attach was sent
	detached     bool // detach was sent
	peerDetached bool // detach has come
	peerClosed   bool // and it closes the link
	returned     bool // ServeLink runs no more

	deliveryCount uint32 // 2.6.7
	receiving            // the client sends
	sending              // the client receives
}

func newLink(s *session, a Attach, cancel context.CancelFunc) *Link {
	l := &Link{
		session: s, conn: s.conn, attach: a, cancel: cancel,
		deliveries: newMailbox[*Delivery](),
		outcomes:   newMailbox[Outcome](),
		sending:    sending{changed: make(chan struct{})},
	}
	if a.initialDeliveryCount != nil {
		l.deliveryCount = *a.initialDeliveryCount
	}
	return l
}

// Attach is how the client asked for the link.
func (l *Link) Attach() Attach { return l.attach }

// Reply is what the answer to an attach says beyond what it echoes.
type Reply struct {
	// Source replaces the client's; nil echoes it.
	Source     *Source
	Properties Map
	// MaxMessageSize is the largest message in bytes that the client may send.
	MaxMessageSize uint64
	// Credit is how many deliveries the client may have sent that are not
	// settled yet. Credit is renewed as they are.
	Credit uint32
}

// Accept answers the client's attach: the link is there. Settle modes, source
// and target are echoed.
func (l *Link) Accept(r Reply) error {
	return l.do(func() {
		answer := l.answer()
		answer.MaxMessageSize = r.MaxMessageSize
		answer.Properties = r.Properties
		if r.Source != nil {
			answer.Source = r.Source
		}
		l.answered = true
		l.session.write(answer)
		if l.attach.Role == RoleSender {
			l.window, l.maxMessageSize = r.Credit, r.MaxMessageSize
			l.replenish()
		}
	})
}

// Refuse answers the client's attach: the link is not to be. The standard's
// way is to attach without source or target and to detach at once (2.6.3).
func (l *Link) Refuse(e *Error) error {
	return l.do(func() { l.refuse(e) })
}

// Detach closes the link. E may be nil.
func (l *Link) Detach(e *Error) error {
	return l.do(func() { l.detach(e) })
}

// do has the loop run f, if the link is still there.
func (l *Link) do(f func()) error {
	err := ErrDetached
	callErr := l.conn.call(func() {
		if !l.gone() {
			f()
			err = nil
		}
	})
	if callErr != nil {
		return callErr
	}
	return err
}

// The rest runs in the loop.

func (l *Link) gone() bool {
	return l.detached || l.peerDetached || l.session.failed || l.session.ending
}

// answer is the attach that answers the client's.
func (l *Link) answer() Attach {
	a := l.attach
	a.Role = !a.Role
	a.Properties, a.MaxMessageSize, a.initialDeliveryCount = nil, 0, nil
	if a.Role == RoleSender {
		a.initialDeliveryCount = new(uint32)
	}
	return a
}

func (l *Link) refuse(e *Error) {
	answer := l.answer()
	if answer.Role == RoleSender {
		answer.Source = nil
	} else {
		answer.Target = nil
	}
	l.answered = true
	l.session.write(answer)
	l.detach(e)
}

func (l *Link) detach(e *Error) {
	if e != nil {
		e = &Error{Condition: e.Condition, Description: shorten(e.Description), Info: e.Info}
	}
	l.session.write(detach{Handle: l.attach.handle, Closed: !l.peerDetached || l.peerClosed, Error: e})
	l.detached = true
	l.cancel()
}

// served is called when ServeLink has returned.
func (l *Link) served() {
	l.returned = true
	l.session.serving--
	l.conn.serving--
	l.finish()
	l.session.finish()
}

// finish takes the link apart as far as both sides are done with it.
func (l *Link) finish() {
	if !l.returned {
		return
	}
	if !l.answered {
		l.refuse(nil)
	}
	if !l.detached {
		l.detach(nil)
	}
	if l.peerDetached {
		l.session.forget(l)
	}
}
