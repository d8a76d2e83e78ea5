package workflow

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// Limits of identities, as Service Bus has them. An order ID is shorter, so
// that the longest ID derived from it still fits a MessageId.
const (
	MaxIDLength      = 128
	MaxOrderIDLength = 96
)

// CommandID is the MessageId of an order's nth command of a type:
// order-42:capture-payment:1. Sent again, it keeps its ID.
func CommandID(orderID string, command MessageType, ordinal int) string {
	return orderID + ":" + step(command) + ":" + strconv.Itoa(ordinal)
}

// DeadlineID is the MessageId of an order's deadline in its nth generation:
// order-42:payment-timeout:1.
func DeadlineID(orderID string, purpose Purpose, generation int) string {
	return orderID + ":" + string(purpose) + ":" + strconv.Itoa(generation)
}

// DeathID is the MessageId of the DispatchFailed that tells an order of the nth
// death of one of its commands: order-42:capture-payment:1:dead:1.
func DeathID(commandID string, deaths int) string {
	return commandID + ":dead:" + strconv.Itoa(deaths)
}

// ActionID is the MessageId of an operator's action on an order as seen at a
// version: order-42:resolve-cancelled:7. The same action asked for twice is one
// message.
func ActionID(orderID string, action MessageType, version int64) string {
	return orderID + ":" + step(action) + ":" + strconv.FormatInt(version, 10)
}

// ownID reports whether an ID is one that an order hears itself by: of its
// deadlines, the deaths of its commands and the actions of its operators. A
// command's own ID is none: it goes out and never comes in.
func ownID(orderID, id string) bool {
	rest, own := strings.CutPrefix(id, orderID+":")
	if !own {
		return false
	}
	name, _, _ := strings.Cut(rest, ":")
	switch name {
	case string(InventoryTimeout), string(PaymentTimeout), string(ShipmentTimeout), string(CompensationTimeout),
		step(Retry), step(ResolveCancelled), step(ResolveCompleted),
		step(MessageType(RetryMessage)), step(MessageType(SkipMessage)), step(MessageType(SendAgain)), step(MessageType(DiscardCommand)),
		step(MessageType(FireDeadline)):
		return true
	}
	return strings.Contains(rest, ":dead:")
}

// step is the name of a type inside an ID: CapturePayment is capture-payment.
func step(t MessageType) string {
	switch t { // the commands, spelled out so that the hot path builds nothing
	case ReserveInventory:
		return "reserve-inventory"
	case CapturePayment:
		return "capture-payment"
	case ShipOrder:
		return "ship-order"
	case RefundPayment:
		return "refund-payment"
	case ReleaseInventory:
		return "release-inventory"
	case CancelOrder:
		return "cancel-order"
	default:
		return kebab(string(t))
	}
}

func kebab(s string) string {
	var b strings.Builder
	for i, r := range s {
		if 'A' <= r && r <= 'Z' {
			if i > 0 {
				b.WriteByte('-')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// IDFault says what is wrong with an identity, as in "MessageId " + IDFault(id);
// empty when nothing is. Outer spaces are refused because SQL Server ignores
// trailing ones when it compares.
func IDFault(s string) string {
	switch {
	case s == "":
		return "is missing"
	case len(s) > MaxIDLength && utf16Length(s) > MaxIDLength:
		return "is longer than " + strconv.Itoa(MaxIDLength) + " characters"
	case strings.TrimSpace(s) != s:
		return "begins or ends with a space"
	}
	for _, r := range s {
		if !printable(r) {
			return "holds a character that cannot be printed (" + strconv.QuoteRune(r) + ")"
		}
	}
	return ""
}

// utf16Length counts characters as Service Bus and SQL Server do.
func utf16Length(s string) int {
	n := 0
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// OrderIDFault says what keeps a text from being an order ID; empty when nothing
// does.
func OrderIDFault(s string) string {
	if s == "" {
		return "is missing"
	}
	if s == "." || s == ".." { // in an address it would stand for a place, and the order be out of reach
		return "is a dot or two and nothing else"
	}
	if len(s) > MaxOrderIDLength {
		return "is longer than " + strconv.Itoa(MaxOrderIDLength) + " characters, so IDs derived from it would not fit"
	}
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		case strings.ContainsRune("._~-", r):
		default:
			return "holds " + strconv.QuoteRune(r) + "; letters, digits and . _ ~ - are allowed"
		}
	}
	return ""
}
