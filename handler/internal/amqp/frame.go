package amqp

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	frameHeader = 8
	// minMaxFrame is the smallest max-frame-size that a peer may ask for (2.7.1).
	minMaxFrame = 512

	typeAMQP byte = 0
	typeSASL byte = 1
)

// frame is a frame without its header (2.3).
type frame struct {
	kind    byte
	channel uint16
	body    []byte
}

// readFrame reads one frame of at most most bytes.
func readFrame(r io.Reader, most uint32) (frame, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(header[:])
	skip := 4 * uint32(header[4]) // the data offset counts words of four bytes
	switch {
	case size < frameHeader || size > most:
		return frame{}, Errorf(FramingError, "a frame of %d bytes, where %d to %d are allowed", size, frameHeader, most)
	case skip < frameHeader || skip > size:
		return frame{}, Errorf(FramingError, "a frame of %d bytes whose body begins at byte %d", size, skip)
	}
	body := make([]byte, size-frameHeader)
	if _, err := io.ReadFull(r, body); err != nil {
		return frame{}, fmt.Errorf("amqp: frame ends early: %w", err)
	}
	return frame{kind: header[5], channel: binary.BigEndian.Uint16(header[6:]), body: body[skip-frameHeader:]}, nil
}

// appendFrame appends a frame with a body of a performative and a payload. A
// nil performative makes the empty frame that keeps a connection alive (2.4.5).
func appendFrame(b []byte, kind byte, channel uint16, p performative, payload []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, frameHeader/4, kind, byte(channel>>8), byte(channel))
	if p != nil {
		b = Append(b, p.composite())
	}
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at))
	return b
}
