// Package amqp is AMQP 1.0 for a server: the type codec, messages, frames,
// SASL, and an engine for connections, sessions and links. It knows nothing of
// what the messages mean; the layer above is a [Handler].
//
// Serve runs one connection. Each link that the client attaches is served by a
// goroutine of its own, much as net/http serves a request, and the [Link] is
// what that goroutine talks to. All state of a connection belongs to one other
// goroutine, the loop, which never waits for a link's.
//
// Section numbers in comments are those of the OASIS standard, AMQP 1.0 parts
// 1 (types), 2 (transport), 3 (messaging) and 5 (security): "2.6.7" is section
// 6.7 of part 2.
//
// Left out: the client's side, transactions (part 4), resuming links, dynamic
// nodes, TLS and WebSockets (the net.Conn may bring them).
package amqp
