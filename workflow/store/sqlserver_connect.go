package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/azuread"
)

// connector makes connections whose sockets can be closed from outside: when a
// network swallows what is sent, the driver waits for an answer to its
// cancellation and, while it logs in or sends, for ever.
type connector struct {
	*mssql.Connector
	// timeout bounds the making of a connection; the pool makes some under no
	// context of a caller.
	timeout time.Duration
}

// newConnector reads the address of a server. With the parameter fedauth the
// login is by Entra ID, with a token asked for at each new connection.
func newConnector(address string, timeout time.Duration) (*connector, error) {
	u, err := url.Parse(address)
	var escape url.EscapeError
	if err != nil && (cutShort(address) || errors.As(err, &escape)) || err == nil && u.Fragment != "" {
		return nil, errors.New("the address of the SQL Server: in a user or a password, # / ? and % are written as %23 %2F %3F and %25")
	}
	if err != nil {
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = wrong.Err // without the address, which holds the password
		}
		return nil, fmt.Errorf("the address of the SQL Server: %w", err)
	}
	c, err := azuread.NewConnector(address) // the driver azuresql; without fedauth it is sqlserver
	if err != nil {
		return nil, fmt.Errorf("the address of the SQL Server: %w", err)
	}
	c.Dialer = dialer{}
	return &connector{c, timeout}, nil
}

// cutShort reports whether the user and the password of an address are not read
// as such, since one of them holds what ends that part of an address. What is
// said of the address then says some of the password.
func cutShort(address string) bool {
	_, rest, _ := strings.Cut(address, "://")
	end := strings.IndexAny(rest, "/?#")
	return end >= 0 && !strings.Contains(rest[:end], "@") && strings.Contains(rest[end:], "@")
}

// conn is a connection of the driver, with its socket.
type conn struct {
	*mssql.Conn
	socket *socket
}

// Connect implements driver.Connector. It returns soon after its context ended.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s := &socket{}
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	made, err := c.Connector.Connect(context.WithValue(ctx, socketKey{}, s))
	if err != nil {
		s.close()
		if ended := ctx.Err(); ended != nil {
			err = fmt.Errorf("%w: %w", ended, err)
		}
		return nil, err
	}
	return &conn{made.(*mssql.Conn), s}, nil
}

// socket is what a connection was made over; where a name has several addresses,
// the tries that lost are in it too, and closed.
type socket struct {
	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

func (s *socket) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns = append(s.conns, c); s.closed {
		_ = c.Close()
	}
}

func (s *socket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, c := range s.conns {
		_ = c.Close() // nobody waits for what it might say
	}
}

type socketKey struct{}

// dialer opens sockets, and tells Connect of them.
type dialer struct{}

func (dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address) // with Go's keep-alive
	if s, is := ctx.Value(socketKey{}).(*socket); is && err == nil {
		s.add(c)
	}
	return c, err
}

// grace is how long the driver may take, once a context has ended, to agree with
// the server that a request is cancelled.
const grace = time.Second

// watch closes a connection's socket when it is still in use a grace after ctx
// ended. It must be released when the use is over.
func watch(ctx context.Context, c *sql.Conn) (release func()) {
	var s *socket
	_ = c.Raw(func(raw any) error {
		if c, is := raw.(*conn); is {
			s = c.socket
		}
		return nil
	})
	if s == nil {
		return func() {}
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			s.close()
		}
	})
	return func() {
		close(done)
		stop()
	}
}
