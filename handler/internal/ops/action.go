package ops

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"orderflow/workflow"
)

// action is something that an operator may do now: a button, and what its dialog
// says and sends.
type action struct {
	Name   string // as in the API
	Verb   string // on the button
	Grave  bool   // it gives something up
	Dialog string // for the script, as JSON
}

// dialog is what the script needs of an action.
type dialog struct {
	Title   string            `json:"title"`
	Says    string            `json:"says"`
	About   string            `json:"about"` // what it is about, as it was seen
	Grave   bool              `json:"grave"`
	Path    string            `json:"path"`   // below /api/
	Opener  string            `json:"opener"` // the function whose key opens it
	Fields  map[string]string `json:"fields"` // of the body, besides the reason
	Version string            `json:"version,omitempty"`
}

// actions are what may be done about an order as it stands.
func actions(s workflow.Story) []action {
	var all []action
	for _, p := range workflow.Allowed(s) {
		a, says, field := words(p, short(s.Order.ID, p.Target))
		d := dialog{
			Title: a.Verb, Says: says, Grave: a.Grave, Opener: "order-actions", Fields: map[string]string{},
			Path: "orders/" + url.PathEscape(s.Order.ID) + "/" + p.Action, Version: strconv.FormatInt(s.Order.Version, 10),
		}
		d.About = "Order " + visible(s.Order.ID) + ", as you see it at version " + d.Version
		switch {
		case p.To != "":
			d.Fields["to"] = p.To
		case p.Target != "":
			d.Fields[field] = p.Target
		}
		a.Name, a.Dialog = p.Action, jsonOf(d)
		all = append(all, a)
	}
	return all
}

// words are what is said of something possible, and the field of the body that
// names the message that is meant.
func words(p workflow.Possible, target string) (a action, says, field string) {
	switch {
	case p.Action == "cancel":
		return action{Verb: "Cancel the order", Grave: true}, "The order is backed out, as its customer may ask: whatever happened is undone, money first, then goods.", ""
	case p.Action == "retry" && target == "":
		return action{Verb: "Retry the undo"}, "The undo that failed is sent once more, as a new attempt.", ""
	case p.Action == "retry":
		return action{Verb: "Handle " + target + " again"}, "The message that blocks the order is handled again, and then what waits behind it, in order.", "messageId"
	case p.Action == "skip":
		return action{Verb: "Skip " + target, Grave: true}, "The message that blocks the order is given up and never handled. What waits behind it is.", "messageId"
	case p.Action == "resolve" && p.To == "cancelled":
		return action{Verb: "Resolve to cancelled", Grave: true}, "You settled by hand what the order is stuck on: it counts as undone, and backing out goes on from there.", ""
	case p.Action == "resolve":
		return action{Verb: "Resolve to completed", Grave: true}, "The order counts as fulfilled from now on.", ""
	case p.Action == "send-again":
		return action{Verb: "Send " + target + " again"}, "The command is sent again under its own MessageId, on which services deduplicate.", "commandId"
	case p.Action == "discard":
		return action{Verb: "Discard " + target, Grave: true}, "The command is given up and never sent again.", "commandId"
	case p.Action == "fire-deadline":
		return action{Verb: "Let " + target + " pass now"}, "The armed deadline is applied at once, as if it were due.", "deadlineId"
	}
	return action{Verb: p.String()}, "", "messageId"
}

// rejectedActions are what may be done about a rejected message.
func rejectedActions(id string) []action {
	about := func(name, verb, says string, grave bool) action {
		return action{Name: name, Verb: verb, Grave: grave, Dialog: jsonOf(dialog{
			Title: verb, Says: says, About: "Message " + visible(id), Grave: grave, Opener: "operation-actions", Fields: map[string]string{},
			Path: "operations/rejected/" + url.PathEscape(id) + "/" + name,
		})}
	}
	return []action{
		about("resubmit", "Resubmit the message", "The message is handled as if it came now.", false),
		about("discard", "Discard the message", "The message is given up. It is kept a while longer, with your reason, and not listed any more.", true),
	}
}

// bringBack are what may be done about dead letters: those of one subscription
// are brought back at a time.
func bringBack(counts map[string]int) (all []action) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		n := counts[name]
		if n == 0 {
			continue
		}
		number := count(n, n >= workflow.DeadLettersCounted)
		all = append(all, redrive("Bring back "+number+" of "+name, number+" of the subscription "+name, map[string]string{"subscription": name}))
	}
	return all
}

// bringBackOf brings back the dead letters of one order, whatever their
// subscription.
func bringBackOf(orderID string) *action {
	a := redrive("Bring back this order's", "All of order "+visible(orderID), map[string]string{"orderId": orderID})
	return &a
}

func redrive(verb, about string, fields map[string]string) action {
	return action{Name: "redrive", Verb: verb, Dialog: jsonOf(dialog{
		Title: "Bring back what was given up", Says: "The messages are handled as if they came now, each order's oldest first, and taken out at the broker. At most 100 are handled at once.",
		About: about, Opener: "operation-actions", Path: "operations/dead-letters/redrive", Fields: fields,
	})}
}

// jsonOf is a value of texts as JSON, which cannot fail.
func jsonOf(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(b)
}
