package workflow

// Row is one status of the process: what it means, what bounds the stay in it,
// and what each message does there. A message in none of its lists is refused.
type Row struct {
	Status Status
	// Means completes "the order is …, that is: …" for people.
	Means string
	// WaitsFor says in words what moves the order on; empty where nothing does.
	WaitsFor string
	// Deadline bounds the stay; empty means none.
	Deadline Purpose
	// On lists the messages that are taken here.
	On []Transition
	// Stale lists what is true but too late to matter here.
	Stale []MessageType
	// Early lists what will matter later: it is held until it does.
	Early []MessageType
}

// Transition is one taken cell of the table. Rows hold facts only: one that
// wants an "if" is two messages or a rule.
type Transition struct {
	On MessageType
	// To is the next status, BackOut to let backOut find it, or Stay.
	To Status
	// Send is the command that goes out; empty for none.
	Send MessageType
	// Why is the reason that people read in the journal.
	Why string
}

// The two values of Transition.To that are no status.
const (
	// BackOut: the order cannot go forward; backOut decides where it goes.
	BackOut Status = "BackOut"
	// Stay: what the message says is recorded; status and deadline stay.
	Stay Status = "Stay"
)

// Table returns the process, one row for each status.
func Table() []Row {
	return []Row{
		{
			Status: NotStarted, Means: "messages came before the order itself",
			WaitsFor: "OrderPlaced",
			On: []Transition{
				{On: OrderPlaced, To: AwaitingInventory, Send: ReserveInventory, Why: "the order was placed"},
			},
			Early: []MessageType{
				InventoryReserved, InventoryRejected, PaymentCaptured, PaymentFailed,
				ShipmentConfirmed, ShipmentFailed, CancellationRequested,
			},
		},
		{
			Status: AwaitingInventory, Means: "the warehouse was asked to reserve the goods",
			WaitsFor: "the warehouse's answer to ReserveInventory",
			Deadline: InventoryTimeout,
			On: []Transition{
				{On: InventoryReserved, To: AwaitingPayment, Send: CapturePayment, Why: "the goods are reserved"},
				{On: InventoryRejected, To: BackOut, Why: "the goods cannot be had"},
				{On: CancellationRequested, To: BackOut, Why: "the customer cancelled"},
				{On: InventoryDeadlineExpired, To: BackOut, Why: "the warehouse did not answer in time"},
				{On: DispatchFailed, To: Stay, Why: "a command could not be sent"},
			},
			Early: []MessageType{PaymentCaptured, PaymentFailed, ShipmentConfirmed, ShipmentFailed},
		},
		{
			Status: AwaitingPayment, Means: "the goods are held and the customer's payment was asked for",
			WaitsFor: "the payment service's answer to CapturePayment",
			Deadline: PaymentTimeout,
			On: []Transition{
				{On: PaymentCaptured, To: AwaitingShipment, Send: ShipOrder, Why: "the order is paid"},
				{On: PaymentFailed, To: BackOut, Why: "the payment failed"},
				{On: CancellationRequested, To: BackOut, Why: "the customer cancelled"},
				{On: PaymentDeadlineExpired, To: BackOut, Why: "the payment service did not answer in time"},
				{On: DispatchFailed, To: Stay, Why: "a command could not be sent"},
			},
			Early: []MessageType{ShipmentConfirmed, ShipmentFailed},
		},
		{
			Status: AwaitingShipment, Means: "the order is paid and the goods are to be shipped",
			WaitsFor: "shipping's answer to ShipOrder",
			Deadline: ShipmentTimeout,
			On: []Transition{
				{On: ShipmentConfirmed, To: Completed, Why: "the goods left"},
				{On: ShipmentFailed, To: BackOut, Why: "the goods cannot be shipped"},
				{On: ShipmentDeadlineExpired, To: NeedsAttention, Why: "shipping did not answer in time; the goods may have left"},
				{On: DispatchFailed, To: Stay, Why: "a command could not be sent"},
			},
		},
		{
			Status: Compensating, Means: "the order is being backed out: money first, then goods",
			WaitsFor: "the answer to the last RefundPayment or ReleaseInventory",
			Deadline: CompensationTimeout,
			On: []Transition{
				{On: InventoryReserved, To: BackOut, Why: "goods turned up late"},
				{On: PaymentCaptured, To: BackOut, Why: "money turned up late"},
				{On: ShipmentConfirmed, To: BackOut, Why: "the goods left although the order was being backed out"},
				{On: PaymentRefunded, To: BackOut, Why: "the money was given back"},
				{On: InventoryReleased, To: BackOut, Why: "the goods were given back"},
				{On: PaymentRefundFailed, To: BackOut, Why: "the refund failed"},
				{On: InventoryReleaseFailed, To: BackOut, Why: "the release failed"},
				{On: CompensationDeadlineExpired, To: BackOut, Why: "an undo was not answered in time"},
				{On: DispatchFailed, To: Stay, Why: "a command could not be sent"},
			},
			Stale: []MessageType{InventoryRejected, PaymentFailed, ShipmentFailed, CancellationRequested},
		},
		{
			Status: NeedsAttention, Means: "only a person can decide what happens next",
			WaitsFor: "a person: retry what failed, or resolve it to cancelled or completed",
			On: []Transition{
				{On: InventoryReserved, To: BackOut, Why: "goods turned up late"},
				{On: PaymentCaptured, To: BackOut, Why: "money turned up late"},
				{On: ShipmentConfirmed, To: BackOut, Why: "the goods left"},
				{On: ShipmentFailed, To: BackOut, Why: "the goods cannot be shipped"},
				{On: PaymentRefunded, To: BackOut, Why: "the money was given back"},
				{On: InventoryReleased, To: BackOut, Why: "the goods were given back"},
				{On: PaymentRefundFailed, To: BackOut, Why: "the refund failed"},
				{On: InventoryReleaseFailed, To: BackOut, Why: "the release failed"},
				{On: DispatchFailed, To: Stay, Why: "a command could not be sent"},
				{On: Retry, To: BackOut, Why: "a person asked for another attempt"},
				{On: ResolveCancelled, To: BackOut, Why: "a person settled it by hand"},
				{On: ResolveCompleted, To: Completed, Why: "a person counts the order as fulfilled"},
			},
			Stale: []MessageType{InventoryRejected, PaymentFailed},
		},
		{
			Status: Completed, Means: "the goods left and the order is fulfilled",
			On: []Transition{
				{On: InventoryReserved, To: NeedsAttention, Why: "goods turned up after the end"},
				{On: PaymentCaptured, To: NeedsAttention, Why: "money turned up after the end"},
				{On: PaymentRefunded, To: NeedsAttention, Why: "the money was given back although the order was fulfilled"},
				{On: InventoryReleased, To: NeedsAttention, Why: "the goods were given back although the order was fulfilled"},
				{On: PaymentRefundFailed, To: Stay, Why: "the refund failed"},
				{On: InventoryReleaseFailed, To: Stay, Why: "the release failed"},
			},
			Stale: []MessageType{DispatchFailed},
		},
		{
			Status: Cancelled, Means: "everything that happened was undone and the customer was told",
			On: []Transition{
				{On: InventoryReserved, To: BackOut, Why: "goods turned up after the end"},
				{On: PaymentCaptured, To: BackOut, Why: "money turned up after the end"},
				{On: ShipmentConfirmed, To: BackOut, Why: "the goods left although the order was cancelled"},
				{On: DispatchFailed, To: Stay, Why: "a command could not be sent"},
			},
			Stale: []MessageType{InventoryRejected, PaymentFailed, ShipmentFailed, CancellationRequested},
		},
	}
}

// report is what a message says about an effect.
type report struct {
	Effect EffectKind
	State  EffectState
}

// reports maps each message about goods, money or a shipment to what it says.
//
//nolint:gochecknoglobals // read-only: part of the process
var reports = map[MessageType]report{
	InventoryReserved:      {Goods, EffectHeld},
	InventoryReleased:      {Goods, EffectUndone},
	InventoryReleaseFailed: {Goods, EffectFailed},
	PaymentCaptured:        {Money, EffectHeld},
	PaymentRefunded:        {Money, EffectUndone},
	PaymentRefundFailed:    {Money, EffectFailed},
	ShipmentConfirmed:      {Shipment, EffectHeld},
	ShipmentFailed:         {Shipment, EffectUndone},
}

// cell is one cell of the table, found without searching the lists.
type cell struct {
	transition Transition
	kind       cellKind
}

type cellKind int

const (
	refused cellKind = iota
	taken
	stale
	early
)

type indexed struct {
	row   Row
	cells map[MessageType]cell
}

//nolint:gochecknoglobals // read-only: Table, indexed once
var table = index(Table())

func index(rows []Row) map[Status]indexed {
	byStatus := make(map[Status]indexed, len(rows))
	for _, row := range rows {
		cells := make(map[MessageType]cell)
		for _, t := range row.On {
			cells[t.On] = cell{t, taken}
		}
		for _, m := range row.Stale {
			cells[m] = cell{kind: stale}
		}
		for _, m := range row.Early {
			cells[m] = cell{kind: early}
		}
		byStatus[row.Status] = indexed{row, cells}
	}
	return byStatus
}
