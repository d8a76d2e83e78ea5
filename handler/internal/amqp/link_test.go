package amqp

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnAcceptedLinkEchoesWhatWasAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, acceptAll(5), Options{})
		filter := Map{{Key: Symbol("f"), Value: Described{Descriptor: uint64(1), Value: "x"}}}
		a := c.receives(0, func(a *Attach) {
			a.SndSettleMode = SenderSettled
			a.Source = &Source{Address: "q", Filter: filter, fields: []any{nil, uint32(2)}}
		})
		require.Equal(t, RoleSender, a.Role)
		require.Equal(t, SenderSettled, a.SndSettleMode)
		require.Equal(t, ReceiverSecond, a.RcvSettleMode)
		require.Equal(t, "q", a.Source.Address)
		require.Equal(t, filter, a.Source.Filter)
		require.Equal(t, uint32(2), a.Source.fields[1], "durable means nothing here and is kept")
		require.NotNil(t, a.initialDeliveryCount)
	})
}

func TestARefusedLinkIsAttachedWithoutItsEndAndDetached(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(func(_ context.Context, l *Link) {
			_ = l.Refuse(Errorf(NotFound, "no such node"))
		}), Options{})
		require.Nil(t, c.receives(0).Source)
		d := expect[detach](c)
		require.True(t, d.Closed)
		require.Equal(t, Errorf(NotFound, "no such node"), d.Error)
		c.send(0, detach{Handle: 0, Closed: true})
		require.Nil(t, c.sends(0).Target, "the handle is free again")
	})
}

func TestAHandlerThatReturnsWithoutAnAnswerRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(func(context.Context, *Link) {}), Options{})
		require.Nil(t, c.receives(0).Source)
		expect[detach](c)
	})
}

func TestCreditIsRenewedAsDeliveriesAreSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, acceptAll(4), Options{})
		c.sends(0)
		require.Equal(t, uint32(4), *expect[flow](c).LinkCredit)
		for id := range uint32(2) {
			c.deliver(0, id, "m")
			d := expect[disposition](c)
			require.Equal(t, disposition{Role: RoleReceiver, First: id, Settled: true, State: Accepted{}}, d)
		}
		f := expect[flow](c)
		require.Equal(t, uint32(2), *f.DeliveryCount)
		require.Equal(t, uint32(4), *f.LinkCredit)
		c.quiet()
	})
}

func TestCreditWaitsForDeliveriesThatAreNotSettled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		settle := make(chan struct{})
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{Credit: 2})
			for {
				d, err := l.Next(ctx)
				if err != nil {
					return
				}
				<-settle
				_ = d.Forget()
			}
		}), Options{})
		c.sends(0)
		expect[flow](c)
		c.deliver(0, 0, "m")
		c.deliver(0, 1, "m")
		c.quiet()
		settle <- struct{}{}
		f := expect[flow](c)
		require.Equal(t, uint32(1), *f.LinkCredit, "one of two is still open")
		c.deliver(0, 2, "m")
		c.deliver(0, 3, "one too many")
		require.Equal(t, TransferLimitExceeded, expect[detach](c).Error.Condition)
		close(settle)
	})
}

func TestAMessageInManyFramesArrivesWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := make(chan *Delivery, 3)
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{Credit: 10})
			for d, err := l.Next(ctx); err == nil; d, err = l.Next(ctx) {
				got <- d
			}
		}), Options{})
		c.sends(0)
		expect[flow](c)
		id, format := uint32(7), uint32(0x80013700)
		c.send(0, transfer{DeliveryID: &id, DeliveryTag: []byte("t"), MessageFormat: &format, More: true}, 'a')
		c.send(0, transfer{More: true}, 'b')
		c.send(0, transfer{DeliveryID: &id}, 'c') // some clients say it again
		d := <-got
		require.Equal(t, "abc", string(d.Payload))
		require.Equal(t, "t", string(d.Tag))
		require.Equal(t, format, d.Format)

		id++
		c.send(0, transfer{DeliveryID: &id, More: true}, 'x')
		c.send(0, transfer{Aborted: true})
		id++
		c.deliver(0, id, "next")
		require.Equal(t, "next", string((<-got).Payload), "an aborted delivery never was")
	})
}

func TestAMessageThatIsTooLargeDetachesTheLink(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, acceptAll(5), Options{})
		require.Equal(t, uint64(1000), c.sends(0).MaxMessageSize)
		expect[flow](c)
		id := uint32(0)
		c.send(0, transfer{DeliveryID: &id, More: true}, make([]byte, 600)...)
		c.send(0, transfer{More: true}, make([]byte, 600)...)
		require.Equal(t, MessageSizeExceeded, expect[detach](c).Error.Condition)
		c.send(0, transfer{}, 'x') // was on its way
		c.quiet()
	})
}

func TestAMessageIsCutToTheClientsFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		text := strings.Repeat("0123456789", 100)
		c := connect(t, offers(text, "second"), Options{}, func(o *open) { o.MaxFrameSize = 512 })
		c.receives(0)
		c.grant(0, 0, 2)
		var whole bytes.Buffer
		for frames, more := 0, true; more; frames++ {
			in := c.next()
			p := in.body.(transfer)
			require.Equal(t, frames == 0, p.DeliveryID != nil, "the delivery-id is said once")
			require.LessOrEqual(t, len(in.payload), 512)
			whole.Write(in.payload)
			more = p.More
		}
		require.Equal(t, text, whole.String())
		require.Equal(t, uint32(1), *expect[transfer](c).DeliveryID, "it counts deliveries")
	})
}

func TestNothingIsDeliveredWithoutCredit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, offers("1", "2", "3"), Options{})
		c.receives(0)
		c.quiet()
		c.grant(0, 0, 2)
		expect[transfer](c)
		expect[transfer](c)
		c.quiet()
		c.grant(0, 1, 1) // does not know of the second yet: that was it
		c.quiet()
		c.grant(0, 2, 1)
		expect[transfer](c)
	})
}

func TestDrainingUsesUpWhatCreditIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, offers("1", "2"), Options{})
		c.receives(0)
		handle, none, credit := uint32(0), uint32(0), uint32(5)
		c.send(0, flow{IncomingWindow: 1000, Handle: &handle, DeliveryCount: &none, LinkCredit: &credit, Drain: true})
		expect[transfer](c)
		expect[transfer](c)
		f := expect[flow](c)
		require.True(t, f.Drain)
		require.Equal(t, uint32(5), *f.DeliveryCount)
		require.Zero(t, *f.LinkCredit)

		c.grant(0, 5, 3)
		c.quiet()
		known := uint32(5)
		c.send(0, flow{NextIncomingID: &known, IncomingWindow: 1000, Handle: &handle, DeliveryCount: &known, LinkCredit: &credit, Drain: true})
		require.Equal(t, uint32(10), *expect[flow](c).DeliveryCount, "a drain with nothing at hand")
	})
}

func TestWhoTakesCreditBackGetsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		send := make(chan struct{})
		sent := make(chan error, 1)
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{})
			wanted, err := l.Credit(ctx)
			require.NoError(t, err)
			<-wanted.Done()
			<-send
			sent <- l.Send(ctx, Outgoing{Tag: []byte{1}})
			<-ctx.Done()
		}), Options{})
		c.receives(0)
		c.grant(0, 0, 1)
		synctest.Wait()
		c.grant(0, 0, 0)
		send <- struct{}{}
		require.ErrorIs(t, <-sent, ErrNoCredit)
	})
}

func TestTheSessionsWindowHoldsTransfersBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, offers("1", "2", "3"), Options{})
		c.receives(0)
		handle, zero, credit, two := uint32(0), uint32(0), uint32(10), uint32(2)
		c.send(0, flow{NextIncomingID: &zero, IncomingWindow: 2, Handle: &handle, DeliveryCount: &zero, LinkCredit: &credit})
		expect[transfer](c)
		expect[transfer](c)
		c.quiet()
		c.send(0, flow{NextIncomingID: &two, IncomingWindow: 1})
		expect[transfer](c)
	})
}

func TestTheClientHearsOfANewWindow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, acceptAll(10), Options{})
		c.sends(0)
		expect[flow](c)
		id := uint32(0)
		for range incomingWindow/2 + 1 {
			c.send(0, transfer{DeliveryID: &id, More: true})
		}
		f := expect[flow](c)
		require.Nil(t, f.Handle)
		require.Equal(t, uint32(incomingWindow), f.IncomingWindow)
		require.Equal(t, uint32(incomingWindow/2+1), *f.NextIncomingID)
	})
}

func TestAnEchoIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, acceptAll(7), Options{})
		c.send(0, flow{IncomingWindow: 5, Echo: true})
		require.Nil(t, expect[flow](c).Handle)
		c.sends(3)
		expect[flow](c)
		handle := uint32(3)
		c.send(0, flow{IncomingWindow: 5, Handle: &handle, Echo: true})
		require.Equal(t, uint32(7), *expect[flow](c).LinkCredit)
	})
}

func TestOutcomesOfARangeComeInOrderAndAreAnswered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{})
			for i := range 3 {
				_, err := l.Credit(ctx)
				require.NoError(t, err)
				require.NoError(t, l.Send(ctx, Outgoing{Tag: []byte{byte(i)}}))
			}
			for i := range 3 {
				o, err := l.NextOutcome(ctx)
				require.NoError(t, err)
				require.Equal(t, []byte{byte(i)}, o.Tag)
				require.Equal(t, Modified{DeliveryFailed: true}, o.State)
				require.NoError(t, l.Settle(o, Accepted{}))
			}
			<-ctx.Done()
		}), Options{})
		c.receives(0)
		c.grant(0, 0, 10)
		for range 3 {
			expect[transfer](c)
		}
		last := uint32(1<<32 - 2) // far more than there are
		d := disposition{Role: RoleReceiver, First: 0, Last: &last, State: Modified{DeliveryFailed: true}}
		c.send(0, d)
		c.send(0, d) // said twice, decided once
		for id := range uint32(3) {
			require.Equal(t, disposition{Role: RoleSender, First: id, Settled: true, State: Accepted{}}, expect[disposition](c))
		}
		c.quiet()
	})
}

func TestAnOutcomeThatIsSettledNeedsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		told := make(chan Outcome, 1)
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{})
			_, _ = l.Credit(ctx)
			_ = l.Send(ctx, Outgoing{Tag: []byte{1}})
			o, _ := l.NextOutcome(ctx)
			_ = l.Settle(o, Accepted{})
			told <- o
			<-ctx.Done()
		}), Options{})
		c.receives(0, func(a *Attach) { a.RcvSettleMode = receiverFirst })
		c.grant(0, 0, 1)
		expect[transfer](c)
		c.send(0, disposition{Role: RoleReceiver, First: 0, State: received{}}) // no outcome
		c.send(0, disposition{Role: RoleReceiver, First: 0, Settled: true, State: Released{}})
		require.Equal(t, Released{}, (<-told).State)
		c.quiet()
	})
}

func TestADetachIsAnsweredWhenWhatTheLinkHeldIsFree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		free := make(chan struct{})
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{Credit: 5})
			<-ctx.Done()
			<-free
		}), Options{})
		c.receives(0)
		c.send(0, detach{Handle: 0, Closed: true})
		c.quiet()
		close(free)
		require.Equal(t, detach{Handle: 0, Closed: true}, expect[detach](c))
	})
}

func TestWhatHasComeIsHandedOverAfterADetach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		got := make(chan string, 2)
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{Credit: 5})
			<-ctx.Done()
			for d, err := l.Next(ctx); err == nil; d, err = l.Next(ctx) {
				got <- string(d.Payload)
			}
		}), Options{})
		c.sends(0)
		expect[flow](c)
		c.deliver(0, 0, "1")
		c.deliver(0, 1, "2")
		c.send(0, detach{Handle: 0, Closed: true})
		expect[detach](c)
		require.Equal(t, "1", <-got)
		require.Equal(t, "2", <-got)
	})
}

func TestTheEndOfASessionEndsItsLinks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ended := make(chan struct{}, 3)
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			idle(ctx, l)
			<-time.After(time.Second)
			ended <- struct{}{}
		}), Options{})
		c.receives(0)
		c.receives(1)
		c.send(0, end{})
		require.Nil(t, expect[end](c).Error)
		require.Len(t, ended, 2, "end is answered when both are done")
		c.begin(0, 10)
		c.receives(0)
	})
}

func TestAFaultOfTheClientEndsItsSession(t *testing.T) {
	id := uint32(0)
	for _, f := range []struct {
		why       string
		condition Symbol
		frame     performative
	}{
		{"a handle in use", HandleInUse, Attach{Name: "again", Role: RoleReceiver}},
		{"a transfer without a link", UnattachedHandle, transfer{Handle: 5, DeliveryID: &id}},
		{"a flow without a link", UnattachedHandle, flow{Handle: ptr(uint32(5))}},
		{"a detach without a link", UnattachedHandle, detach{Handle: 5}},
		{"a transfer against the direction of the link", NotAllowed, transfer{Handle: 0, DeliveryID: &id}},
	} {
		t.Run(f.why, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := connect(t, handlerFunc(idle), Options{})
				c.receives(0)
				c.send(0, f.frame)
				e := expect[end](c)
				require.Equal(t, f.condition, e.Error.Condition)
				c.send(0, transfer{Handle: 9}) // was on its way
				c.send(0, end{})
				c.quiet()
				c.begin(0, 10)
			})
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestManyLinksShareAConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			if l.Attach().Role == RoleSender {
				acceptAll(10)(ctx, l)
			} else {
				offers(strings.Repeat("x", 100_000))(ctx, l)
			}
		}), Options{})
		for channel := uint16(1); channel < 10; channel++ {
			c.begin(channel, 1000)
			c.send(channel, Attach{Name: "in", Role: RoleReceiver, Source: &Source{}, Target: &Target{}})
			expect[Attach](c)
		}
		for channel := uint16(1); channel < 10; channel++ {
			c.send(channel, flow{NextIncomingID: ptr(uint32(0)), IncomingWindow: 1000, Handle: ptr(uint32(0)), DeliveryCount: ptr(uint32(0)), LinkCredit: ptr(uint32(1))})
		}
		got := map[uint16]int{}
		for range 2 * 9 {
			in := c.next()
			got[in.channel] += len(in.payload)
		}
		for channel := uint16(1); channel < 10; channel++ {
			require.Equal(t, 100_000, got[channel])
		}
	})
}

// FuzzServe sees that no client can make the engine panic or hang.
func FuzzServe(f *testing.F) {
	zero := uint32(0)
	var frames []byte
	for _, p := range []performative{
		begin{IncomingWindow: 10}, Attach{Name: "a", Role: RoleSender, initialDeliveryCount: &zero, Target: &Target{}},
		transfer{DeliveryID: &zero, More: true}, transfer{}, Attach{Name: "b", handle: 1, Role: RoleReceiver, Source: &Source{}},
		flow{IncomingWindow: 5, Handle: ptr(uint32(1)), LinkCredit: ptr(uint32(3))}, flow{Handle: ptr(uint32(1)), LinkCredit: ptr(uint32(9)), Drain: true, Echo: true},
		disposition{Role: RoleReceiver, Last: ptr(uint32(5)), State: Released{}}, detach{}, end{}, closing{},
	} {
		frames = appendFrame(frames, typeAMQP, 0, p, []byte("payload"))
	}
	f.Add(frames)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := pipe(t, handlerFunc(func(ctx context.Context, l *Link) {
			if l.Attach().Role == RoleSender {
				acceptAll(3)(ctx, l)
			} else {
				offers("1", "2", "3")(ctx, l)
			}
		}), Options{})
		c.write(protocolHeader(protocolAMQP))
		c.readHeader(protocolAMQP)
		c.send(0, open{ContainerID: "fuzz", MaxFrameSize: 512})
		go func() {
			for {
				if _, err := readFrame(c.reader, 1<<20); err != nil {
					return
				}
			}
		}()
		_, _ = c.nc.Write(b)
		_ = c.nc.Close()
		t.Log(<-c.served)
	})
}
