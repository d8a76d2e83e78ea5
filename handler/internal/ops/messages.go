package ops

import (
	"encoding/hex"
	"net/url"
	"slices"
	"unicode/utf8"

	"orderflow/workflow"
)

// lists are the lists of messages, in the order of their tabs. The names are
// those of the parameter kind.
func lists() []list {
	return []list{
		{"dead", "Dead commands", "The broker refused these commands for good. Their orders go on without them, or wait: open one to send its command again or to give it up."},
		{"blocked", "Blocked", "Messages that could not be handled, and those that wait in order behind them. Open the order to retry or skip the first."},
		{"early", "Early", "Messages that came before they could matter. Each is taken up in the same commit as what makes it acceptable."},
		{"rejected", "Rejected", "Messages that were refused for good, kept with their bytes until a person resubmits or discards them."},
		{"dead-letters", "Dead letters", "Messages that the broker gave up after ten deliveries, as in a long outage. Brought back, they are handled as if they came now, each order's oldest first; each try to bring one back is a delivery, too."},
		{"waiting", "To be sent", "Commands in the outbox that the broker does not have yet."},
		{"deadlines", "Deadlines", "Deadlines that are kept here until shortly before they are due."},
		{"scheduled", "At the broker", "Deadlines that the broker holds until they are due."},
		{"recalled", "To recall", "Deadlines that nobody wants any more and that the broker is asked to give back."},
	}
}

// list is a list of messages and what is in it.
type list struct{ Kind, Title, Says string }

// tab is a list and how much is in it, where that is counted.
type tab struct {
	list
	Count string
	Tone  string
	Here  bool
}

type tabs struct {
	Tabs []tab
	Here list
}

type messages struct {
	Here     list
	First    string
	Next     string
	Commands []workflow.DispatchAt
	Due      bool // they are deadlines
	Kept     []workflow.Kept
	Refused  []workflow.Refused
	Letters  []letter
	Actions  []action // about the whole list
	ReadOnly bool
	Slow     bool // it is asked of the broker, and not to be asked often
}

// letter is a dead letter in the list. BringBack is about all of its order, and
// is there once for each.
type letter struct {
	workflow.DeadLetter
	BringBack *action
}

// Tabs names the lists of messages, and says of one what is in it. Of the
// rejected messages and the dead letters it is told what Overview is.
func (p *Page) Tabs(kind string, b workflow.Backlog, rejected workflow.Page[workflow.Refused], deadLetters int) []byte {
	counts := map[string]string{
		"dead": count(b.Dead, false), "blocked": count(b.Blocked, false), "early": count(b.Early, false),
		"rejected": count(len(rejected.Items), rejected.Next != ""), "dead-letters": count(max(0, deadLetters), deadLetters >= workflow.DeadLettersCounted),
	}
	tones := map[string]string{"dead": "bad", "blocked": "bad", "rejected": "warn", "dead-letters": "bad"}
	var v tabs
	for _, l := range lists() {
		t := tab{list: l, Here: l.Kind == kind}
		if n := counts[l.Kind]; n != "0" {
			t.Count, t.Tone = n, tones[l.Kind]
		}
		if t.Here {
			v.Here = l
		}
		v.Tabs = append(v.Tabs, t)
	}
	return p.render("tabs", v)
}

func messagesView(kind string, first bool, next string) messages {
	all := lists()
	var v messages
	if i := slices.IndexFunc(all, func(l list) bool { return l.Kind == kind }); i >= 0 {
		v.Here = all[i]
	}
	if !first {
		v.First = messagesLink(kind, "")
	}
	if next != "" {
		v.Next = messagesLink(kind, next)
	}
	return v
}

func messagesLink(kind, token string) string {
	link := "#/messages?kind=" + url.QueryEscape(kind)
	if token != "" {
		link += "&continuationToken=" + url.QueryEscape(token)
	}
	return link
}

// Dispatches lists commands, or deadlines. As in all lists of messages, first
// says that the page is the first one, and its Next is the token of the next.
func (p *Page) Dispatches(kind string, deadlines, first bool, page workflow.Page[workflow.DispatchAt]) []byte {
	v := messagesView(kind, first, page.Next)
	v.Commands, v.Due = page.Items, deadlines
	return p.render("messages", v)
}

// Kept lists messages that wait: early ones, or lines.
func (p *Page) Kept(kind string, first bool, page workflow.Page[workflow.Kept]) []byte {
	v := messagesView(kind, first, page.Next)
	v.Kept = page.Items
	return p.render("messages", v)
}

// Rejections lists messages that were refused for good.
func (p *Page) Rejections(kind string, first bool, page workflow.Page[workflow.Refused]) []byte {
	v := messagesView(kind, first, page.Next)
	v.Refused = page.Items
	return p.render("messages", v)
}

// DeadLetters lists what the broker gave up, with how much of it there is of each
// subscription.
func (p *Page) DeadLetters(kind string, first bool, counts map[string]int, page workflow.Page[workflow.DeadLetter]) []byte {
	v := messagesView(kind, first, page.Next)
	v.Actions, v.ReadOnly, v.Slow = bringBack(counts), p.readOnly, true
	offered := make(map[string]bool)
	for _, d := range page.Items {
		row := letter{DeadLetter: d}
		if !p.readOnly && !offered[d.OrderID] && workflow.OrderIDFault(d.OrderID) == "" {
			row.BringBack, offered[d.OrderID] = bringBackOf(d.OrderID), true
		}
		v.Letters = append(v.Letters, row)
	}
	return p.render("messages", v)
}

// mostShown is how many bytes of a rejected body are shown; the API has them all.
const mostShown = 32 << 10

type rejected struct {
	workflow.Refused
	Known    bool // it names an order that may be looked for
	Text     string
	Dump     string // the bytes, where they are no text
	Cut      bool   // not all that is kept is shown
	Actions  []action
	ReadOnly bool
}

// Rejected shows one rejected message with its bytes.
func (p *Page) Rejected(m workflow.Refused) []byte {
	v := rejected{Refused: m, Known: workflow.OrderIDFault(m.OrderID) == "", ReadOnly: p.readOnly}
	if m.Open { // nobody has dealt with it since it last came
		v.Actions = rejectedActions(m.ID)
	}
	body := m.Body
	if v.Cut = len(body) > mostShown; v.Cut {
		body = body[:mostShown]
		for len(body) > 0 && utf8.Valid(m.Body) && !utf8.Valid(body) {
			body = body[:len(body)-1]
		}
	}
	if utf8.Valid(body) {
		v.Text = visible(string(body))
	} else {
		v.Dump = hex.Dump(body)
	}
	return p.render("rejected", v)
}
