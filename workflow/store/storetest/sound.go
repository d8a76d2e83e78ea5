package storetest

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/invariants"
)

// Sound fails a test whose database holds what cannot be.
func Sound(ctx context.Context, t testing.TB, db *sql.DB) *Record {
	t.Helper()
	r, err := Read(ctx, db)
	require.NoError(t, err)
	require.Empty(t, r.Faults())
	return r
}

// Faults says what of a record cannot be. The journal is replayed through
// workflow.Apply from nothing; outcomes, state and outbox must be what comes of
// it, and no invariant may break on the way. Each fault names its order.
func (r *Record) Faults() (all []string) {
	for _, o := range r.orders {
		a := &audit{recorded: o, state: invariants.State{Order: workflow.Order{ID: o.id, Status: workflow.NotStarted}}}
		a.look()
		all = append(all, a.faults...)
	}
	return all
}

// audit is one order's record while it is looked at.
type audit struct {
	*recorded

	state   invariants.State
	blocked bool       // a message blocked it at some time
	waiting []*handled // what waits in line, as far as that can be told, while the journal is replayed
	fired   string     // the deadline that the action before had handled
	// emitted is what the replay says was written to the outbox.
	emitted []emission
	faults  []string
}

type emission struct {
	workflow.Outgoing

	seq int64
}

// faultsMost is how many faults of one order are told: the rest follows from
// them.
const faultsMost = 6

func (a *audit) fault(format string, args ...any) {
	if len(a.faults) < faultsMost {
		a.faults = append(a.faults, a.id+": "+fmt.Sprintf(format, args...))
	}
}

func (a *audit) look() {
	if a.rows != 1 {
		a.fault("it has %d rows in the table orders", a.rows)
		return
	}
	for _, h := range a.journal {
		a.blocked = a.blocked || h.outcome == workflow.Blocked || h.outcome == workflow.Skipped || isAction(h.Type)
	}
	a.complete()
	for i := 0; i < len(a.journal); {
		n := i + 1
		for n < len(a.journal) && a.journal[n].revision == a.journal[i].revision {
			n++
		}
		a.queueUp(a.journal[i:n])
		a.commit(a.journal[i:n])
		i = n
	}
	if line := a.line(); a.blockedBy != "" && (len(line) == 0 || line[0] != a.blockedBy) {
		a.fault("it is blocked by %s, and its line is %v", a.blockedBy, line)
	}
	a.compareState()
	a.compareOutbox()
	a.states()
}

func isAction(t workflow.MessageType) bool {
	return slices.Contains(workflow.ActionKinds(), workflow.ActionKind(t))
}

// complete looks for rows of the journal that are missing or too many: every
// revision has one, but for refusals, which are kept elsewhere, and for the
// former places of messages that were held and taken up later.
func (a *audit) complete() {
	revisions, moved := map[int64]bool{}, 0
	ids := map[string]bool{}
	for i, h := range a.journal {
		revisions[h.revision] = true
		if h.receivedAt.Before(h.decidedAt) || h.place > 0 {
			moved++
		}
		if h.outcome != workflow.Rejected {
			if ids[h.ID] {
				a.fault("%s was handled twice", h.ID)
			}
			ids[h.ID] = true
		}
		if want := placeAfter(a.journal[:i], h.revision); h.place != want {
			a.fault("%s has place %d in revision %d, not %d", h.ID, h.place, h.revision, want)
		}
		if h.revision > a.revision {
			a.fault("%s has revision %d, the order %d", h.ID, h.revision, a.revision)
		}
	}
	if gone := a.revision - int64(len(revisions)); gone > int64(moved+a.refusals) && !a.blocked {
		a.fault("the journal lacks %d of %d revisions, and only %d messages were refused and %d taken up", gone, a.revision, a.refusals, moved)
	}
}

// placeAfter is the next place of a revision.
func placeAfter(before []handled, revision int64) int64 {
	if n := len(before); n > 0 && before[n-1].revision == revision {
		return before[n-1].place + 1
	}
	return 0
}

// queueUp finds who came before a commit and waited in the order's line, and
// that nobody who came later is handled in it. The journal keeps a message where
// it was decided, so that is told from when it came, and from what would have
// become of it then: what would have been early may have been just that.
func (a *audit) queueUp(commit []handled) {
	if !a.blocked {
		return
	}
	revision, at := commit[0].revision, commit[0].decidedAt
	// What is early keeps the place at which it came, in its turn in the line too:
	// when that was its place does not say.
	early := commit[0].outcome == workflow.Held
	if early {
		at = commit[0].receivedAt
	}
	if commit[0].outcome == workflow.Blocked {
		at = commit[0].receivedAt // the other is when it was last put in line
	}
	undecided := func(h *handled) bool { return h.outcome == workflow.Blocked || h.revision > revision }
	a.waiting = slices.DeleteFunc(a.waiting, func(h *handled) bool { return !undecided(h) })
	for i := range a.journal {
		h := &a.journal[i]
		switch {
		case !undecided(h), h.receivedAt.After(at), isAction(h.Type), slices.Contains(a.waiting, h),
			h.place > 0 && h.outcome != workflow.Skipped: // it was early in the end
			continue
		}
		m, err := h.Decode()
		if err == nil && (len(a.waiting) > 0 || workflow.Apply(a.state.Order, m, nil).Decisions[0].Outcome != workflow.Held) {
			a.waiting = append(a.waiting, h)
		}
	}
	for i := range commit {
		h := &commit[i]
		for _, before := range a.waiting {
			if before.receivedAt.Before(h.receivedAt) && !early && h.outcome != workflow.Blocked && !isAction(h.Type) {
				a.fault("%s was %s before %s, which came earlier and waited in line", h.ID, h.outcome, before.ID)
			}
		}
	}
}

// commit replays the rows of one commit.
func (a *audit) commit(rows []handled) {
	revision := rows[0].revision
	var out []workflow.Outgoing
	for rest := rows; len(rest) > 0; {
		n, sent := a.decide(rest)
		out = append(out, sent...)
		rest = rest[n:]
	}
	place := int64(0)
	for _, o := range out {
		if o.Purpose != "" && o.ID != a.state.Order.Armed {
			continue // armed and replaced in the same commit: never written
		}
		a.emitted = append(a.emitted, emission{o, revision*1000 + place})
		place++
	}
	checked := a.state
	if a.blocked {
		checked.Held = nil // it is not known what was held when
	}
	if err := checked.Check(); err != nil {
		a.fault("after revision %d: %v", revision, err)
	}
}

// decide replays the first of some rows, and those that were taken up with it.
// It returns how many that were, and what they sent.
func (a *audit) decide(rows []handled) (n int, sent []workflow.Outgoing) {
	h := &rows[0]
	switch {
	case h.outcome == workflow.Blocked, h.outcome == workflow.Skipped, isAction(h.Type),
		h.outcome == workflow.Rejected && h.place == 0: // given up by a person, by the sweep or for the armed deadline of its name
		a.fires(h, rows[1:])
		return 1, a.passive(h)
	}
	m, err := a.message(h)
	if err != nil {
		a.fault("the body of %s: %v", h.ID, err)
		return 1, nil
	}
	if m.DueAt.After(h.decidedAt) && !m.NotDue && h.outcome == workflow.Applied && a.fired != h.ID {
		a.fault("%s was handled before it was due, and nobody fired it", h.ID)
	}
	if !a.blocked {
		a.state.Held = a.heldAt(h)
	}
	before := a.state
	r := workflow.Apply(before.Order, m, a.state.Held)
	a.state = before.After(r)
	if len(r.Decisions) > len(rows) {
		a.fault("%s took up %d messages, the journal has %d", h.ID, len(r.Decisions)-1, len(rows)-1)
		return len(rows), nil
	}
	at := before.Order
	for i := range r.Decisions {
		d := &r.Decisions[i]
		if got, want := told(d), rows[i].told(); got != want {
			a.fault("revision %d, %s: the journal says %s; replayed, it is %s", rows[i].revision, rows[i].ID, want, got)
		}
		one := workflow.Apply(at, d.Message, nil)
		if err := (invariants.Move{From: at, To: one.Order, Decision: one.Decisions[0]}).Check(); err != nil {
			a.fault("revision %d, %s: %v", rows[i].revision, rows[i].ID, err)
		}
		at = one.Order
		for _, out := range []*workflow.Outgoing{d.Command, d.Deadline} {
			if out != nil {
				sent = append(sent, *out)
			}
		}
	}
	return len(r.Decisions), sent
}

// passive is a row that moves nothing, but for a deadline that is armed anew in
// place of one that is skipped.
func (a *audit) passive(h *handled) (sent []workflow.Outgoing) {
	if h.Type == workflow.MessageType(workflow.SkipMessage) && h.outcome == workflow.Applied {
		next, deadline := a.state.Order.Rearmed(workflow.Message{Envelope: h.Envelope}, h.ParentID)
		if deadline != nil {
			if h.from != h.to || !slices.Equal(h.emitted, []string{deadline.ID}) {
				a.fault("%s gave up the armed deadline and emitted %v", h.ID, h.emitted)
			}
			a.state.Order = next
			return []workflow.Outgoing{*deadline}
		}
	}
	if h.from != h.to || len(h.emitted) > 0 {
		a.fault("%s was %s and moved something", h.ID, h.outcome)
	}
	if h.Type == workflow.MessageType(workflow.SendAgain) && h.outcome == workflow.Applied {
		a.state.Order = a.state.Order.Forgiven(h.ParentID)
	}
	return nil
}

// fires looks at what a row that moves nothing caused: a deadline that was fired
// is the next row of the same commit.
func (a *audit) fires(h *handled, next []handled) {
	a.fired = ""
	if h.Type != workflow.MessageType(workflow.FireDeadline) || h.outcome != workflow.Applied {
		return
	}
	if len(next) == 0 || next[0].ID != h.ParentID || next[0].ParentID != h.ID {
		a.fault("%s fired %s, and nothing came of it", h.ID, h.ParentID)
		return
	}
	a.fired = h.ParentID
}

// message is a row as the message that was decided about.
func (a *audit) message(h *handled) (workflow.Message, error) {
	m, err := h.Decode()
	if err != nil {
		return m, err
	}
	if m.Fingerprint != h.fingerprint {
		a.fault("%s has another fingerprint than its body", h.ID)
	}
	if m.Facts.TimeoutID == "" {
		return m, nil
	}
	if i := slices.IndexFunc(a.outbox, func(q queued) bool { return q.ID == m.Facts.TimeoutID }); i >= 0 {
		m.DueAt = a.outbox[i].DueAt
	}
	// Only a deadline that came too soon is taken and leaves the status.
	m.NotDue = h.outcome == workflow.Applied && h.from == h.to
	return m, nil
}

// heldAt is what was held when a message was decided about, oldest first: what
// still is, what was taken up with it, and what was taken up later.
func (a *audit) heldAt(by *handled) []workflow.Message {
	var rows []*handled
	for i := range a.journal {
		h := &a.journal[i]
		switch {
		case h.outcome == workflow.Held && h.revision < by.revision,
			h.revision == by.revision && h.place > by.place,
			h.outcome != workflow.Held && h.revision > by.revision && h.receivedAt.Before(by.decidedAt):
			rows = append(rows, h)
		}
	}
	slices.SortStableFunc(rows, func(x, y *handled) int { return x.receivedAt.Compare(y.receivedAt) })
	var held []workflow.Message
	for _, h := range rows {
		if m, err := h.Decode(); err == nil {
			held = append(held, m)
		}
	}
	return held
}

// told is a decision in words, as a row tells it.
func told(d *workflow.Decision) string {
	var emitted []string
	for _, out := range []*workflow.Outgoing{d.Command, d.Deadline} {
		if out != nil {
			emitted = append(emitted, out.ID)
		}
	}
	return fmt.Sprintf("%s %s→%s v%d %v %q", d.Outcome, d.From, d.To, d.Version, emitted, d.Reason)
}

func (h *handled) told() string {
	return fmt.Sprintf("%s %s→%s v%d %v %q", h.outcome, h.from, h.to, h.version, h.emitted, h.reason)
}

// compareState holds the stored order against the replayed one.
func (a *audit) compareState() {
	var stored struct{ Order workflow.Order }
	if err := json.Unmarshal([]byte(a.recorded.state), &stored); err != nil {
		a.fault("its state cannot be read: %v", err)
		return
	}
	stored.Order.ID, stored.Order.Status, stored.Order.Version = a.id, a.status, a.version
	if !invariants.Same(stored.Order, a.state.Order) {
		a.fault("it is stored as %s v%d %s; replayed, it is %s v%d %s", a.status, a.version, text(stored.Order),
			a.state.Order.Status, a.state.Order.Version, text(a.state.Order))
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// compareOutbox holds the outbox against what the replay emitted: each emission
// has one row, and each row is one's.
func (a *audit) compareOutbox() {
	want := make(map[string]emission)
	for _, e := range a.emitted {
		want[e.ID] = e
	}
	seen := make(map[string]bool)
	for _, q := range a.outbox {
		e, emitted := want[q.ID]
		switch {
		case !emitted:
			a.fault("%s is in the outbox, and nothing emitted it", q.ID)
			continue
		case seen[q.ID]:
			a.fault("%s is in the outbox twice", q.ID)
		}
		seen[q.ID] = true
		if e.DueAt.IsZero() {
			e.DueAt = q.DueAt
		}
		if at := a.sentAgain(q.ID); at > 0 {
			e.seq = at * 1000 // to the end of the line
		}
		if got, meant := asRow(q.Outgoing, q.seq), asRow(e.Outgoing, e.seq); got != meant {
			a.fault("the outbox has %s; replayed, it is %s", got, meant)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if !seen[id] {
			a.fault("%s was emitted and is not in the outbox", id)
		}
	}
}

// sentAgain is the revision at which a person last had a command sent again.
func (o *recorded) sentAgain(commandID string) (revision int64) {
	for _, h := range o.journal {
		if h.Type == workflow.MessageType(workflow.SendAgain) && h.ParentID == commandID {
			revision = h.revision
		}
	}
	return revision
}

func asRow(o workflow.Outgoing, seq int64) string {
	if o.Purpose != "" {
		o.Body = nil // made when it is sent
	}
	return fmt.Sprintf("%d %s %s %s of %s from %s, %s %s %s %s", seq, o.ID, o.Type, o.Conversation, o.ParentID, o.OriginID,
		o.TraceParent, o.Purpose, o.DueAt.UTC().Format(time.RFC3339Nano), o.Body)
}

// states looks at how the rows of the outbox stand: what waits is awaited, and
// of deadlines there is the armed one.
func (a *audit) states() {
	o := &a.state.Order
	var armed []string
	for _, q := range a.outbox {
		if n := a.died(q.ID); n != q.deaths {
			a.fault("%s died %d times, and the order was told of %d", q.ID, q.deaths, n)
		}
		switch {
		case q.Purpose != "" && q.unsettled():
			armed = append(armed, q.ID)
		case q.Purpose != "":
			if q.state == workflow.DispatchDead {
				a.fault("the deadline %s is dead", q.ID)
			}
		case q.state == workflow.DispatchWaiting && !o.Awaits(q.ID):
			a.fault("%s waits to be sent, and nobody awaits it", q.ID)
		case q.state == workflow.DispatchSent && q.sentAt.IsZero():
			a.fault("%s is sent, and not known when", q.ID)
		case q.state == workflow.DispatchClosed && o.Awaits(q.ID) && !a.discarded(q.ID):
			a.fault("%s is closed, and it is awaited", q.ID)
		case q.state == workflow.DispatchDead && q.deaths == 0:
			a.fault("%s is dead, and never died", q.ID)
		case q.state == workflow.DispatchRecall:
			a.fault("the command %s is to be recalled", q.ID)
		}
	}
	var want []string
	if o.Armed != "" {
		want = []string{o.Armed}
	}
	if !slices.Equal(want, armed) {
		a.fault("armed is %v, and the outbox has %v", want, armed)
	}
}

// discarded reports whether a person had a command closed.
func (o *recorded) discarded(commandID string) bool {
	return slices.ContainsFunc(o.journal, func(h handled) bool {
		return h.Type == workflow.MessageType(workflow.DiscardCommand) && h.ParentID == commandID
	})
}

// died is how often the order was told that a command could not be sent, even if
// that waits to be handled.
func (o *recorded) died(commandID string) (n int) {
	for _, h := range o.journal {
		if h.Type == workflow.DispatchFailed && strings.HasPrefix(h.ID, commandID+":") {
			n++
		}
	}
	return n
}

// decided is the place of a command among all that its order decided to send,
// from 1; 0 for none.
func (o *recorded) decided(commandID string) (place int) {
	for _, h := range o.journal {
		for _, id := range h.emitted {
			place++
			if id == commandID {
				return place
			}
		}
	}
	return 0
}

// Heard is a command as a service, or the broker, got it.
type Heard struct {
	By      string // who; order is looked at for each
	ID      string
	OrderID string
	Type    workflow.MessageType
	Body    []byte
}

// Misheard says what was heard wrongly, in the order of hearing: a command that
// no order sent, one that changed, one that came for the first time after a
// later one of its order. Repeats are the same and may come at any time.
//
// Two kinds may be late. One that died is sent again when a person says so. And
// one that the order turned back from while its sender did not know whether it
// got through is not sent again, which would keep its place; if it was on the
// way all the same, it comes belatedly. Those are listed apart.
func (r *Record) Misheard(heard []Heard) (all, belated []string) {
	type line struct{ by, order string }
	last := make(map[line]int)
	seen := make(map[string]bool)
	for _, h := range heard {
		say := func(format string, args ...any) {
			all = append(all, fmt.Sprintf("%s: %s heard %s: %s", h.OrderID, h.By, h.ID, fmt.Sprintf(format, args...)))
		}
		o := r.byID[h.OrderID]
		if o == nil {
			say("no such order")
			continue
		}
		i := slices.IndexFunc(o.outbox, func(q queued) bool { return q.ID == h.ID })
		if i < 0 {
			say("it is not in the outbox")
			continue
		}
		q := &o.outbox[i]
		if q.Type != h.Type || string(q.Body) != string(h.Body) {
			say("it is %s %s, and was sent as %s %s", h.Type, h.Body, q.Type, q.Body)
		}
		name := h.By + " " + h.ID
		if seen[name] {
			continue
		}
		seen[name] = true
		at := line{h.By, h.OrderID}
		decided := o.decided(h.ID)
		switch {
		case decided > last[at] || q.deaths > 0:
		case q.state == workflow.DispatchClosed:
			belated = append(belated, fmt.Sprintf("%s: after %d attempts, %q", h.ID, q.attempts, q.lastError))
		default:
			say("for the first time after what was decided later; it is %s after %d attempts, %q", q.state, q.attempts, q.lastError)
		}
		last[at] = max(last[at], decided)
	}
	return all, belated
}

// Unheard says which commands are marked as sent and were not heard by anybody.
func (r *Record) Unheard(heard []Heard) (all []string) {
	seen := make(map[string]bool)
	for _, h := range heard {
		seen[h.ID] = true
	}
	for _, o := range r.orders {
		for _, q := range o.outbox {
			if q.Purpose == "" && q.state == workflow.DispatchSent && !seen[q.ID] {
				all = append(all, o.id+": "+q.ID+" is marked as sent, and nobody heard it")
			}
		}
	}
	return all
}
