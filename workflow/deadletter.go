package workflow

// DeadLetter is a message that the broker gave up, as it lies there: nothing in
// it has been believed yet, and its IDs may be anything.
type DeadLetter struct {
	// Subscription is that of the orders topic among whose dead letters it is.
	Subscription string
	Envelope     // in a list without the body
	Delivery     Delivery
	Size         int // of the body, in bytes
	// Reason and Description say why it was given up, in the words of the broker
	// or of whoever gave it up.
	Reason, Description string
}

// BringBack says which dead letters of a subscription are to be handled after
// all.
type BringBack struct {
	Subscription string
	OrderID      string // only this order's; empty means every order's
	Top          int    // how many at most
}

// DeadLettersCounted is up to how many dead letters of a subscription are
// counted: that many may be more.
const DeadLettersCounted = 1000
