package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errForeign means that what answers does not speak as Orderflow does.
var errForeign = errors.New("the answer is not one of Orderflow's")

// possible is something that may be done about an order now: the action and the
// fields of its body.
type possible map[string]string

// story is an order as the API tells it.
type story struct {
	OrderID   string      `json:"orderId"`
	Status    string      `json:"status"`
	Meaning   string      `json:"meaning"`
	WaitsFor  string      `json:"waitsFor"`
	Facts     []string    `json:"facts"`
	Version   json.Number `json:"version"`
	Since     string      `json:"since"`
	CreatedAt string      `json:"createdAt"`
	UpdatedAt string      `json:"updatedAt"`
	Deadline  *struct {
		ID    string `json:"id"`
		DueAt string `json:"dueAt"`
	} `json:"deadline"`
	Journal   []item `json:"journal"`
	Outbox    []item `json:"outbox"`
	BlockedBy *struct {
		MessageID string `json:"messageId"`
		Reason    string `json:"reason"`
	} `json:"blockedBy"`
	Line     []string   `json:"line"`
	Held     []string   `json:"held"`
	Rejected []item     `json:"rejected"`
	Stuck    []string   `json:"stuck"`
	Allowed  []possible `json:"allowed"`
}

// lastLines is how much of its journal is shown of an order.
const lastLines = 8

// tellOrder answers why an order waits, and what may be done about it.
func tellOrder(p *page, body []byte) error {
	var s story
	if err := decode(body, &s); err != nil {
		return err
	}
	if s.OrderID == "" || s.Status == "" {
		return errForeign
	}
	version, err := s.Version.Int64()
	if err != nil {
		return fmt.Errorf("%w: %w", errForeign, err)
	}
	p.words("", "    ", s.OrderID+" is "+s.Status+": "+s.Meaning)
	p.fact("waits for", or(s.WaitsFor, "nothing"))
	p.fact("since", p.when(s.Since))
	if s.Deadline != nil {
		p.fact("deadline", s.Deadline.ID+", due "+p.when(s.Deadline.DueAt))
	}
	p.fact("version", s.Version.String()+", known since "+or(at(s.CreatedAt), "-")+", last decided about "+or(at(s.UpdatedAt), "-"))
	for _, fact := range s.Facts {
		p.fact("fact", fact)
	}
	p.several("It is stuck", s.Stuck)
	if s.BlockedBy != nil {
		p.say("\nBlocked by %s", plain(s.BlockedBy.MessageID))
		p.words("    ", "    ", s.BlockedBy.Reason)
		if len(s.Line) > 1 {
			p.words("  behind it: ", "    ", strings.Join(s.Line[1:], ", "))
		}
	}
	p.several("Held until they matter", s.Held)
	p.section("Sent, or to be sent", s.Outbox, outboxColumns())
	p.section("Rejected", s.Rejected, []column{
		{head: "MESSAGE", of: []string{"messageId"}}, {head: "TYPE", of: []string{"type"}}, {head: "TIMES", of: []string{"times"}},
		{head: "LAST", of: []string{"at"}, at: true}, {of: []string{"reason"}, note: true},
	})
	title, last := "Journal", s.Journal
	if most := len(last); most > lastLines {
		last = last[most-lastLines:]
		title = fmt.Sprintf("Journal, the last %d of %d lines", lastLines, most)
	}
	p.section(title, last, journalColumns())
	if len(s.Allowed) == 0 {
		p.say("\nNothing is to be done about it now.")
		return nil
	}
	var now, later []possible
	for _, may := range s.Allowed {
		if p.notYet(may) {
			later = append(later, may)
		} else {
			now = append(now, may)
		}
	}
	p.offer("\nPossible now, with a reason at the end", now, s.OrderID, version)
	for _, may := range later { // when the broker has forgotten it
		p.offer("\nPossible from "+at(may["notBefore"])+" on", []possible{may}, s.OrderID, version)
	}
	return nil
}

// notYet reports whether something may be done later only.
func (p *page) notYet(may possible) bool {
	from, err := time.Parse(time.RFC3339, may["notBefore"])
	return err == nil && from.After(p.now)
}

func (p *page) offer(title string, all []possible, order string, version int64) {
	if len(all) == 0 {
		return
	}
	p.say("%s", title)
	for _, may := range all {
		p.say("  %s", plain(p.again(may, order, version)))
	}
}

func (p *page) fact(name, value string) {
	p.words(fmt.Sprintf("  %-11s ", name), "              ", value)
}

func (p *page) several(title string, all []string) {
	if len(all) == 0 {
		return
	}
	p.say("\n%s", title)
	for _, one := range all {
		p.words("  - ", "    ", one)
	}
}

func (p *page) section(title string, items []item, columns []column) {
	if len(items) == 0 {
		return
	}
	p.say("\n%s", title)
	(&table{page: p, columns: columns, indent: "  "}).rows(items)
}

// tellDone says what was done.
func tellDone(p *page, body []byte) error {
	var done struct {
		ID        string `json:"id"` // of a rejected message
		OrderID   string `json:"orderId"`
		Action    string `json:"action"`
		MessageID string `json:"messageId"`
		Outcome   string `json:"outcome"`
		Reason    string `json:"reason"`
		From      string `json:"from"`
		To        string `json:"to"`
		Version   json.Number
		Repeated  bool `json:"repeated"`
	}
	if err := decode(body, &done); err != nil {
		return err
	}
	if done.Action == "" || done.OrderID == "" && done.ID == "" {
		return errForeign
	}
	if done.OrderID == "" {
		p.say("%s: %s is done", plain(done.ID), plain(done.Action))
		return nil
	}
	moved := done.To
	if done.From != done.To {
		moved = done.From + " → " + done.To
	}
	p.words("", "    ", fmt.Sprintf("%s: %s is %s, %s, version %s: %s", done.OrderID, done.Action, done.Outcome, moved, done.Version, done.Reason))
	if done.Repeated {
		p.say("    that was decided before, and nothing was done now")
	}
	p.say("    journalled as %s", plain(done.MessageID))
	return nil
}

// errLeft means that not all was done; what was is told.
var errLeft = errors.New("some are left")

// tellBroughtBack says what became of dead letters.
func tellBroughtBack(p *page, body []byte) error {
	var done struct {
		Action   string         `json:"action"`
		Handled  int            `json:"handled"`
		Outcomes map[string]int `json:"outcomes"`
		Failed   []item         `json:"failed"`
		More     bool           `json:"more"`
		Trouble  []string       `json:"trouble"`
	}
	if err := decode(body, &done); err != nil {
		return err
	}
	if done.Action == "" {
		return errForeign
	}
	p.say("handled %d", done.Handled)
	if done.Handled == 0 && !done.More && len(done.Failed)+len(done.Trouble) == 0 {
		p.say("there are none of those")
	}
	count(p, done.Outcomes)
	p.section("Left, for they could not be handled", done.Failed, []column{
		{head: "SUBSCRIPTION", of: []string{"subscription"}}, {head: "ORDER", of: []string{"orderId"}}, {head: "MESSAGE", of: []string{"messageId"}},
		{head: "TYPE", of: []string{"type"}}, {of: []string{"why"}, note: true},
	})
	p.several("Trouble with the broker", done.Trouble)
	if done.More {
		p.say("\nThere may be more: the same again goes on.")
	}
	if len(done.Failed)+len(done.Trouble) > 0 {
		return errLeft
	}
	return nil
}

// tellRejected shows a rejected message with its body.
func tellRejected(p *page, body []byte) error {
	var m struct {
		item
		Text  *string `json:"bodyText"`
		Whole bool    `json:"bodyIsWhole"`
	}
	if err := errors.Join(decode(body, &m), decode(body, &m.item)); err != nil {
		return err
	}
	if m.item["id"] == nil {
		return errForeign
	}
	for _, name := range []string{"id", "reason", "orderId", "messageId", "type", "firstAt", "lastAt", "times", "function", "deliveries",
		"conversation", "parentId", "originId", "schemaVersion", "fingerprint", "size"} {
		if value := text(m.item[name]); value != "" {
			p.words(fmt.Sprintf("%-14s ", name), "               ", value)
		}
	}
	if m.Text == nil {
		p.say("\nThe body is no text; -o json has its bytes in base64.")
	} else {
		p.say("\n%s", lines(*m.Text))
	}
	if !m.Whole {
		p.say("\nNot all of the body was kept.")
	}
	return nil
}

// tellSummary shows counts.
func tellSummary(p *page, body []byte) error {
	var s struct {
		ByStatus map[string]int `json:"byStatus"`
		Backlog  backlog        `json:"backlog"`
		Stuck    map[string]int `json:"stuck"`
		Partial  bool           `json:"stuckIsPartial"`
		ReadAt   string         `json:"readAt"`

		Rejected     int  `json:"rejected"`
		MoreRejected bool `json:"rejectedIsPartial"`
		DeadLetters  *int `json:"deadLetters"`
	}
	if err := decode(body, &s); err != nil {
		return err
	}
	if s.ByStatus == nil {
		return errForeign
	}
	p.say("Orders at %s", at(s.ReadAt))
	count(p, s.ByStatus)
	lag := ""
	if ms, err := s.Backlog.LagMs.Float64(); err == nil && ms > 0 {
		lag = ", the first of them for " + span(time.Duration(ms)*time.Millisecond)
	}
	p.say("\nNot done")
	for _, line := range []struct {
		name  string
		count int
		says  string
	}{
		{"waiting", s.Backlog.Waiting, "messages to be sent" + lag},
		{"dead", s.Backlog.Dead, "commands that were refused for good"},
		{"blocked", s.Backlog.Blocked, "orders that a message blocks"},
		{"early", s.Backlog.Early, "messages that came before they matter"},
		{"overdue", s.Backlog.Overdue, "deadlines that passed and did not come back"},
		{"rejected", s.Rejected, "messages that were refused for good" + map[bool]string{true: ", or more"}[s.MoreRejected]},
	} {
		p.say("  %-20s %7d  %s", line.name, line.count, line.says)
	}
	letters := "-"
	if s.DeadLetters != nil {
		letters = strconv.Itoa(*s.DeadLetters)
	}
	p.say("  %-20s %7s  messages that the broker gave up", "dead letters", letters)
	p.say("\nStuck")
	count(p, s.Stuck)
	if len(s.Stuck) == 0 {
		p.say("  nothing")
	}
	if s.Partial {
		p.say("  not all were looked at: there are too many")
	}
	return nil
}

type backlog struct {
	Waiting int         `json:"waiting"`
	LagMs   json.Number `json:"lagMs"`
	Dead    int         `json:"dead"`
	Blocked int         `json:"blocked"`
	Early   int         `json:"early"`
	Overdue int         `json:"overdue"`
}

func count(p *page, counts map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		p.say("  %-20s %7d", plain(name), counts[name])
	}
}

// tellProcess shows the statuses of the process.
func tellProcess(p *page, body []byte) error {
	var process struct {
		Statuses []item `json:"statuses"`
	}
	if err := decode(body, &process); err != nil {
		return err
	}
	(&table{page: p, columns: []column{
		{head: "STATUS", of: []string{"status"}}, {head: "DEADLINE", of: []string{"deadline"}}, {head: "WAITS FOR", of: []string{"waitsFor"}},
		{of: []string{"means"}, note: true},
	}}).rows(process.Statuses)
	return nil
}

// tellHealth says how the app is.
func tellHealth(p *page, body []byte) error {
	h, err := readHealth(body)
	if err != nil {
		return err
	}
	p.say("%s", plain(h.Status))
	for _, trouble := range h.Degraded {
		p.words("  - ", "    ", trouble)
	}
	return nil
}

type health struct {
	Status   string   `json:"status"`
	Degraded []string `json:"degraded"`
}

func readHealth(body []byte) (h health, err error) {
	if err = decode(body, &h); err == nil && h.Status == "" {
		err = errForeign
	}
	return h, err
}

// or is a value, or another where there is none.
func or[T comparable](value, otherwise T) T {
	var none T
	if value == none {
		return otherwise
	}
	return value
}
