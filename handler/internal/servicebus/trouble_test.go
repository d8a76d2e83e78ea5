package servicebus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	goamqp "github.com/Azure/go-amqp"
	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/amqp"
	"orderflow/handler/internal/busserver"
	"orderflow/workflow"
)

// kinds is one message of each kind.
func kinds() map[string]workflow.Outgoing {
	return map[string]workflow.Outgoing{
		"a command":  commands("order-42", 1, 0)[0],
		"a deadline": deadline("order-42", time.Now().Add(time.Hour)),
	}
}

// fails sends a message that is not to get through, in much less than its time,
// and requires that it is not blamed.
func fails(t *testing.T, s *Sender, out workflow.Outgoing) error {
	t.Helper()
	ctx := within(t, 10*time.Second)
	sequences, err := s.Send(ctx, []workflow.Outgoing{out})
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it is said, not waited for")
	require.Empty(t, sequences)
	require.ErrorContains(t, err, out.ID)
	require.NotErrorIs(t, err, workflow.ErrMessageRefused)
	return err
}

func TestAnUnknownTopicIsNoMessagesFault(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	for name, out := range kinds() {
		s := sender(t, b.connection())
		s.topics = Topics{Orders: "nowhere", Commands: "nowhere"}
		var said *goamqp.Error
		require.ErrorAs(t, fails(t, s, out), &said, name)
		require.Equal(t, goamqp.ErrCondNotFound, said.Condition)
		require.Error(t, s.Cancel(within(t, 10*time.Second), 1), "a topic that is not there is not a message that is not")
		s.topics = topics
		give(t, s, out)
	}
}

func TestAWrongKeyIsNoMessagesFault(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	for name, out := range kinds() {
		s := sender(t, connection(b.addr, "d3Jvbmcta2V5LXdyb25nLWtleQ=="))
		var said *azservicebus.Error
		require.ErrorAs(t, fails(t, s, out), &said, name)
		require.Equal(t, azservicebus.CodeUnauthorizedAccess, said.Code)
		require.Error(t, s.Cancel(within(t, 10*time.Second), 1))
	}
	require.Empty(t, b.events(), "nobody was let in")
}

func TestABrokerThatStaysBusyIsGivenUpSoonAndIsNoMessagesFault(t *testing.T) {
	t.Parallel()
	var busy atomic.Bool
	b := serve(t, func(e busserver.Event) busserver.Fault {
		if busy.Load() && e.Moment != busserver.Taken {
			return busserver.Fault{Refuse: busserver.ServerBusy()}
		}
		return busserver.Fault{}
	})
	for _, out := range kinds() {
		s := sender(t, b.connection())
		busy.Store(true)
		_ = fails(t, s, out) // it cannot attach
		busy.Store(false)
		give(t, s, out)
		busy.Store(true)
		_ = fails(t, s, out) // it is attached
		busy.Store(false)
		give(t, s, out)
	}
}

func TestWithTheBrokerGoneASendFailsAndWithItBackTheNextWorks(t *testing.T) {
	t.Parallel()
	for name, out := range kinds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := serve(t, nil)
			s := sender(t, b.connection())
			client := s.client
			give(t, s, out)
			b.stop()
			_ = fails(t, s, out)
			_ = fails(t, s, out)
			b.start()
			give(t, s, out)
			b.stop()
			b.start()
			give(t, s, out) // what it finds dead is not what it finds away
			require.Same(t, client, s.client)
			require.Len(t, s.senders, 1)
		})
	}
}

func TestASenderThatBeganBeforeTheBrokerFindsIt(t *testing.T) {
	t.Parallel()
	b := serve(t, nil)
	b.stop()
	s := sender(t, b.connection())
	out := commands("order-42", 1, 0)[0]
	_ = fails(t, s, out)
	b.start()
	give(t, s, out)
}

// blackHole takes connections and never says a word.
func blackHole(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var taken []net.Conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			taken = append(taken, c)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		<-ended
		for _, c := range taken {
			require.NoError(t, c.Close())
		}
	})
	return ln.Addr().String()
}

func TestASilentBrokerIsWaitedForUntilTheDeadlineAndNoLonger(t *testing.T) {
	t.Parallel()
	const patience = 300 * time.Millisecond
	s := sender(t, connection(blackHole(t), key))
	ended := func(what string, call func(context.Context) error) {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := call(ctx)
		took := time.Since(begun)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, workflow.ErrMessageRefused) {
			t.Errorf("%s: %v", what, err)
		}
		if took < patience || took > patience+time.Second {
			t.Errorf("%s took %s", what, took)
		}
	}
	var wg sync.WaitGroup
	for n := range 16 { // as many as the dispatcher sends for at once
		for name, out := range kinds() {
			wg.Go(func() {
				ended(fmt.Sprint(name, n), func(ctx context.Context) error {
					_, err := s.Send(ctx, []workflow.Outgoing{out})
					return err
				})
			})
		}
		wg.Go(func() {
			ended(fmt.Sprint("cancel", n), func(ctx context.Context) error { return s.Cancel(ctx, 1) })
		})
	}
	wg.Wait()
}

func TestABrokerThatFallsSilentLaterIsWaitedForUntilTheDeadlineToo(t *testing.T) {
	t.Parallel()
	for _, at := range []busserver.Moment{busserver.Attaching, busserver.Arrived, busserver.Taken, busserver.Requested} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			speaks := make(chan struct{})
			b := serve(t, busserver.Times(1, at, busserver.Fault{Until: speaks}))
			s := sender(t, b.connection())
			out := commands("order-42", 1, 0)[0]
			if at == busserver.Requested {
				out = deadline("order-42", time.Now().Add(time.Hour))
			}
			ctx := within(t, 300*time.Millisecond)
			sequences, err := s.Send(ctx, []workflow.Outgoing{out})
			require.Empty(t, sequences)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, workflow.ErrMessageRefused)
			close(speaks)
			give(t, s, out)
		})
	}
}

// conditions are what a broker may say, and whether that is about the message.
func conditions() map[amqp.Symbol]bool {
	return map[amqp.Symbol]bool{
		"amqp:link:message-size-exceeded":      true,
		"amqp:decode-error":                    true,
		"amqp:invalid-field":                   true,
		"amqp:not-allowed":                     true,
		"com.microsoft:argument-error":         true,
		"com.microsoft:argument-out-of-range":  true,
		"amqp:not-found":                       false,
		"amqp:unauthorized-access":             false,
		"amqp:resource-limit-exceeded":         false,
		"amqp:internal-error":                  false,
		"amqp:connection:forced":               false,
		"amqp:link:detach-forced":              false,
		"com.microsoft:entity-disabled":        false,
		"com.microsoft:server-busy":            false,
		"com.microsoft:timeout":                false,
		"com.microsoft:operation-cancelled":    false,
		"com.microsoft:something-new-entirely": false,
	}
}

func TestOnlySomeAnswersToAMessageAreAboutIt(t *testing.T) {
	t.Parallel()
	for condition, about := range conditions() {
		t.Run(string(condition), func(t *testing.T) {
			t.Parallel()
			var sound atomic.Bool
			b := serve(t, func(e busserver.Event) busserver.Fault {
				if e.Moment != busserver.Arrived || sound.Load() {
					return busserver.Fault{}
				}
				return busserver.Fault{Refuse: amqp.Errorf(condition, "no, not even *Error{Condition: amqp:not-allowed, x}")}
			})
			s := sender(t, b.connection())
			out := commands("order-42", 1, 0)
			sequences, err := s.Send(within(t, 10*time.Second), out)
			require.Empty(t, sequences)
			require.ErrorContains(t, err, string(condition))
			if about && !hidden(condition) {
				require.ErrorContains(t, err, ": no, not even *Error{Condition: amqp:not-allowed, x} ("+string(condition)+")")
			}
			require.Equal(t, about, errors.Is(err, workflow.ErrMessageRefused), "%v", err)
			require.Equal(t, condition == "amqp:link:message-size-exceeded", errors.Is(err, workflow.ErrNeverAccepted), "%v", err)
			sound.Store(true)
			give(t, s, out...)
		})
	}
}

// hidden reports whether the library's error does not show that a condition
// about a message came with the link's detachment, and not as its answer.
func hidden(condition amqp.Symbol) bool {
	return conditions()[condition] && condition != "amqp:not-allowed" && condition != "amqp:link:message-size-exceeded"
}

func TestALinkThatIsRefusedOrDetachedIsNoMessagesFaultAndTheNextSendHasANewOne(t *testing.T) {
	t.Parallel()
	for condition := range conditions() {
		for _, when := range []struct {
			at   busserver.Moment
			what string
		}{
			{busserver.Attaching, "a command"}, {busserver.Attaching, "a deadline"},
			{busserver.Arrived, "a command"}, {busserver.Requested, "a deadline"},
		} {
			t.Run(string(condition)+" "+string(when.at)+" for "+when.what, func(t *testing.T) {
				t.Parallel()
				at, out := when.at, kinds()[when.what]
				var sound atomic.Bool
				b := serve(t, func(e busserver.Event) busserver.Fault {
					if e.Moment != at || sound.Load() {
						return busserver.Fault{}
					}
					return busserver.Fault{Detach: amqp.Errorf(condition, "no")}
				})
				s := sender(t, b.connection())
				sequences, err := s.Send(within(t, 10*time.Second), []workflow.Outgoing{out})
				require.Empty(t, sequences)
				require.ErrorContains(t, err, string(condition))
				require.Equal(t, at == busserver.Arrived && hidden(condition), errors.Is(err, workflow.ErrMessageRefused), "%v", err)
				require.NotErrorIs(t, err, workflow.ErrNeverAccepted)
				sound.Store(true)
				give(t, s, out)
				if at == busserver.Requested {
					require.NoError(t, s.Cancel(within(t, 10*time.Second), b.scheduled()[0].SequenceNumber))
					require.Empty(t, b.scheduled())
				}
			})
		}
	}
}

func TestACancelAfterWhichTheLinkIsGoneMakesTheNextAttachAnew(t *testing.T) {
	t.Parallel()
	var sound atomic.Bool
	b := serve(t, func(e busserver.Event) busserver.Fault {
		if e.Operation != "com.microsoft:cancel-scheduled-message" || sound.Load() {
			return busserver.Fault{}
		}
		return busserver.Fault{Detach: amqp.Errorf("com.microsoft:entity-disabled", "no")}
	})
	s := sender(t, b.connection())
	sequence := give(t, s, deadline("order-42", time.Now().Add(time.Hour)))[0]
	require.NotErrorIs(t, s.Cancel(within(t, 10*time.Second), sequence), workflow.ErrMessageRefused)
	require.Error(t, s.Cancel(within(t, 10*time.Second), sequence))
	sound.Store(true)
	require.NoError(t, s.Cancel(within(t, 10*time.Second), sequence))
	require.Empty(t, b.scheduled())
}

// closeFrame is the frame by which a broker closes a connection with an error.
func closeFrame(condition string) []byte {
	symbol := append([]byte{0xa3, byte(len(condition))}, condition...)
	failure := append([]byte{0x00, 0x53, 0x1d, 0xc0, byte(len(symbol) + 1), 1}, symbol...)
	body := append([]byte{0x00, 0x53, 0x18, 0xc0, byte(len(failure) + 1), 1}, failure...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(8+len(body))), append([]byte{2, 0, 0, 0}, body...)...)
}

// closing is a way to a broker; calling end closes what goes over it with an
// error, as the broker might.
func closing(t *testing.T, to string) (addr string, end func(condition string)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	var clients []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			clients = append(clients, client)
			mu.Unlock()
			pass := func(dst, src net.Conn) func() {
				return func() {
					_, _ = io.Copy(dst, src)
					_, _ = dst.Close(), src.Close()
				}
			}
			running.Go(pass(server, client))
			running.Go(pass(client, server))
		}
	})
	end = func(condition string) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range clients {
			if condition != "" {
				_, err := c.Write(closeFrame(condition))
				require.NoError(t, err)
			} else {
				_ = c.Close()
			}
		}
		clients = nil
	}
	t.Cleanup(func() {
		require.NoError(t, ln.Close())
		end("")
		running.Wait()
	})
	return ln.Addr().String(), end
}

func TestAConnectionThatTheBrokerClosesIsNoMessagesFaultAndAnotherIsMade(t *testing.T) {
	t.Parallel()
	for _, condition := range []string{
		"amqp:connection:forced", "amqp:connection:framing-error", "amqp:internal-error", "amqp:not-allowed",
		"amqp:resource-limit-exceeded", "amqp:not-found", "com.microsoft:server-busy", "com.microsoft:entity-disabled",
	} {
		for name, out := range kinds() {
			t.Run(condition+" for "+name, func(t *testing.T) {
				t.Parallel()
				b := serve(t, nil)
				way, end := closing(t, b.addr)
				s := sender(t, connection(way, key))
				for range 2 {
					give(t, s, kinds()["a command"])
					give(t, s, kinds()["a deadline"])
					end(condition)
					_, err := s.Send(within(t, 10*time.Second), []workflow.Outgoing{out})
					require.NotErrorIs(t, err, workflow.ErrMessageRefused, "it may fail, but not for the message")
				}
				give(t, s, kinds()["a command"])
				give(t, s, kinds()["a deadline"])
			})
		}
	}
}

func TestTheMessageThatABatchIsRefusedForIsNamedAndThoseBeforeItAreSent(t *testing.T) {
	t.Parallel()
	for _, condition := range []amqp.Symbol{"com.microsoft:argument-error", "amqp:not-allowed"} {
		for at := range 5 {
			t.Run(fmt.Sprint(condition, at), func(t *testing.T) {
				t.Parallel()
				line := commands("order-42", 5, 0)
				b := serve(t, func(e busserver.Event) busserver.Fault {
					if e.Moment != busserver.Arrived || !has(e, line[at].ID) {
						return busserver.Fault{}
					}
					return busserver.Fault{Refuse: amqp.Errorf(condition, "no")}
				})
				sequences, err := sender(t, b.connection()).Send(within(t, 10*time.Second), line)
				require.Len(t, sequences, at)
				require.ErrorIs(t, err, workflow.ErrMessageRefused)
				require.ErrorContains(t, err, "send "+line[at].ID+" to commands")
				require.ElementsMatch(t, names(line[:at]), ids(b.sent(topics.Commands)))
			})
		}
	}
}
