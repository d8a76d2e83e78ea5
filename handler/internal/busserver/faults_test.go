package busserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/busserver"
	"orderflow/handler/internal/localbus"
)

// faulty is a world whose server has a fault, and the bus behind it.
func faulty(t *testing.T, on func(busserver.Event) busserver.Fault, topic localbus.Topic) (world, *localbus.Bus) {
	t.Helper()
	config := secured()
	config.Faults.On = on
	topic.Name = "orders"
	topic.Subscriptions = []localbus.Subscription{{Name: mainSubscription}}
	bus, addr := serve(t, config, topic)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	connection := connectionString(addr)
	return world{ctx: ctx, connection: connection, client: dial(t, connection), topic: topic.Name, lock: time.Minute}, bus
}

func requireInBus(t *testing.T, bus *localbus.Bus, want ...string) {
	t.Helper()
	messages, err := bus.Peek(t.Context(), "orders", mainSubscription)
	require.NoError(t, err)
	var got []string
	for _, m := range messages {
		got = append(got, m.MessageID)
	}
	require.Equal(t, want, got)
}

func TestASendThatNeverReachedTheBusIsRepeated(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]busserver.Fault{
		"the connection is cut":   {Cut: true},
		"the link is detached":    {Detach: amqp.Errorf(amqp.DetachForced, "upgrade")},
		"the server is busy":      {Refuse: busserver.ServerBusy()},
		"an internal error comes": {Refuse: amqp.Errorf(amqp.InternalError, "try again")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bus := faulty(t, busserver.Times(2, busserver.Arrived, fault), localbus.Topic{})
			w.send(t, "s/1")
			requireInBus(t, bus, "s/1")
		})
	}
}

func TestASendWhoseAnswerIsLostIsRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topic localbus.Topic
		want  []string
	}{
		"and comes twice": {localbus.Topic{}, []string{"s/1", "s/1"}},
		"and comes once where repeats are looked for": {localbus.Topic{DuplicateDetection: time.Hour}, []string{"s/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bus := faulty(t, busserver.Times(1, busserver.Taken, busserver.Fault{Cut: true}), c.topic)
			w.send(t, "s/1")
			requireInBus(t, bus, c.want...)
		})
	}
}

func TestAnAnswerThatDoesNotComeLeavesTheSenderInDoubt(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]busserver.Fault{
		"it is lost": {LoseAnswer: true},
		"it is late": {Until: make(chan struct{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bus := faulty(t, busserver.Times(1, busserver.Taken, fault), localbus.Topic{})
			ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, w.sender(t).SendMessage(ctx, message("s/1"), nil), context.DeadlineExceeded)
			requireInBus(t, bus, "s/1")
		})
	}
}

func TestAServerThatStaysBusyIsGivenUp(t *testing.T) {
	t.Parallel()
	w, bus := faulty(t, busserver.Times(100, busserver.Arrived, busserver.Fault{Refuse: busserver.ServerBusy()}), localbus.Topic{})
	require.ErrorContains(t, w.sender(t).SendMessage(w.ctx, message("s/1"), nil), "server-busy")
	requireInBus(t, bus)
}

func TestALinkThatIsRefusedOnceIsAttachedAgain(t *testing.T) {
	t.Parallel()
	w, bus := faulty(t, busserver.Times(1, busserver.Attaching, busserver.Fault{Refuse: busserver.ServerBusy()}), localbus.Topic{})
	w.send(t, "s/1")
	requireInBus(t, bus, "s/1")
}

func TestALockLostWhileSettlingMakesTheMessageComeAgain(t *testing.T) {
	t.Parallel()
	w, bus := faulty(t, busserver.Times(1, busserver.Settling, busserver.Fault{LoseLock: true}), localbus.Topic{})
	w.send(t, "s/1")
	s := w.accept(t, "s")
	ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
	defer cancel()
	require.Error(t, s.CompleteMessage(ctx, w.receive(t, s), nil))
	requireInBus(t, bus, "s/1")
	require.ErrorContains(t, s.Close(w.ctx), "session-lock-lost")
	require.Equal(t, "s/1", w.receive(t, w.next(t)).MessageID)
}

func TestADeadLettersLockLostWhileSettlingIsSaid(t *testing.T) {
	t.Parallel()
	lost := make(chan struct{}, 1)
	w, _ := faulty(t, func(e busserver.Event) busserver.Fault {
		if e.Moment != busserver.Settling || e.Address != "orders/Subscriptions/main/$DeadLetterQueue" || len(lost) > 0 {
			return busserver.Fault{}
		}
		lost <- struct{}{}
		return busserver.Fault{LoseLock: true}
	}, localbus.Topic{})
	w.send(t, "s/1")
	s := w.accept(t, "s")
	require.NoError(t, s.DeadLetterMessage(w.ctx, w.receive(t, s), nil))
	r := w.deadLetters(t)
	requireCode(t, r.CompleteMessage(w.ctx, w.receive(t, r), nil), azservicebus.CodeLockLost)
	require.NoError(t, r.CompleteMessage(w.ctx, w.receive(t, r), nil))
}

func TestASettlementWhoseAnswerIsLostIsDone(t *testing.T) {
	t.Parallel()
	w, bus := faulty(t, busserver.Times(1, busserver.Settled, busserver.Fault{LoseAnswer: true}), localbus.Topic{})
	w.send(t, "s/1")
	s := w.accept(t, "s")
	ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.CompleteMessage(ctx, w.receive(t, s), nil), context.DeadlineExceeded)
	requireInBus(t, bus)
}

func TestARequestIsRepeatedWhileTheServerIsBusy(t *testing.T) {
	t.Parallel()
	w, _ := faulty(t, busserver.Times(2, busserver.Requested, busserver.Fault{Refuse: busserver.ServerBusy()}), localbus.Topic{})
	numbers, err := w.sender(t).ScheduleMessages(w.ctx, []*azservicebus.Message{message("s/1")}, time.Now().Add(time.Hour), nil)
	require.NoError(t, err)
	require.Len(t, numbers, 1)
}
