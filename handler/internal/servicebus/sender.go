// Package servicebus sends what orders decided to Azure Service Bus.
package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
// each topic, which find the broker again by themselves. It is safe for
// concurrent use.
type Sender struct {
	client *azservicebus.Client
	topics Topics

	mu      sync.Mutex
	senders map[string]*azservicebus.Sender
}

// New prepares a sender. Nothing is dialled before the first message.
func New(c Connection, topics Topics) (*Sender, error) {
	client, err := NewClient(c)
	if err != nil {
		return nil, err
	}
	return &Sender{client: client, topics: topics, senders: make(map[string]*azservicebus.Sender)}, nil
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
	if c.ClientID != "" {
		identity, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
			ID: azidentity.ClientID(c.ClientID),
		})
		if err != nil {
			return nil, err
		}
		return azservicebus.NewClient(c.Namespace, identity, options)
	}
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return azservicebus.NewClient(c.Namespace, identity, options)
}

// Send gives messages of one order and one kind, commands or deadlines, to the
// broker, in order, and returns the sequence number of each that was accepted:
// that of the scheduled message for a deadline, 0 for a command. The error is
// about the one after them; it wraps workflow.ErrMessageRefused when the broker
// refuses the message itself.
//
// When the answer to a send is lost the messages are sent again, under the same
// MessageIds. ctx needs a deadline: a silent broker is waited for until then.
func (s *Sender) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	topic, send := s.topics.Commands, sendNow
	if messages[0].Purpose != "" {
		topic, send = s.topics.Orders, schedule
	}
	sender, err := s.sender(topic)
	if err != nil {
		return nil, fmt.Errorf("send %s: %w", messages[0].ID, err)
	}
	sequences, err := send(ctx, sender, messages)
	if err != nil {
		return sequences, fmt.Errorf("send %s to %s: %w", messages[len(sequences)].ID, topic, classify(err))
	}
	return sequences, nil
}

// Cancel takes a deadline back that the broker was given. A message that the
// broker no longer has scheduled is none to take back: that is no error.
func (s *Sender) Cancel(ctx context.Context, sequence int64) error {
	sender, err := s.sender(s.topics.Orders)
	if err == nil {
		err = sender.CancelScheduledMessages(ctx, []int64{sequence}, nil)
	}
	var failed *azservicebus.Error
	if errors.As(err, &failed) && failed.Code == azservicebus.CodeNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cancel scheduled message %d: %w", sequence, err)
	}
	return nil
}

// schedule hands deadlines over, each for its own time.
func schedule(ctx context.Context, sender *azservicebus.Sender, messages []workflow.Outgoing) ([]int64, error) {
	sequences := make([]int64, 0, len(messages))
	for i := range messages {
		given, err := sender.ScheduleMessages(ctx, []*azservicebus.Message{message(&messages[i])}, messages[i].DueAt, nil)
		if err != nil {
			return sequences, err
		}
		if len(given) != 1 {
			return sequences, fmt.Errorf("the broker gave %d sequence numbers for one message", len(given))
		}
		sequences = append(sequences, given[0])
	}
	return sequences, nil
}

// sendNow sends commands in as few batches as the link's size allows. A batch
// holds one order's, so one session's, messages: that is what Send is given.
func sendNow(ctx context.Context, sender *azservicebus.Sender, messages []workflow.Outgoing) ([]int64, error) {
	sent := 0
	for sent < len(messages) {
		batch, err := sender.NewMessageBatch(ctx, nil)
		if err != nil {
			return make([]int64, sent), err
		}
		fit := 0
		for ; sent+fit < len(messages); fit++ {
			if err = batch.AddMessage(message(&messages[sent+fit]), nil); err != nil {
				break
			}
		}
		if fit == 0 || (err != nil && !errors.Is(err, azservicebus.ErrMessageTooLarge)) {
			return make([]int64, sent), err
		}
		if err := sender.SendMessageBatch(ctx, batch, nil); err != nil {
			return make([]int64, sent), err
		}
		sent += fit
	}
	return make([]int64, sent), nil
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

// Close closes the client and its senders.
func (s *Sender) Close(ctx context.Context) error { return s.client.Close(ctx) }

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
