// Package servicebus sends what orders decided to Azure Service Bus.
package servicebus

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
// each topic. It is safe for concurrent use.
type Sender struct {
	client *azservicebus.Client
	topics Topics

	mu      sync.Mutex
	senders map[string]*azservicebus.Sender
}

// New prepares a sender. Nothing is dialled before the first message.
func New(c Connection, topics Topics) (*Sender, error) {
	client, err := c.client()
	if err != nil {
		return nil, fmt.Errorf("prepare the Service Bus client: %w", err)
	}
	return &Sender{client: client, topics: topics, senders: make(map[string]*azservicebus.Sender)}, nil
}

func (c Connection) client() (*azservicebus.Client, error) {
	if c.String != "" {
		return azservicebus.NewClientFromConnectionString(c.String, nil)
	}
	if c.ClientID != "" {
		identity, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
			ID: azidentity.ClientID(c.ClientID),
		})
		if err != nil {
			return nil, err
		}
		return azservicebus.NewClient(c.Namespace, identity, nil)
	}
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return azservicebus.NewClient(c.Namespace, identity, nil)
}

// Send gives messages of one order and one kind to the broker, in order, and
// returns the sequence number of each that was accepted: that of the scheduled
// message for a deadline, 0 for a command. The error is about the one after
// them; it wraps workflow.ErrMessageRefused when the message itself is refused.
func (s *Sender) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	sequences := make([]int64, 0, len(messages))
	for i := range messages {
		sequence, err := s.send(ctx, &messages[i])
		if err != nil {
			return sequences, fmt.Errorf("send %s: %w", messages[i].ID, classify(err))
		}
		sequences = append(sequences, sequence)
	}
	return sequences, nil
}

func (s *Sender) send(ctx context.Context, out *workflow.Outgoing) (int64, error) {
	topic := s.topics.Commands
	if out.Purpose != "" {
		topic = s.topics.Orders
	}
	sender, err := s.sender(topic)
	if err != nil {
		return 0, err
	}
	if out.Purpose == "" {
		return 0, sender.SendMessage(ctx, message(out), nil)
	}
	sequences, err := sender.ScheduleMessages(ctx, []*azservicebus.Message{message(out)}, out.DueAt, nil)
	if err != nil {
		return 0, err
	}
	if len(sequences) != 1 {
		return 0, fmt.Errorf("the broker gave %d sequence numbers for one message", len(sequences))
	}
	return sequences[0], nil
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

// classify tells a refusal of the message itself from trouble on the way.
func classify(err error) error {
	if errors.Is(err, azservicebus.ErrMessageTooLarge) {
		return fmt.Errorf("%w: %w", workflow.ErrMessageRefused, err)
	}
	return err
}
