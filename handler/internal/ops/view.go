package ops

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"orderflow/workflow"
)

// Fragments are the same for the same data at whatever time, since they are
// compared by a hash: a time is absolute here, and the script says how long ago
// it was.

// funcs are what the templates call.
func funcs() template.FuncMap {
	return template.FuncMap{
		"text": visible, "rfc3339": rfc3339, "clock": clock, "order": orderLink, "status": statusLink, "rejection": rejectionLink, "tone": tone, "plural": plural,
		"known": func(orderID string) bool { return workflow.OrderIDFault(orderID) == "" },
	}
}

// visible is a text from outside in which nothing is hidden: what cannot be
// seen, or changes the direction of what follows, is written as \u{202e}. What
// it means to HTML is the template's to escape.
func visible(value any) string {
	var b strings.Builder
	for _, r := range fmt.Sprint(value) {
		switch {
		case r == unicode.ReplacementChar, r != '\n' && r != '\t' && r != ' ' && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func rfc3339(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// orderLink is where the page shows an order. Like all its addresses it is in
// the part that is never sent to a server.
func orderLink(id string) string { return "#/orders/" + url.PathEscape(id) }

// statusLink lists the orders of a status.
func statusLink(s workflow.Status) string { return "#/orders?status=" + url.QueryEscape(string(s)) }

// rejectionLink is where the page shows a rejected message.
func rejectionLink(id string) string { return "#/messages/rejected/" + url.PathEscape(id) }

// short is an ID without the order's own in front of it.
func short(orderID, id string) string {
	if rest, own := strings.CutPrefix(id, orderID+":"); own && rest != "" {
		return rest
	}
	return id
}

// tone says with which colour a status, an outcome or the state of something is
// shown: good, wait, back, warn, bad, or nothing.
func tone(value any) string {
	switch fmt.Sprint(value) {
	case string(workflow.Completed), string(workflow.EffectHeld), workflow.DispatchSent:
		return "good"
	case string(workflow.AwaitingInventory), string(workflow.AwaitingPayment), string(workflow.AwaitingShipment),
		string(workflow.EffectWaiting): // which a message that waits to be sent is called, too
		return "wait"
	case string(workflow.Compensating), string(workflow.EffectUndone):
		return "back"
	case string(workflow.NeedsAttention), string(workflow.EffectOverdue), string(workflow.Held):
		return "warn"
	case string(workflow.Blocked), string(workflow.Rejected), string(workflow.EffectFailed), workflow.DispatchDead:
		return "bad"
	}
	return ""
}

// pause is a length of time as it is read at a glance; empty for none.
func pause(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Minute:
		return strconv.FormatFloat(d.Round(10*time.Millisecond).Seconds(), 'f', -1, 64) + " s"
	}
	return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
}

// plural is a number with what is counted.
func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// count is a number of things of which there may be more.
func count(n int, more bool) string {
	if more {
		return strconv.Itoa(n) + "+"
	}
	return strconv.Itoa(n)
}
