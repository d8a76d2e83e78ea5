// Package servicebus sends what orders decided to Azure Service Bus, and takes
// out there what it gave up.
package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"orderflow/workflow"
)

// Connection says where the namespace is and as whom to go there.
type Connection struct {
	// String is a connection string. Empty means that Namespace and an
	// identity are used.
	String string
	// Namespace is the fully qualified name, such as
	// contoso.servicebus.windows.net.
	Namespace string
	// ClientID picks a user-assigned managed identity; empty takes the default
	// credential.
	ClientID string
}

// Topics are the two entities that are sent to.
type Topics struct {
	Orders   string // deadlines come back to the orders from here
	Commands string // other services listen here
}

// Sender gives messages to Service Bus. It keeps one client and one sender for
// each topic, and replaces those that do not find the broker again by
// themselves. It is safe for concurrent use.
type Sender struct {
	connection Connection
	topics     Topics

	mu      sync.Mutex
	client  *azservicebus.Client
	senders map[string]*azservicebus.Sender
}

// New prepares a sender. Nothing is dialled before the first message.
func New(c Connection, topics Topics) (*Sender, error) {
	client, err := NewClient(c)
	if err != nil {
		return nil, err
	}
	return &Sender{connection: c, topics: topics, client: client, senders: make(map[string]*azservicebus.Sender)}, nil
}

// NewClient makes a client that tries a broken link again at once and then
// leaves it: the outbox has delays of its own, and a sick broker is not helped
// by haste.
func NewClient(c Connection) (*azservicebus.Client, error) {
	client, err := c.client(&azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{
		MaxRetries: 1, RetryDelay: 50 * time.Millisecond, MaxRetryDelay: time.Second,
	}})
	if err != nil {
		return nil, fmt.Errorf("prepare the Service Bus client: %w", err)
	}
	return client, nil
}

func (c Connection) client(options *azservicebus.ClientOptions) (*azservicebus.Client, error) {
	if c.String != "" {
		return azservicebus.NewClientFromConnectionString(c.String, options)
	}
	identity, err := c.identity()
	if err != nil {
		return nil, err
	}
	return azservicebus.NewClient(c.Namespace, identity, options)
}

// identity is as whom to go there without a connection string.
func (c Connection) identity() (azcore.TokenCredential, error) {
	if c.ClientID == "" {
		return azidentity.NewDefaultAzureCredential(nil)
	}
	return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ID: azidentity.ClientID(c.ClientID),
	})
}

// Send gives messages of one order and one kind, commands or deadlines, to the
// broker, in order, and returns the sequence number of each that was accepted:
// that of the scheduled message for a deadline, 0 for a command. The error is
// about the one after them; it wraps workflow.ErrMessageRefused when the broker
// refuses the message itself, and workflow.ErrNeverAccepted when no other
// attempt can change that: it is too large, cannot be encoded, or its IDs are
// not such as the broker takes.
//
// When the answer to a send is lost the messages are sent again, under the same
// MessageIds. ctx needs a deadline: a silent broker is waited for until then.
func (s *Sender) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	topic := s.topics.Commands
	if messages[0].Purpose != "" {
		topic = s.topics.Orders
	}
	sound, bad := soundOf(messages)
	sequences, err := s.sendTo(ctx, topic, sound)
	if err == nil {
		err = bad
	}
	if err != nil {
		return sequences, fmt.Errorf("send %s to %s: %w", messages[len(sequences)].ID, topic, err)
	}
	return sequences, nil
}

func (s *Sender) sendTo(ctx context.Context, topic string, messages []workflow.Outgoing) ([]int64, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	sender, err := s.sender(topic)
	if err != nil {
		return nil, err
	}
	send := sendNow
	if messages[0].Purpose != "" {
		send = schedule
	}
	sequences, err := send(ctx, sender, messages)
	s.renew(ctx, topic, sender, err)
	return sequences, err
}

// soundOf is the messages before the first that can never be sent, and why that
// one cannot.
func soundOf(messages []workflow.Outgoing) ([]workflow.Outgoing, error) {
	for i := range messages {
		if err := fault(&messages[i]); err != nil {
			return messages[:i], err
		}
	}
	return messages, nil
}

// Cancel takes a deadline back that the broker was given. A message that the
// broker no longer has scheduled is none to take back: that is no error. An
// error that wraps workflow.ErrMessageRefused is about this deadline, any other
// about the topic.
func (s *Sender) Cancel(ctx context.Context, sequence int64) error {
	sender, err := s.sender(s.topics.Orders)
	if err == nil {
		err = cancelScheduled(ctx, sender, sequence)
		s.renew(ctx, s.topics.Orders, sender, err)
	}
	if err != nil {
		return fmt.Errorf("cancel scheduled message %d: %w", sequence, err)
	}
	return nil
}

func cancelScheduled(ctx context.Context, sender *azservicebus.Sender, sequence int64) error {
	if err := attach(ctx, sender); err != nil {
		return err // a topic that is not there is not a message that is not
	}
	err := sender.CancelScheduledMessages(ctx, []int64{sequence}, nil)
	var failed *azservicebus.Error
	if errors.As(err, &failed) && failed.Code == azservicebus.CodeNotFound {
		return nil
	}
	return classifyAnswer(err)
}

// attach makes sure that a sender has its links. What goes wrong with that is
// about the entity; what goes wrong later may be about a message.
func attach(ctx context.Context, sender *azservicebus.Sender) error {
	_, err := sender.NewMessageBatch(ctx, nil)
	return err
}

// schedule hands deadlines over, each for its own time. The wire has whole
// milliseconds and is given the next: a deadline must not come early.
func schedule(ctx context.Context, sender *azservicebus.Sender, messages []workflow.Outgoing) ([]int64, error) {
	if err := attach(ctx, sender); err != nil {
		return nil, err
	}
	sequences := make([]int64, 0, len(messages))
	for i := range messages {
		due := messages[i].DueAt.Add(time.Millisecond - 1).Truncate(time.Millisecond)
		given, err := sender.ScheduleMessages(ctx, []*azservicebus.Message{message(&messages[i])}, due, nil)
		if err != nil {
			return sequences, classifyAnswer(err)
		}
		if len(given) != 1 {
			return sequences, fmt.Errorf("the broker gave %d sequence numbers for one message", len(given))
		}
		sequences = append(sequences, given[0])
	}
	return sequences, nil
}

// sendNow sends commands in as few batches as the link's size allows. A batch
// holds one order's, so one session's, messages: that is what Send is given. It
// is taken or refused as a whole; after a refusal each goes by itself, so that
// those before the one that is meant get through and that one is named.
func sendNow(ctx context.Context, sender *azservicebus.Sender, messages []workflow.Outgoing) ([]int64, error) {
	for sent, most := 0, len(messages); sent < len(messages); {
		batch, err := sender.NewMessageBatch(ctx, nil)
		if err != nil {
			return make([]int64, sent), err // about the entity
		}
		fit := 0
		for ; fit < min(most, len(messages)-sent); fit++ {
			if err = batch.AddMessage(message(&messages[sent+fit]), nil); err != nil {
				break
			}
		}
		if fit == 0 { // it is too large, or cannot be encoded
			return make([]int64, sent), fmt.Errorf("%w: %w", workflow.ErrNeverAccepted, err)
		}
		err = sender.SendMessageBatch(ctx, batch, nil)
		switch {
		case err == nil:
			sent += fit
		case fit > 1 && refusesMessage(err):
			most = 1
		default:
			return make([]int64, sent), classify(err)
		}
	}
	return make([]int64, len(messages)), nil
}

func (s *Sender) sender(topic string) (*azservicebus.Sender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sender := s.senders[topic]; sender != nil {
		return sender, nil
	}
	sender, err := s.client.NewSender(topic, nil)
	if err == nil {
		s.senders[topic] = sender
	}
	return sender, err
}

// renew gives a topic's sender up after an error that it would not get over, and
// the client too if need be, so that the next call has another.
func (s *Sender) renew(ctx context.Context, topic string, sender *azservicebus.Sender, err error) {
	switch {
	case endsConnection(err):
		_ = s.replace(topic, sender).Close(ctx) // what it fails at is gone
	case endsLink(err):
		s.mu.Lock()
		if s.senders[topic] == sender {
			delete(s.senders, topic)
		}
		s.mu.Unlock()
		_ = sender.Close(ctx)
	}
}

type closer interface{ Close(context.Context) error }

// replace makes another client unless that was done since the sender was in
// use, and returns what is to be closed.
func (s *Sender) replace(topic string, sender *azservicebus.Sender) closer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.senders[topic] != sender {
		return sender
	}
	client, err := NewClient(s.connection)
	if err != nil {
		return sender // it was possible before; the next error tries again
	}
	old := s.client
	s.client = client
	clear(s.senders)
	return old
}

// Close closes the client and its senders.
func (s *Sender) Close(ctx context.Context) error {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	return client.Close(ctx)
}

// message is the outgoing message on the wire. Its ID is always the row's:
// left out, the library would make one up, and duplicates would not be found.
func message(out *workflow.Outgoing) *azservicebus.Message {
	contentType, subject := workflow.ContentType, string(out.Type)
	m := &azservicebus.Message{
		MessageID:     &out.ID,
		SessionID:     &out.OrderID,
		CorrelationID: &out.Conversation,
		Subject:       &subject,
		ContentType:   &contentType,
		Body:          out.Body,
	}
	m.ApplicationProperties = make(map[string]any)
	for name, value := range out.Properties() {
		m.ApplicationProperties[name] = value
	}
	return m
}
