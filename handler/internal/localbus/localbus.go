// Package localbus is a small, durable Service Bus in one process: topics,
// session-enabled subscriptions with correlation rules, schedules, duplicate
// detection and dead letters, kept in one SQLite file.
//
// It is the broker of `handler local` and of the tests. It keeps the promises
// of Azure Service Bus that this project leans on; it does not pretend to be
// all of it.
package localbus

import (
	"errors"
	"time"
)

// Topic is one entity that messages are sent to.
type Topic struct {
	Name string
	// DuplicateDetection is how long a MessageId is remembered; a message sent
	// again within it is accepted and dropped. Zero means no detection.
	DuplicateDetection time.Duration
	Subscriptions      []Subscription
}

// Subscription is one queue behind a topic. It takes each message whose
// Subject is in Subjects once; with no Subjects it takes every message.
// Every subscription is session-enabled.
type Subscription struct {
	Name     string
	Subjects []string
	// MaxDeliveryCount is after how many failed deliveries a message is
	// dead-lettered. Zero means 10.
	MaxDeliveryCount int
	// LockDuration is how long a session stays locked unless renewed. Zero
	// means one minute.
	LockDuration time.Duration
}

// Message is one message as a sender gives it and, with the fields that the
// bus sets, as a receiver gets it.
type Message struct {
	MessageID     string
	SessionID     string
	CorrelationID string
	Subject       string
	ContentType   string
	// Properties are the application properties: string, bool, int64 or
	// float64 values.
	Properties map[string]any
	Body       []byte
	// ScheduledAt is when the message becomes active; zero means at once.
	ScheduledAt time.Time

	// Set by the bus.

	SequenceNumber int64
	EnqueuedAt     time.Time
	// DeliveryCount is 1 at the first delivery.
	DeliveryCount         int
	LockToken             string
	DeadLetterReason      string
	DeadLetterDescription string
}

// Errors that callers tell apart. Every other error is a context's, the
// database's or Open's about a faulty declaration.
var (
	ErrNotFound        = errors.New("localbus: no such entity or message")
	ErrSessionRequired = errors.New("localbus: the entity requires a SessionId")
	ErrSessionLocked   = errors.New("localbus: the session is locked by another receiver")
	ErrSessionLockLost = errors.New("localbus: the session lock was lost")
	ErrMessageLockLost = errors.New("localbus: the message is not held by this receiver")
	ErrOutstanding     = errors.New("localbus: the session has a message or a receive outstanding")
	ErrMessageTooLarge = errors.New("localbus: the message is too large")
	ErrInvalidMessage  = errors.New("localbus: the message is not valid")
	ErrClosed          = errors.New("localbus: the bus is closed")
)
