// Package workflow is the order process: which statuses an order can have,
// which messages move it, what each move sends, and how an order that cannot
// go forward is backed out. It is pure: the same order and the same message
// always give the same decision and the same message IDs. It reads no clock, no
// database and no environment, and draws no random numbers.
//
// Read process.go first, the whole process as one table; then apply.go, the
// rules that hold for every row; then backout.go.
//
// Pattern: application-level orchestration (application-owned state,
// deterministic IDs, idempotent transitions, timeouts as messages, explicit
// compensation, explicit lineage).
package workflow

// Status says how far an order has come. The texts are stored and may be added
// to, never renamed.
type Status string

// The statuses of an order. What each means stands in the table (Table).
const (
	NotStarted        Status = "NotStarted"
	AwaitingInventory Status = "AwaitingInventory"
	AwaitingPayment   Status = "AwaitingPayment"
	AwaitingShipment  Status = "AwaitingShipment"
	Compensating      Status = "Compensating"
	NeedsAttention    Status = "NeedsAttention"
	Completed         Status = "Completed"
	Cancelled         Status = "Cancelled"
)

// Known reports whether the process has this status.
func (s Status) Known() bool {
	_, known := table[s]
	return known
}

// AtRest reports whether nothing moves the order on its own any more: it ended,
// or a person has to decide. An order at rest has no deadline.
func (s Status) AtRest() bool {
	return s == Completed || s == Cancelled || s == NeedsAttention
}

// MessageType is what a message says, and its Service Bus Subject. The texts
// are on the wire and in the database: they may be added to, never renamed.
type MessageType string

// What reaches an order.
const (
	OrderPlaced            MessageType = "OrderPlaced"
	InventoryReserved      MessageType = "InventoryReserved"
	InventoryRejected      MessageType = "InventoryRejected"
	PaymentCaptured        MessageType = "PaymentCaptured"
	PaymentFailed          MessageType = "PaymentFailed"
	ShipmentConfirmed      MessageType = "ShipmentConfirmed"
	ShipmentFailed         MessageType = "ShipmentFailed"
	PaymentRefunded        MessageType = "PaymentRefunded"
	PaymentRefundFailed    MessageType = "PaymentRefundFailed"
	InventoryReleased      MessageType = "InventoryReleased"
	InventoryReleaseFailed MessageType = "InventoryReleaseFailed"
	CancellationRequested  MessageType = "CancellationRequested"

	InventoryDeadlineExpired    MessageType = "InventoryDeadlineExpired"
	PaymentDeadlineExpired      MessageType = "PaymentDeadlineExpired"
	ShipmentDeadlineExpired     MessageType = "ShipmentDeadlineExpired"
	CompensationDeadlineExpired MessageType = "CompensationDeadlineExpired"

	// DispatchFailed is decided where a command is given up, not sent over the
	// broker, which may be what is down.
	DispatchFailed MessageType = "DispatchFailed"

	// The operator's messages come through the operator's door only.
	Retry            MessageType = "Retry"
	ResolveCancelled MessageType = "ResolveCancelled"
	ResolveCompleted MessageType = "ResolveCompleted"
)

// What an order sends to other services.
const (
	ReserveInventory MessageType = "ReserveInventory"
	CapturePayment   MessageType = "CapturePayment"
	ShipOrder        MessageType = "ShipOrder"
	RefundPayment    MessageType = "RefundPayment"
	ReleaseInventory MessageType = "ReleaseInventory"
	CancelOrder      MessageType = "CancelOrder"
)

// Internal reports whether a message of this type never comes from the broker,
// so that one that does is an impostor.
func (t MessageType) Internal() bool {
	switch t {
	case DispatchFailed, Retry, ResolveCancelled, ResolveCompleted:
		return true
	default:
		return false
	}
}

// Action reports whether a message of this type is a person's decision about an
// order that was seen at a version.
func (t MessageType) Action() bool {
	return t == Retry || t == ResolveCancelled || t == ResolveCompleted
}

// Purpose names a deadline: what it bounds the wait for.
type Purpose string

// The deadlines of the process. The texts are part of message IDs.
const (
	InventoryTimeout    Purpose = "inventory-timeout"
	PaymentTimeout      Purpose = "payment-timeout"
	ShipmentTimeout     Purpose = "shipment-timeout"
	CompensationTimeout Purpose = "compensation-timeout"
)

// Expired is the type of the message that says the deadline has passed, empty
// for a purpose that the process does not have.
func (p Purpose) Expired() MessageType {
	switch p {
	case InventoryTimeout:
		return InventoryDeadlineExpired
	case PaymentTimeout:
		return PaymentDeadlineExpired
	case ShipmentTimeout:
		return ShipmentDeadlineExpired
	case CompensationTimeout:
		return CompensationDeadlineExpired
	default:
		return ""
	}
}

// Outcome says what became of a message. The texts are stored.
type Outcome string

// Every message ends as one of these. All but Failed are final and are
// acknowledged to the broker.
const (
	// Applied: the table or a rule took it; the order's version moved.
	Applied Outcome = "Applied"
	// Duplicate: its MessageId was handled before; nothing was written.
	Duplicate Outcome = "Duplicate"
	// Stale: true once, or late; recorded, and nothing changed.
	Stale Outcome = "Stale"
	// Held: not yet acceptable; kept, in order, until it is.
	Held Outcome = "Held"
	// Blocked: it could not be handled for a reason that is not its own, or it
	// waits behind one that could not; kept, in order, for a person to retry or
	// skip.
	Blocked Outcome = "Blocked"
	// Skipped: a person gave up a blocked message; it is never run.
	Skipped Outcome = "Skipped"
	// Rejected: refused for good; kept apart with its bytes and the reason.
	Rejected Outcome = "Rejected"
	// Failed: could not be decided now; nothing was written, deliver it again.
	Failed Outcome = "Failed"
)
