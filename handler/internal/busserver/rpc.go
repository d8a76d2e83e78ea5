package busserver

import (
	"context"
	"errors"
	"time"

	"orderflow/handler/internal/amqp"
)

const (
	// requestWindow is how many requests of one link may be unanswered.
	requestWindow = 100
	// replyWait is how long an answer waits for the link that takes it.
	replyWait = 5 * time.Second
)

// replyKey names a link that takes answers: its node and what requests call it
// in reply-to, which is its target's address with some clients and its own
// name with others.
type replyKey struct {
	node address
	to   string
}

// request is one request to a $cbs or $management node.
type request struct {
	operation  string
	link       string // associated-link-name, empty when there is none
	properties amqp.Map
	body       any
}

// response is the answer to a request.
type response struct {
	status      int32
	description string
	condition   amqp.Symbol // empty unless it failed
	body        amqp.Map    // nil for none
}

func answered(body amqp.Map) response {
	return response{status: 200, description: "OK", body: body}
}

func refused(status int32, condition amqp.Symbol, description string) response {
	return response{status: status, description: description, condition: condition}
}

// failed is an error of the bus as an answer.
func failed(err error) response {
	f := failureOf(err)
	return refused(f.status, f.condition, f.description)
}

// serveReplies delivers answers on a link to the client. An answer may come
// before the client has given credit for it.
func (c *connection) serveReplies(ctx context.Context, l *amqp.Link, node address) {
	answers := make(chan []byte, requestWindow)
	attach := l.Attach()
	keys := []replyKey{{node, attach.Name}}
	if attach.Target != nil && attach.Target.Address != "" {
		keys = append(keys, replyKey{node, attach.Target.Address})
	}
	c.register(keys, answers)
	defer c.register(keys, nil)

	if l.Accept(amqp.Reply{}) != nil {
		return
	}
	for n := uint64(0); ; {
		wanted, err := l.Credit(ctx)
		if err != nil {
			return
		}
		select {
		case answer := <-answers:
			n++
			tag := amqp.Append(nil, n)
			if err := l.Send(ctx, amqp.Outgoing{Tag: tag, Payload: answer, Settled: true}); err != nil && !errors.Is(err, amqp.ErrNoCredit) {
				return
			}
		case <-wanted.Done():
			_ = l.Drained() // fails only when the link is gone, and then Credit does
		}
	}
}

// register makes the link that takes answers known, or with nil unknown.
func (c *connection) register(keys []replyKey, answers chan []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if answers == nil {
			delete(c.replies, key)
		} else {
			c.replies[key] = answers
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// reply hands an answer to the link that takes it. Both links are attached at
// the same time: it may have to come first.
func (c *connection) reply(ctx context.Context, key replyKey, answer []byte) {
	ctx, cancel := context.WithTimeout(ctx, replyWait)
	defer cancel()
	for {
		c.mu.Lock()
		answers, changed := c.replies[key], c.changed
		c.mu.Unlock()
		if answers != nil {
			select {
			case answers <- answer:
			case <-ctx.Done():
			}
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// serveRequests answers requests on a link from the client, one after another.
func (c *connection) serveRequests(ctx context.Context, l *amqp.Link, node address) {
	if l.Accept(amqp.Reply{Credit: requestWindow, MaxMessageSize: 2 * maxMessageSize}) != nil {
		return
	}
	for {
		d, err := l.Next(ctx)
		if err != nil || ctx.Err() != nil {
			return
		}
		if err := c.serveRequest(ctx, l, node, d.Payload); err != nil {
			_ = d.Settle(amqp.Rejected{Error: amqp.Errorf(amqp.DecodeFailed, "%s", err)})
			continue
		}
		_ = d.Settle(amqp.Accepted{})
	}
}

// serveRequest answers one request. An error says that there is no answering it.
func (c *connection) serveRequest(ctx context.Context, l *amqp.Link, node address, payload []byte) error {
	m, err := amqp.DecodeMessage(payload)
	if err != nil {
		return err
	}
	if m.Properties == nil || m.Properties.ReplyTo == nil {
		return errors.New("the request has no reply-to")
	}
	r := request{properties: m.ApplicationProperties, body: m.Value}
	r.operation, _ = r.properties.Get("operation").(string)
	r.link, _ = r.properties.Get("associated-link-name").(string)

	var answer response
	if node.cbs {
		answer = c.putToken(r)
	} else {
		f := c.server.config.Faults.at(ctx, Event{Moment: Requested, Address: node.String(), Operation: r.operation})
		switch {
		case c.struck(l, f), f.LoseAnswer:
			return nil
		case f.Refuse != nil:
			answer = refused(503, f.Refuse.Condition, f.Refuse.Description)
		default:
			answer = c.manage(ctx, node.entity(), r)
		}
	}
	c.reply(ctx, replyKey{node, *m.Properties.ReplyTo}, answer.encode(node, m.Properties.MessageID))
	return nil
}

// encode is the answer as a message. The two kinds of node spell its status
// differently.
func (r response) encode(node address, correlationID any) []byte {
	status, description, condition := "statusCode", "statusDescription", "errorCondition"
	if node.cbs {
		status, description, condition = "status-code", "status-description", "error-condition"
	}
	m := amqp.Message{
		Properties: &amqp.Properties{CorrelationID: correlationID},
		ApplicationProperties: amqp.Map{
			{Key: status, Value: r.status},
			{Key: description, Value: r.description},
		},
		HasValue: true,
	}
	if r.condition != "" {
		m.ApplicationProperties = append(m.ApplicationProperties, amqp.Entry{Key: condition, Value: r.condition})
	}
	if r.body != nil {
		m.Value = r.body
	}
	return m.Append(nil)
}
