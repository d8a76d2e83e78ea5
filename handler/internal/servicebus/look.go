package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/Azure/go-amqp"
)

// What a look may find, other than that all is well or that the way there is cut.
var (
	ErrForbidden  = errors.New("the right is missing")
	ErrNotThere   = errors.New("it is not there")
	ErrNoSessions = errors.New("it has no sessions")
)

// Looker looks at a namespace. It sends nothing, receives nothing and locks
// nothing.
type Looker struct {
	connection Connection
	client     *azservicebus.Client
	transport  policy.Transporter // of what is asked over HTTP; nil is the library's own
}

// NewLooker prepares for a look. Nothing is dialled yet.
func NewLooker(c Connection) (*Looker, error) {
	client, err := NewClient(c)
	if err != nil {
		return nil, err
	}
	return &Looker{connection: c, client: client}, nil
}

// Close closes the connection.
func (l *Looker) Close(ctx context.Context) error { return l.client.Close(ctx) }

// Topic reports whether a topic can be sent to: whether the link opens.
func (l *Looker) Topic(ctx context.Context, topic string) error {
	sender, err := l.client.NewSender(topic, nil)
	if err != nil {
		return err
	}
	_, err = sender.NewMessageBatch(ctx, nil) // which asks the link how large it may be
	return seen(err)
}

// Subscription reports whether a subscription can be received from and has
// sessions. It is a link without a session that is asked for: one that has
// sessions refuses that, by its own words, where a link with a session would
// take an order away from whoever handles it.
func (l *Looker) Subscription(ctx context.Context, topic, name string) error {
	receiver, err := l.client.NewReceiverForSubscription(topic, name, nil)
	if err != nil {
		return err
	}
	_, err = receiver.PeekMessages(ctx, 1, nil)
	if err == nil {
		return ErrNoSessions
	}
	if strings.Contains(err.Error(), "requires sessions") {
		return nil
	}
	return seen(err)
}

// seen says what an error of a link means.
func seen(err error) error {
	var failed *azservicebus.Error
	switch {
	case condition(err) == amqp.ErrCondNotFound:
		return ErrNotThere // it says no more
	case errors.As(err, &failed) && failed.Code == azservicebus.CodeUnauthorizedAccess:
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	default:
		return err
	}
}

// MadeTopic is a topic as it was made. Lengths of time are as the service writes
// them, in ISO 8601.
type MadeTopic struct {
	// DuplicateDetection is empty where there is none.
	DuplicateDetection string
	Subscriptions      []MadeSubscription
}

// MadeSubscription is a subscription as it was made.
type MadeSubscription struct {
	Name             string
	Sessions         bool
	DeadLetters      bool   // what expires is kept
	Status           string // Active, or what is not done, such as ReceiveDisabled
	MaxDeliveryCount int
	LockDuration     string
	// Subjects are those of its correlation rules for nothing but a subject,
	// Others the names of all other rules that let anything through.
	Subjects, Others []string
}

// Made asks how a topic was made, for which the right to manage is needed:
// without it the error wraps ErrForbidden.
func (l *Looker) Made(ctx context.Context, topic string) (made MadeTopic, err error) {
	client, err := l.admin()
	if err != nil {
		return made, err
	}
	found, err := client.GetTopic(ctx, topic, nil)
	if err != nil {
		return made, refusedToManage(err)
	}
	if found == nil {
		return made, ErrNotThere
	}
	if deref(found.RequiresDuplicateDetection) {
		made.DuplicateDetection = deref(found.DuplicateDetectionHistoryTimeWindow)
	}
	for pager := client.NewListSubscriptionsPager(topic, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return made, refusedToManage(err)
		}
		for _, s := range page.Subscriptions {
			m := MadeSubscription{
				Name: s.SubscriptionName, Sessions: deref(s.RequiresSession), DeadLetters: deref(s.DeadLetteringOnMessageExpiration),
				MaxDeliveryCount: int(deref(s.MaxDeliveryCount)), LockDuration: deref(s.LockDuration),
				Status: string(deref(s.Status)),
			}
			if err := m.rules(ctx, client, topic); err != nil {
				return made, refusedToManage(err)
			}
			made.Subscriptions = append(made.Subscriptions, m)
		}
	}
	return made, nil
}

func (m *MadeSubscription) rules(ctx context.Context, client *admin.Client, topic string) error {
	for pager := client.NewListRulesPager(topic, m.Name, nil); pager.More(); {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, r := range page.Rules {
			if nothing(r.Filter) {
				continue // as the infrastructure leaves $Default
			}
			by, correlation := r.Filter.(*admin.CorrelationFilter)
			if correlation && by.Subject != nil && len(by.ApplicationProperties) == 0 &&
				by.ContentType == nil && by.CorrelationID == nil && by.MessageID == nil && by.ReplyTo == nil &&
				by.ReplyToSessionID == nil && by.SessionID == nil && by.To == nil {
				m.Subjects = append(m.Subjects, *by.Subject)
			} else {
				m.Others = append(m.Others, r.Name)
			}
		}
	}
	return nil
}

// nothing reports whether a rule lets nothing through.
func nothing(filter admin.RuleFilter) bool {
	switch f := filter.(type) {
	case *admin.FalseFilter:
		return true
	case *admin.SQLFilter:
		return strings.ReplaceAll(f.Expression, " ", "") == "1=0"
	}
	return false
}

func (l *Looker) admin() (*admin.Client, error) {
	options := &admin.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: l.transport, Retry: policy.RetryOptions{MaxRetries: 1},
	}}
	if l.connection.String != "" {
		return admin.NewClientFromConnectionString(l.connection.String, options)
	}
	identity, err := l.connection.identity()
	if err != nil {
		return nil, err
	}
	return admin.NewClient(l.connection.Namespace, identity, options)
}

func refusedToManage(err error) error {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden) {
		return ErrForbidden // what it says besides is a page
	}
	return err
}

// deref is what a pointer leads to, or zero.
func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}
