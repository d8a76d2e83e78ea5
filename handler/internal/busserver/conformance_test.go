package busserver_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/localbus"
)

// Scenario is one promise of Service Bus that clients lean on. It runs with the
// unmodified azservicebus against this server, and against a real namespace
// when ORDERFLOW_TEST_SERVICEBUS has its connection string.
type Scenario struct {
	Name string
	// Topic says what the scenario needs; its name is made from Name. Without
	// subscriptions it has one, main, with the defaults.
	Topic localbus.Topic
	// ShortLock asks for the shortest locks that there are.
	ShortLock bool
	Run       func(t *testing.T, w world)
}

// slug is the scenario's name as a topic's.
func (s Scenario) slug() string { return strings.ReplaceAll(s.Name, " ", "-") }

// topic is what the scenario needs with locks that last so long.
func (s Scenario) topic(lock time.Duration) localbus.Topic {
	t := s.Topic
	t.Name = s.slug()
	if t.Subscriptions == nil {
		t.Subscriptions = []localbus.Subscription{{Name: mainSubscription}}
	}
	for i := range t.Subscriptions {
		t.Subscriptions[i].LockDuration = lock
	}
	return t
}

func TestTheGoClientFindsAServiceBus(t *testing.T) {
	t.Parallel()
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			lock := time.Minute
			if s.ShortLock {
				lock = time.Second
			}
			topic := s.topic(lock)
			_, addr := serve(t, secured(), topic)
			run(t, s, world{connection: connectionString(addr), topic: topic.Name, lock: lock})
		})
	}
}

// The same list against the live service. It makes its topics and removes them.
func TestTheGoClientFindsTheSameInARealNamespace(t *testing.T) {
	t.Parallel()
	connection := os.Getenv("ORDERFLOW_TEST_SERVICEBUS")
	if connection == "" {
		t.Skip("not run: ORDERFLOW_TEST_SERVICEBUS has no connection string of a namespace")
	}
	namespace, err := admin.NewClientFromConnectionString(connection, nil)
	require.NoError(t, err)
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			lock := time.Minute
			if s.ShortLock {
				lock = 5 * time.Second // the service's least
			}
			topic := s.topic(lock)
			topic.Name += time.Now().UTC().Format("-20060102T150405.000000000")
			create(t, namespace, topic)
			run(t, s, world{connection: connection, topic: topic.Name, lock: lock})
		})
	}
}

func run(t *testing.T, s Scenario, w world) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w.ctx = ctx
	w.client = dial(t, w.connection)
	s.Run(t, w)
}

// create makes a topic in a real namespace and removes it after the test.
func create(t *testing.T, namespace *admin.Client, topic localbus.Topic) {
	ctx := t.Context()
	properties := &admin.TopicProperties{}
	if topic.DuplicateDetection > 0 {
		detect, window := true, "PT10M"
		properties.RequiresDuplicateDetection, properties.DuplicateDetectionHistoryTimeWindow = &detect, &window
	}
	_, err := namespace.CreateTopic(ctx, topic.Name, &admin.CreateTopicOptions{Properties: properties})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := namespace.DeleteTopic(context.WithoutCancel(ctx), topic.Name, nil)
		require.NoError(t, err)
	})
	for _, s := range topic.Subscriptions {
		sessions, lock := true, "PT"+strings.ToUpper(s.LockDuration.String())
		deliveries := int32(10)
		if s.MaxDeliveryCount > 0 {
			deliveries = int32(s.MaxDeliveryCount)
		}
		options := &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
			RequiresSession: &sessions, LockDuration: &lock, MaxDeliveryCount: &deliveries,
		}}
		if len(s.Subjects) > 0 {
			options.Properties.DefaultRule = &admin.RuleProperties{Name: "subject", Filter: &admin.CorrelationFilter{Subject: &s.Subjects[0]}}
		}
		_, err := namespace.CreateSubscription(ctx, topic.Name, s.Name, options)
		require.NoError(t, err)
	}
}

// Scenarios is the list.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "a message keeps its properties", Run: messageKeepsItsProperties},
		{Name: "a batch arrives in order", Run: batchArrivesInOrder},
		{Name: "a large message takes several frames", Run: largeMessage},
		{Name: "a completed message is gone", Run: completed},
		{Name: "an abandoned message comes again and is counted", Run: abandoned},
		{Name: "a dead letter says why", Run: deadLettered},
		{Name: "too many deliveries make a dead letter", Run: tooManyDeliveries,
			Topic: localbus.Topic{Subscriptions: []localbus.Subscription{{Name: mainSubscription, MaxDeliveryCount: 2}}}},
		{Name: "dead letters have locks of their own", Run: deadLetterLocks},
		{Name: "a deferred message is received by its number", Run: deferred},
		{Name: "a deferred message is settled like others", Run: deferredSettled},
		{Name: "receive and delete needs no settling", Run: receiveAndDelete},
		{Name: "a scheduled message waits for its time", Run: scheduled},
		{Name: "a cancelled schedule never comes", Run: scheduleCancelled},
		{Name: "a repeated MessageId is dropped", Run: duplicate, Topic: localbus.Topic{DuplicateDetection: 10 * time.Minute}},
		{Name: "a subscription takes its subjects", Run: subjects,
			Topic: localbus.Topic{Subscriptions: []localbus.Subscription{{Name: mainSubscription}, {Name: "paid", Subjects: []string{"Paid"}}}}},
		{Name: "a session has one holder", Run: sessionHasOneHolder},
		{Name: "the next session is one that is free", Run: nextSession},
		{Name: "waiting for a session times out", Run: acceptTimesOut},
		{Name: "a session keeps its state", Run: sessionState},
		{Name: "a renewed session stays locked", Run: sessionRenewed, ShortLock: true},
		{Name: "an expired session lock is lost", Run: sessionExpires, ShortLock: true},
		{Name: "a closed session gives its messages back", Run: sessionClosed},
		{Name: "what the client releases is not counted", Run: released},
		{Name: "peeking locks nothing", Run: peeking},
		{Name: "sessions are listed", Run: sessionsListed},
		{Name: "an unknown entity is not found", Run: unknownEntity},
		{Name: "a receiver needs a session", Run: receiverNeedsSession},
	}
}
