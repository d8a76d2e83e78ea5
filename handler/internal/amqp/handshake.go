package amqp

import (
	"fmt"
	"io"
)

// Protocol IDs in the protocol header (2.2, 5.3.1).
const (
	protocolAMQP byte = 0
	protocolSASL byte = 3
)

// mechanisms are the SASL mechanisms on offer (5.3.3.1). Every one of them is
// let in: who may do what is for the layer above to say, link by link.
type mechanisms struct{}

func (mechanisms) composite() Described {
	return composite(descMechanisms, ArrayOf([]Symbol{"ANONYMOUS", "PLAIN", "MSSBCBS", "EXTERNAL"}))
}

// saslOutcome ends the SASL exchange (5.3.3.6).
type saslOutcome struct{ code uint8 }

func (o saslOutcome) composite() Described { return composite(descSASLOutcome, o.code) }

// handshake brings a new connection to where both sides have sent open.
func (c *conn) handshake() error {
	protocol, err := c.readProtocol()
	if err != nil {
		return err
	}
	if protocol == protocolSASL {
		if err := c.sasl(); err != nil {
			return err
		}
		if protocol, err = c.readProtocol(); err != nil {
			return err
		}
	}
	if protocol != protocolAMQP {
		_, _ = c.net.Write(protocolHeader(protocolAMQP))
		return fmt.Errorf("amqp: protocol %d is not spoken here", protocol)
	}
	if _, err := c.net.Write(protocolHeader(protocolAMQP)); err != nil {
		return err
	}
	return c.exchangeOpen()
}

func protocolHeader(protocol byte) []byte {
	return []byte{'A', 'M', 'Q', 'P', protocol, 1, 0, 0}
}

// readProtocol reads the client's protocol header. One that is not understood
// is answered with ours, as 2.2 asks.
func (c *conn) readProtocol() (byte, error) {
	var got [8]byte
	if _, err := io.ReadFull(c.reader, got[:]); err != nil {
		return 0, err
	}
	if want := protocolHeader(got[4]); string(got[:]) != string(want) {
		_, _ = c.net.Write(protocolHeader(protocolSASL))
		return 0, fmt.Errorf("amqp: protocol header % x", got)
	}
	return got[4], nil
}

func (c *conn) sasl() error {
	offer := append(protocolHeader(protocolSASL), appendFrame(nil, typeSASL, 0, mechanisms{}, nil)...)
	if _, err := c.net.Write(offer); err != nil {
		return err
	}
	f, err := readFrame(c.reader, minMaxFrame)
	if err != nil {
		return err
	}
	v, _, err := Decode(f.body)
	if err != nil {
		return err
	}
	if code, _, _ := descriptor(v); f.kind != typeSASL || code != descInit {
		return Errorf(FramingError, "sasl-init was expected")
	}
	_, err = c.net.Write(appendFrame(nil, typeSASL, 0, saslOutcome{}, nil))
	return err
}

func (c *conn) exchangeOpen() error {
	f, err := readFrame(c.reader, c.options.MaxFrameSize)
	if err != nil {
		return err
	}
	p, _, err := decodePerformative(f.body)
	if err != nil {
		return err
	}
	o, ok := p.(open)
	switch {
	case !ok || f.kind != typeAMQP:
		return Errorf(FramingError, "open was expected")
	case o.MaxFrameSize < minMaxFrame:
		return Errorf(InvalidField, "max-frame-size %d is less than %d", o.MaxFrameSize, minMaxFrame)
	}
	c.peer = o
	c.maxFrame = min(o.MaxFrameSize, c.options.MaxFrameSize)
	c.write(0, open{
		ContainerID:  c.options.ContainerID,
		MaxFrameSize: c.options.MaxFrameSize,
		ChannelMax:   c.options.MaxSessions - 1,
		IdleTimeOut:  uint32(c.options.IdleTimeOut.Milliseconds()),
	}, nil)
	return nil
}
