package cli

import "net/http"

// verb is one thing that the command line does: one request to the API.
type verb struct {
	group, name string // name is empty where the group is all there is to say
	// argument is what is named without a flag, such as an order; it stands for
	// {id} in the path. Empty for none.
	argument string
	// within is the field of the body that holds the argument; then what stands
	// for {id} is its beginning, the order that an ID of a command begins with.
	within string

	function string // whose key opens it
	method   string
	path     string // below /api/
	query    []field
	body     []field // besides the reason
	says     string

	// list is how a list is told, one line for each item; paged lists are longer
	// than an answer. What is no list is told by tell.
	list  []column
	items string // what the API calls the items; empty for items
	paged bool
	tell  func(*page, []byte) error
	// broker: the app asks its broker, so that a database does not do.
	broker bool
	// probe asks how the app is, so that a bad answer is an answer.
	probe bool
}

// field is a flag that becomes a parameter of the query or a field of the body.
type field struct {
	flag, name string
	says       string // with what it takes in backquotes, as package flag has it
	need       bool
	yes        bool // it takes no value
}

func (v *verb) acts() bool { return v.method == http.MethodPost }

// sentOnce reports whether the request is sent once, whatever comes of it: asked
// again, dead letters that are left would be brought back, more than was asked
// for.
func (v *verb) sentOnce() bool { return v.probe || v.broker && v.acts() }

func (v *verb) String() string {
	if v.name == "" {
		return v.group
	}
	return v.group + " " + v.name
}

// verbs is the table of all verbs.
func verbs() []verb {
	const (
		get, post     = http.MethodGet, http.MethodPost
		read, act     = "orders", "order-actions"
		look, operate = "operations", "operation-actions"
	)
	status := field{flag: "status", name: "status", says: "orders in these `STATUSES`, with commas between them"}
	prefix := field{flag: "prefix", name: "idPrefix", says: "orders whose ID begins with `TEXT`"}
	message := field{flag: "message", name: "messageId", says: "the `MESSAGE` that blocks the order"}
	command := field{flag: "command", name: "commandId", says: "the `COMMAND`, as in order-42:capture-payment:1", need: true}
	states := func(says string) []field { return []field{{flag: "state", name: "state", says: says}} }

	return []verb{
		{group: "orders", name: "list", function: read, method: get, path: "orders", list: orderColumns(), paged: true,
			says: "the orders, the one decided about last first",
			query: []field{
				status, prefix,
				{flag: "created-from", name: "createdTimeFrom", says: "known since `TIME`, as in 2026-07-19T10:00:00Z"},
				{flag: "created-to", name: "createdTimeTo", says: "known before `TIME`"},
				{flag: "updated-from", name: "lastUpdatedTimeFrom", says: "last decided about since `TIME`"},
				{flag: "updated-to", name: "lastUpdatedTimeTo", says: "last decided about before `TIME`"},
				{flag: "stuck", name: "stuck", says: "only those that are stuck", yes: true},
				{flag: "blocked", name: "blocked", says: "only those that a message blocks", yes: true},
			}},
		{group: "orders", name: "show", argument: "ORDER", function: read, method: get, path: "orders/{id}", tell: tellOrder,
			says: "why it waits, and what may be done now"},
		{group: "orders", name: "history", argument: "ORDER", function: read, method: get, path: "orders/{id}/history", list: journalColumns(),
			says: "every message of it and what was decided"},
		{group: "orders", name: "diagram", argument: "ORDER", function: read, method: get, path: "orders/{id}/diagram",
			says: "the process as Mermaid text, with the order's place marked"},
		{group: "orders", name: "cancel", argument: "ORDER", function: act, method: post, path: "orders/{id}/cancel", tell: tellDone,
			says: "back it out, as its customer may"},
		{group: "orders", name: "retry", argument: "ORDER", function: act, method: post, path: "orders/{id}/retry", tell: tellDone,
			says: "try a failed undo once more, or the message that blocks it", body: []field{message}},
		{group: "orders", name: "skip", argument: "ORDER", function: act, method: post, path: "orders/{id}/skip", tell: tellDone,
			says: "give up the message that blocks it", body: []field{{flag: message.flag, name: message.name, says: message.says, need: true}}},
		{group: "orders", name: "resolve", argument: "ORDER", function: act, method: post, path: "orders/{id}/resolve", tell: tellDone,
			says: "settle by hand what it is stuck on",
			body: []field{{flag: "to", name: "to", says: "how it ends: `completed|cancelled`", need: true}}},
		{group: "orders", name: "send-again", argument: "ORDER", function: act, method: post, path: "orders/{id}/send-again", tell: tellDone,
			says: "send a dead or unanswered command again, under its own MessageId", body: []field{command}},
		{group: "orders", name: "discard", argument: "ORDER", function: act, method: post, path: "orders/{id}/discard", tell: tellDone,
			says: "give such a command up", body: []field{command}},
		{group: "orders", name: "fire-deadline", argument: "ORDER", function: act, method: post, path: "orders/{id}/fire-deadline", tell: tellDone,
			says: "apply the armed deadline at once",
			body: []field{{flag: "deadline", name: "deadlineId", says: "only if it is this `DEADLINE`, as in order-42:payment-timeout:1"}}},

		{group: "outbox", name: "list", function: look, method: get, path: "operations/outbox", list: outboxColumns(), paged: true,
			says: "commands to other services", query: states("`waiting|dead|sent`, or the deadlines to recall; waiting if not said")},
		{group: "outbox", name: "resend", argument: "COMMAND", within: "commandId", function: act, method: post, path: "orders/{id}/send-again", tell: tellDone,
			says: "send a dead or unanswered command again, under its own MessageId"},
		{group: "outbox", name: "discard", argument: "COMMAND", within: "commandId", function: act, method: post, path: "orders/{id}/discard", tell: tellDone,
			says: "give such a command up"},

		{group: "held", name: "list", function: look, method: get, path: "operations/held", list: heldColumns(), paged: true,
			says: "messages that wait", query: []field{{flag: "kind", name: "kind", says: "`all|early|blocked`, or rejected ones; all that wait if not said"}}},
		{group: "held", name: "resubmit", argument: "ID", function: operate, method: post, path: "operations/rejected/{id}/resubmit", tell: tellDone,
			says: "the same as rejected resubmit"},
		{group: "held", name: "discard", argument: "ID", function: operate, method: post, path: "operations/rejected/{id}/discard", tell: tellDone,
			says: "the same as rejected discard"},

		{group: "rejected", name: "list", function: look, method: get, path: "operations/rejected", list: rejectedColumns(), paged: true,
			says: "messages that were refused for good and that nobody has dealt with"},
		{group: "rejected", name: "show", argument: "ID", function: look, method: get, path: "operations/rejected/{id}", tell: tellRejected,
			says: "one of them, with its body"},
		{group: "rejected", name: "resubmit", argument: "ID", function: operate, method: post, path: "operations/rejected/{id}/resubmit", tell: tellDone,
			says: "handle it as if it came now"},
		{group: "rejected", name: "discard", argument: "ID", function: operate, method: post, path: "operations/rejected/{id}/discard", tell: tellDone,
			says: "give it up"},

		{group: "dead-letters", name: "list", function: look, method: get, path: "operations/dead-letters", list: deadLetterColumns(), items: "deadLetters", paged: true, broker: true,
			says: "what the broker gave up", query: []field{{flag: "subscription", name: "subscription", says: "only that of a `SUBSCRIPTION`"}}},
		{group: "dead-letters", name: "redrive", function: operate, method: post, path: "operations/dead-letters/redrive", tell: tellBroughtBack, broker: true,
			says: "handle it after all and take it out at the broker",
			body: []field{
				{flag: "subscription", name: "subscription", says: "only that of a `SUBSCRIPTION`"},
				{flag: "order", name: "orderId", says: "only that of an `ORDER`"},
				{flag: "top", name: "top", says: "`MESSAGES` at most"},
			}},

		{group: "deadlines", name: "list", function: look, method: get, path: "operations/deadlines", list: deadlineColumns(), paged: true,
			says: "deadlines", query: states("`waiting|sent|recall`: here, with the broker, or to be taken back from it; waiting if not said")},

		{group: "stuck", function: look, method: get, path: "operations/stuck", list: orderColumns(), paged: true,
			says: "the orders that are stuck, and why", query: []field{status, prefix}},
		{group: "summary", function: look, method: get, path: "operations/summary", tell: tellSummary,
			says: "orders by status, what is not done, how many are stuck and why"},
		{group: "process", function: look, method: get, path: "operations/process", tell: tellProcess,
			says: "the process that runs there: each status, and what it waits for"},
		{group: "health", function: "health", method: get, path: "health/ready", tell: tellHealth, probe: true,
			says: "whether orders can be worked on, and what a person should see to"},
		{group: "health", name: "live", function: "health", method: get, path: "health/live", tell: tellHealth, probe: true,
			says: "whether it answers"},
	}
}

// find is the verb of a group and a name.
func find(group, name string) *verb {
	for _, v := range verbs() {
		if v.group == group && v.name == name {
			return &v
		}
	}
	return nil
}

// Words are the words that begin a command of an operator: the groups of verbs,
// in the order of the table.
func Words() (all []string) {
	for _, v := range verbs() {
		if len(all) == 0 || all[len(all)-1] != v.group {
			all = append(all, v.group)
		}
	}
	return all
}

// column is one column of a list. A note stands below the line of its item, after
// its head,
// where there is room for words.
type column struct {
	head string
	of   []string // names in the API's JSON: the first that says something
	at   bool     // it is a time
	note bool
}

func orderColumns() []column {
	return []column{
		{head: "ORDER", of: []string{"orderId"}}, {head: "STATUS", of: []string{"status"}}, {head: "VERSION", of: []string{"version"}},
		{head: "SINCE", of: []string{"since"}, at: true}, {head: "DEADLINE", of: []string{"deadlineAt"}, at: true},
		{of: []string{"stuck", "problem"}, note: true},
	}
}

func journalColumns() []column {
	return []column{
		{head: "AT", of: []string{"at"}, at: true}, {head: "V", of: []string{"version"}}, {head: "OUTCOME", of: []string{"outcome"}},
		{head: "STATUS", of: []string{"to"}}, {head: "MESSAGE", of: []string{"type"}}, {head: "ID", of: []string{"messageId"}},
		{of: []string{"reason"}, note: true}, {head: "by ", of: []string{"actor"}, note: true}, {head: "⇒ ", of: []string{"emitted"}, note: true},
	}
}

func outboxColumns() []column {
	return []column{
		{head: "ID", of: []string{"id"}}, {head: "STATE", of: []string{"state"}}, {head: "TRIES", of: []string{"attempts"}},
		{head: "NEXT TRY", of: []string{"nextAttemptAt"}, at: true}, {head: "SENT", of: []string{"sentAt"}, at: true},
		{of: []string{"lastError"}, note: true},
	}
}

func deadlineColumns() []column {
	return []column{
		{head: "ID", of: []string{"id"}}, {head: "STATE", of: []string{"state"}}, {head: "DUE", of: []string{"dueAt"}, at: true},
		{head: "SENT", of: []string{"sentAt"}, at: true}, {of: []string{"lastError"}, note: true},
	}
}

func heldColumns() []column {
	return []column{
		{head: "ORDER", of: []string{"orderId"}}, {head: "MESSAGE", of: []string{"messageId"}}, {head: "TYPE", of: []string{"type"}},
		{head: "HELD AS", of: []string{"outcome"}}, {head: "SINCE", of: []string{"receivedAt"}, at: true}, {of: []string{"reason"}, note: true},
	}
}

func rejectedColumns() []column {
	return []column{
		{head: "ID", of: []string{"id"}}, {head: "ORDER", of: []string{"orderId"}}, {head: "TYPE", of: []string{"type"}},
		{head: "TIMES", of: []string{"times"}}, {head: "LAST", of: []string{"lastAt"}, at: true}, {of: []string{"reason"}, note: true},
	}
}

func deadLetterColumns() []column {
	return []column{
		{head: "SUBSCRIPTION", of: []string{"subscription"}}, {head: "ORDER", of: []string{"orderId"}}, {head: "MESSAGE", of: []string{"messageId"}},
		{head: "TYPE", of: []string{"type"}}, {head: "SENT", of: []string{"enqueuedAt"}, at: true},
		{of: []string{"reason"}, note: true}, {of: []string{"description"}, note: true},
	}
}
