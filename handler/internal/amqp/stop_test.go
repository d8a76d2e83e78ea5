package amqp

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// When the server stops, a client that does not read must not hold it up for
// as long as one in the middle of a working day.
func TestAClientThatDoesNotReadDoesNotHoldUpTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		near, far := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		served := make(chan struct{})
		go func() { defer close(served); _ = Serve(ctx, far, acceptAll(1), Options{}) }()
		c := &client{t: t, nc: near}
		hdr := make(chan struct{})
		go func() { buf := make([]byte, 8); _, _ = near.Read(buf); close(hdr) }()
		c.write(protocolHeader(protocolAMQP))
		<-hdr
		c.send(0, open{ContainerID: "c", MaxFrameSize: 65536})
		synctest.Wait()
		began := time.Now()
		cancel()
		<-served
		require.Less(t, time.Since(began), 5*time.Second)
		_ = near.Close()
	})
}
