// Package localbus is a small, durable Service Bus in one process: topics,
// session-enabled subscriptions with correlation rules, session state, deferral,
// schedules, time to live, duplicate detection and dead letters, kept in one
// SQLite file.
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
	To            string
	ReplyTo       string
	// ReplyToSessionID is the SessionID that an answer should carry.
	ReplyToSessionID string
	// PartitionKey is empty or the SessionID, as in the real service.
	PartitionKey string
	// TimeToLive is how long the message may wait in a subscription, counted
	// from when it became active; then it goes to the dead letters. Zero means
	// for ever.
	TimeToLive time.Duration
	// Properties are the application properties: string, bool, int32, int64,
	// float64, []byte, uuid.UUID or time.Time values. A time.Time comes back in
	// UTC.
	Properties map[string]any
	Body       []byte
	// ScheduledAt is when the message becomes active; zero means at once.
	ScheduledAt time.Time

	// Set by the bus.

	SequenceNumber int64
	EnqueuedAt     time.Time
	State          State
	// DeliveryCount is 1 at the first delivery.
	DeliveryCount int
	// LockToken names the delivery, until LockedUntil unless that is renewed.
	LockToken             string
	LockedUntil           time.Time
	DeadLetterReason      string
	DeadLetterDescription string
}

// State is where a message is, among the dead letters as elsewhere. A message
// in delivery stays what it was.
type State string

// The states.
const (
	StateActive    State = "active"    // waits to be received
	StateDeferred  State = "deferred"  // waits to be received by its number
	StateScheduled State = "scheduled" // waits for its time
)

// Errors that callers tell apart. Every other error is a context's, the
// database's or Open's about a faulty declaration.
var (
	ErrNotFound        = errors.New("localbus: no such entity or message")
	ErrSessionRequired = errors.New("localbus: the entity requires a SessionId")
	ErrSessionLocked   = errors.New("localbus: the session is locked by another receiver")
	ErrSessionLockLost = errors.New("localbus: the session lock was lost")
	ErrMessageLockLost = errors.New("localbus: the message is not held by this receiver")
	ErrMessageTooLarge = errors.New("localbus: the message or state is too large")
	ErrInvalidMessage  = errors.New("localbus: the message is not valid")
	ErrClosed          = errors.New("localbus: the bus or the receiver is closed")
	ErrInUse           = errors.New("localbus: the file is in use by another bus")
)
