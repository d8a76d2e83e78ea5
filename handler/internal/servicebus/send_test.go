package servicebus

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/localbus"
	"orderflow/workflow"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// asSent is the message of the bus that an outgoing one becomes.
func asSent(out workflow.Outgoing) localbus.Message {
	m := localbus.Message{
		MessageID: out.ID, SessionID: out.OrderID, CorrelationID: out.Conversation, Subject: string(out.Type),
		ContentType: "application/json", Body: out.Body, ScheduledAt: out.DueAt,
		Properties: map[string]any{"ParentMessageId": out.ParentID, "OriginatingMessageId": out.OriginID, "SchemaVersion": "1"},
	}
	if out.TraceParent != "" {
		m.Properties["traceparent"], m.Properties["Diagnostic-Id"] = out.TraceParent, out.TraceParent
	}
	return m
}

// asIt is a message of the bus without what the bus adds.
func asIt(m localbus.Message) localbus.Message {
	m.SequenceNumber, m.EnqueuedAt, m.State = 0, time.Time{}, ""
	return m
}

func TestEveryFieldOfACommandArrives(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	bare := commands("order-42", 1, 0)[0]
	traced := commands("order-43", 1, 0)[0]
	traced.TraceParent = trace
	traced.Body = []byte("{\"orderId\":\"order-43\",\"name\":\"Zoë \x00 😀\"}\n")
	empty := commands("order-44", 1, 0)[0]
	empty.Body = nil
	for _, out := range []workflow.Outgoing{bare, traced, empty} {
		require.Equal(t, []int64{0}, give(t, s, out))
	}
	got := b.active(topics.Commands)
	require.Len(t, got, 3)
	require.Equal(t, asSent(bare), asIt(got[0]))
	require.Equal(t, asSent(traced), asIt(got[1]))
	require.Empty(t, got[2].Body)
	require.Empty(t, b.sent(topics.Orders))
}

func TestEveryFieldOfADeadlineArrivesAndItsTime(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	out := deadline("order-42", time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond))
	out.TraceParent = trace
	sequences := give(t, s, out)
	got := b.scheduled()
	require.Len(t, got, 1)
	require.Equal(t, asSent(out), asIt(got[0]))
	require.Equal(t, sequences[0], got[0].SequenceNumber)
	require.Empty(t, b.active(topics.Orders), "nothing of it before its time")
	require.Empty(t, b.sent(topics.Commands))
}

func TestADeadlineIsNotDueEarlyThoughTheWireCutsTimes(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	due := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	give(t, s, deadline("order-42", due.Add(time.Microsecond)))
	require.Equal(t, due.Add(time.Millisecond), b.scheduled()[0].ScheduledAt)
}

func TestADeadlineThatIsDueAlreadyIsThereAtOnce(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	out := deadline("order-42", time.Now().Add(-time.Hour))
	require.NotZero(t, give(t, sender(t, b.connection()), out)[0])
	require.Equal(t, []string{out.ID}, ids(b.active(topics.Orders)))
}

func TestDeadlinesOfSeveralTimesKeepTheirOwn(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	now := time.Now().UTC().Truncate(time.Millisecond)
	late, soon := deadline("order-42", now.Add(2*time.Hour)), deadline("order-42", now.Add(time.Hour))
	soon.ID = "order-42:payment-timeout:2"
	sequences := give(t, s, late, soon)
	got := b.scheduled()
	require.Equal(t, []string{soon.ID, late.ID}, ids(got))
	require.Equal(t, []int64{got[1].SequenceNumber, got[0].SequenceNumber}, sequences)
	require.Equal(t, soon.DueAt, got[0].ScheduledAt)
	require.Equal(t, late.DueAt, got[1].ScheduledAt)
}

func TestADeadlineGivenTwiceIsScheduledOnce(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	out := deadline("order-42", time.Now().Add(time.Hour))
	first := give(t, s, out)
	require.Equal(t, first, give(t, s, out), "the number of the first is good for both")
	require.Len(t, b.sent(topics.Orders), 2)
	require.Len(t, b.scheduled(), 1)
}

func TestACancelledDeadlineIsTakenBack(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	due := time.Now().Add(time.Hour)
	taken, kept := deadline("order-42", due), deadline("order-43", due)
	sequence := give(t, s, taken)[0]
	give(t, s, kept)
	require.NoError(t, s.Cancel(within(t, 10*time.Second), sequence))
	require.Equal(t, []string{kept.ID}, ids(b.scheduled()))
	require.NoError(t, s.Cancel(within(t, 10*time.Second), sequence), "twice is no error")
}

func TestCancellingWhatIsNotScheduledIsNoError(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	active := give(t, s, deadline("order-42", time.Now().Add(-time.Hour)))[0]
	require.NoError(t, s.Cancel(within(t, 10*time.Second), active), "it is active")
	require.NoError(t, s.Cancel(within(t, 10*time.Second), 4711), "it never was")
	require.Len(t, b.active(topics.Orders), 1)
}

func TestSeveralCommandsGoAsOneBatchInOrder(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	line := commands("order-42", 20, 0)
	give(t, sender(t, b.connection()), line...)
	require.Equal(t, [][]string{names(line)}, b.arrived())
	got := b.active(topics.Commands)
	require.Len(t, got, len(line))
	for i := range line {
		require.Equal(t, asSent(line[i]), asIt(got[i]))
	}
}

func TestABatchOverTheLinksSizeIsSplitInOrder(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	line := commands("order-42", 9, 60_000)
	give(t, sender(t, b.connection()), line...)
	require.Equal(t, [][]string{names(line[:4]), names(line[4:8]), names(line[8:])}, b.arrived(), "four have room in 256 KiB")
	require.Equal(t, names(line), ids(b.active(topics.Commands)))
}

func TestAMessageTooLargeIsRefusedAfterThoseBeforeItWereSent(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 2, 4} {
		b := serve(t, nil)
		s := sender(t, b.connection())
		line := commands("order-42", 5, 0)
		line[at].Body = commands("order-42", 1, 300_000)[0].Body
		sequences, err := s.Send(within(t, 10*time.Second), line)
		require.ErrorIs(t, err, workflow.ErrMessageRefused)
		require.ErrorIs(t, err, workflow.ErrNeverAccepted)
		require.ErrorContains(t, err, line[at].ID)
		require.Len(t, sequences, at)
		require.ElementsMatch(t, names(line[:at]), ids(b.active(topics.Commands)))
		give(t, s, line[(at+1)%5]) // the sender is as good as before
	}
}

func TestAMessageThatCanNeverBeSentIsRefusedForGoodAfterThoseBeforeItWereSent(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*workflow.Outgoing){
		"no ID":                      func(m *workflow.Outgoing) { m.ID = "" },
		"an ID of 129 characters":    func(m *workflow.Outgoing) { m.ID = strings.Repeat("x", 129) },
		"an ID that is no text":      func(m *workflow.Outgoing) { m.ID = "order-42\xff" },
		"no session":                 func(m *workflow.Outgoing) { m.OrderID = "" },
		"a session of 129":           func(m *workflow.Outgoing) { m.OrderID = strings.Repeat("x", 129) },
		"a type that is no text":     func(m *workflow.Outgoing) { m.Type = "\xff" },
		"a property that is no text": func(m *workflow.Outgoing) { m.ParentID = "\xff" },
		"a conversation that is no text": func(m *workflow.Outgoing) {
			m.Conversation = "\xff"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := serve(t, nil)
			s := sender(t, b.connection())
			client := s.client
			due := time.Now().Add(time.Hour)
			other := deadline("order-42", due)
			other.ID = "order-42:payment-timeout:2"
			for _, line := range [][]workflow.Outgoing{commands("order-42", 3, 0), {deadline("order-42", due), other, deadline("order-43", due)}} {
				spoil(&line[1])
				sequences, err := s.Send(within(t, 10*time.Second), line)
				require.ErrorIs(t, err, workflow.ErrNeverAccepted)
				require.ErrorIs(t, err, workflow.ErrMessageRefused)
				require.ErrorContains(t, err, "send "+line[1].ID+" to ")
				require.Len(t, sequences, 1)
				sequences, err = s.Send(within(t, 10*time.Second), line[1:])
				require.ErrorIs(t, err, workflow.ErrNeverAccepted)
				require.Empty(t, sequences)
			}
			require.Equal(t, []string{"order-42:1"}, ids(b.sent(topics.Commands)))
			require.Equal(t, []string{"order-42:payment-timeout:1"}, ids(b.sent(topics.Orders)))
			require.Same(t, client, s.client, "nobody else was disturbed")
		})
	}
}

func TestAnIDOf128CharactersIsSent(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	out := commands("order-42", 1, 0)[0]
	out.ID = strings.Repeat("é", 128)
	give(t, sender(t, b.connection()), out)
	require.Equal(t, []string{out.ID}, ids(b.active(topics.Commands)))
}

func TestADeadlineThatTheBrokerRefusesIsRefusedAndTheTopicIsWell(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	large := deadline("order-42", time.Now().Add(time.Hour))
	large.Body = commands("order-42", 1, 300_000)[0].Body
	sequences, err := s.Send(within(t, 10*time.Second), []workflow.Outgoing{large})
	require.Empty(t, sequences)
	require.ErrorIs(t, err, workflow.ErrMessageRefused)
	give(t, s, deadline("order-42", time.Now().Add(time.Hour)))
}

func TestNothingToSendIsNoCall(t *testing.T) {
	t.Parallel()
	sequences, err := sender(t, connection("127.0.0.1:1", key)).Send(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, sequences)
}

func TestSendersOfManyOrdersAtOnceShareAConnectionAndMixNoSessions(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	s := sender(t, b.connection())
	want := map[string][]string{}
	var wg sync.WaitGroup
	for _, order := range []string{"order-1", "order-2", "order-3", "order-4", "order-5", "order-6", "order-7", "order-8"} {
		line := commands(order, 12, 40_000) // two or three batches
		want[order] = names(line)
		wg.Go(func() {
			if sequences, err := s.Send(within(t, 20*time.Second), line); err != nil || len(sequences) != len(line) {
				t.Errorf("%s: %d sent, %v", order, len(sequences), err)
			}
		})
		wg.Go(func() {
			if _, err := s.Send(within(t, 20*time.Second), []workflow.Outgoing{deadline(order, time.Now().Add(time.Hour))}); err != nil {
				t.Errorf("%s: %v", order, err)
			}
		})
	}
	wg.Wait()
	for _, e := range b.events() {
		for _, m := range e.Messages {
			require.Equal(t, e.Messages[0].SessionID, m.SessionID, "one batch, one session")
			require.Equal(t, topics.Commands, e.Address, "a deadline is a request and no batch")
			require.Zero(t, m.ScheduledAt, "nothing scheduled among what is immediate")
		}
	}
	got := map[string][]string{}
	for _, m := range b.active(topics.Commands) {
		got[m.SessionID] = append(got[m.SessionID], m.MessageID)
	}
	require.Equal(t, want, got)
	require.Len(t, b.scheduled(), len(want))
	require.Empty(t, b.active(topics.Orders))
}
