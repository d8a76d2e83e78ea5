package amqp

// Descriptors (2.7, 2.8.14, 3.2 to 3.5, 5.3.3).
const (
	descOpen        uint64 = 0x10
	descBegin       uint64 = 0x11
	descAttach      uint64 = 0x12
	descFlow        uint64 = 0x13
	descTransfer    uint64 = 0x14
	descDisposition uint64 = 0x15
	descDetach      uint64 = 0x16
	descEnd         uint64 = 0x17
	descClose       uint64 = 0x18
	descError       uint64 = 0x1d

	descReceived uint64 = 0x23
	descAccepted uint64 = 0x24
	descRejected uint64 = 0x25
	descReleased uint64 = 0x26
	descModified uint64 = 0x27
	descSource   uint64 = 0x28
	descTarget   uint64 = 0x29

	descMechanisms  uint64 = 0x40
	descInit        uint64 = 0x41
	descSASLOutcome uint64 = 0x44

	descHeader                uint64 = 0x70
	descDeliveryAnnotations   uint64 = 0x71
	descMessageAnnotations    uint64 = 0x72
	descProperties            uint64 = 0x73
	descApplicationProperties uint64 = 0x74
	descData                  uint64 = 0x75
	descSequence              uint64 = 0x76
	descValue                 uint64 = 0x77
	descFooter                uint64 = 0x78
)

// symbolic is the numeric descriptor that a symbolic one stands for; 0 when
// there is none.
func symbolic(s Symbol) uint64 {
	switch string(s) {
	case "amqp:open:list":
		return descOpen
	case "amqp:begin:list":
		return descBegin
	case "amqp:attach:list":
		return descAttach
	case "amqp:flow:list":
		return descFlow
	case "amqp:transfer:list":
		return descTransfer
	case "amqp:disposition:list":
		return descDisposition
	case "amqp:detach:list":
		return descDetach
	case "amqp:end:list":
		return descEnd
	case "amqp:close:list":
		return descClose
	case "amqp:error:list":
		return descError
	case "amqp:received:list":
		return descReceived
	case "amqp:accepted:list":
		return descAccepted
	case "amqp:rejected:list":
		return descRejected
	case "amqp:released:list":
		return descReleased
	case "amqp:modified:list":
		return descModified
	case "amqp:source:list":
		return descSource
	case "amqp:target:list":
		return descTarget
	case "amqp:sasl-init:list":
		return descInit
	case "amqp:header:list":
		return descHeader
	case "amqp:delivery-annotations:map":
		return descDeliveryAnnotations
	case "amqp:message-annotations:map":
		return descMessageAnnotations
	case "amqp:properties:list":
		return descProperties
	case "amqp:application-properties:map":
		return descApplicationProperties
	case "amqp:data:binary":
		return descData
	case "amqp:amqp-sequence:list":
		return descSequence
	case "amqp:amqp-value:*":
		return descValue
	case "amqp:footer:map":
		return descFooter
	}
	return 0
}
