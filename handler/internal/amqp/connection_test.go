package amqp

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func idle(ctx context.Context, l *Link) {
	_ = l.Accept(Reply{Credit: 10})
	<-ctx.Done()
}

func TestAConnectionOpensAfterSASL(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := pipe(t, handlerFunc(idle), Options{ContainerID: "bus"})
		c.write(protocolHeader(protocolSASL))
		c.readHeader(protocolSASL)
		f, err := readFrame(c.reader, 512)
		require.NoError(t, err)
		require.Equal(t, typeSASL, f.kind)
		offered, _, err := Decode(f.body)
		require.NoError(t, err)
		require.Contains(t, offered.(Described).Value.([]any)[0].(Array).Items, Symbol("ANONYMOUS"))

		c.write(appendFrame(nil, typeSASL, 0, saslInit{}, nil))
		f, err = readFrame(c.reader, 512)
		require.NoError(t, err)
		outcome, _, err := Decode(f.body)
		require.NoError(t, err)
		require.Equal(t, composite(descSASLOutcome, uint8(0)), outcome)

		c.write(protocolHeader(protocolAMQP))
		c.readHeader(protocolAMQP)
		c.send(0, open{ContainerID: "client", MaxFrameSize: 512, ChannelMax: 1})
		c.read()
		require.Equal(t, "bus", expect[open](c).ContainerID)
	})
}

type saslInit struct{}

func (saslInit) composite() Described { return composite(descInit, Symbol("ANONYMOUS")) }

func TestAProtocolThatIsNotSpokenIsAnsweredWithOneThatIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := pipe(t, handlerFunc(idle), Options{})
		c.write([]byte("GET / HT"))
		c.readHeader(protocolSASL)
		require.ErrorContains(t, <-c.served, "protocol header")
	})
}

func TestAConnectionThatDoesNotOpenIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := pipe(t, handlerFunc(idle), Options{})
		start := time.Now()
		require.Error(t, <-c.served)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestTheClientsCloseIsAnsweredWhenItsLinksAreDone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		finish := make(chan struct{})
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			idle(ctx, l)
			<-finish
		}), Options{})
		c.receives(0)
		c.send(0, closing{})
		c.quiet()
		close(finish)
		expect[detach](c)
		require.Nil(t, expect[closing](c).Error)
		require.NoError(t, <-c.served)
	})
}

func TestAConnectionThatBreaksEndsItsLinks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ended := make(chan error, 1)
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			idle(ctx, l)
			ended <- l.Accept(Reply{})
		}), Options{})
		c.receives(0)
		require.NoError(t, c.nc.Close())
		require.ErrorIs(t, <-c.served, io.EOF)
		require.ErrorIs(t, <-ended, ErrDetached)
	})
}

func TestAServerThatShutsDownSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(idle), Options{})
		c.receives(0)
		c.cancel()
		c.requireClosed(ConnectionForced)
	})
}

func TestEmptyFramesKeepTheClientAwake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(idle), Options{}, func(o *open) { o.IdleTimeOut = 30_000 })
		start := time.Now()
		require.Nil(t, c.next().body)
		require.Nil(t, c.next().body)
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestASilentClientIsCutOffAfterTwiceItsTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(idle), Options{IdleTimeOut: time.Minute})
		start := time.Now()
		<-time.After(time.Minute)
		c.send(0, nil)
		c.requireClosed(ResourceLimitExceeded)
		require.Equal(t, 3*time.Minute, time.Since(start))
	})
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := pipe(t, handlerFunc(idle), Options{})
		c.write(protocolHeader(protocolAMQP))
		c.readHeader(protocolAMQP)
		c.send(0, open{ContainerID: "client", MaxFrameSize: 512, ChannelMax: 1})
		start := time.Now()
		require.Error(t, <-c.served)
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestWhatBreaksTheProtocolClosesTheConnection(t *testing.T) {
	remote := uint16(0)
	for _, c := range []struct {
		why       string
		condition Symbol
		frame     []byte
	}{
		{"a frame that is too large", FramingError, []byte{0, 1, 0, 1, 2, 0, 0, 0}},
		{"a frame smaller than its header", FramingError, []byte{0, 0, 0, 7, 2, 0, 0, 0}},
		{"a body that begins after the frame's end", FramingError, []byte{0, 0, 0, 8, 9, 0, 0, 0}},
		{"a frame of another type", FramingError, []byte{0, 0, 0, 8, 2, 1, 0, 0}},
		{"what cannot be decoded", DecodeFailed, []byte{0, 0, 0, 9, 2, 0, 0, 0, 0x3f}},
		{"a value that is no performative", DecodeFailed, []byte{0, 0, 0, 9, 2, 0, 0, 0, 0x40}},
		{"a field of the wrong type", DecodeFailed, appendFrame(nil, typeAMQP, 0, raw{composite(descDetach, "handle")}, nil)},
		{"a field that is missing", DecodeFailed, appendFrame(nil, typeAMQP, 0, raw{composite(descAttach)}, nil)},
		{"a second open", IllegalState, appendFrame(nil, typeAMQP, 0, open{ContainerID: "c"}, nil)},
		{"a channel without a session", NotAllowed, appendFrame(nil, typeAMQP, 5, end{}, nil)},
		{"a channel with a session already", NotAllowed, appendFrame(nil, typeAMQP, 0, begin{}, nil)},
		{"a channel above the limit", ResourceLimitExceeded, appendFrame(nil, typeAMQP, 4, begin{}, nil)},
		{"an answer that was not asked for", NotAllowed, appendFrame(nil, typeAMQP, 1, begin{RemoteChannel: &remote}, nil)},
		{"a handle above the limit", FramingError, appendFrame(nil, typeAMQP, 0, Attach{handle: 4, Role: RoleReceiver}, nil)},
	} {
		t.Run(c.why, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				client := connect(t, handlerFunc(idle), Options{MaxSessions: 4, MaxLinks: 4})
				client.write(c.frame)
				client.requireClosed(c.condition)
			})
		})
	}
}

// raw is any performative.
type raw struct{ Described }

func (r raw) composite() Described { return r.Described }

func TestWhatDoesNotFitAFrameClosesTheConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := connect(t, handlerFunc(func(ctx context.Context, l *Link) {
			_ = l.Accept(Reply{Properties: Map{{Key: Symbol("large"), Value: make([]byte, 600)}}})
		}), Options{}, func(o *open) { o.MaxFrameSize = 512 })
		c.send(0, Attach{Name: "in", Role: RoleReceiver, Source: &Source{}, Target: &Target{}})
		c.requireClosed(FramingError)
	})
}
