// Package busserver serves a [localbus.Bus] in the dialect of AMQP 1.0 that
// Azure Service Bus speaks, so that unmodified client libraries can use it: on
// a laptop without a network, and in tests.
//
// It is not Azure and does not stand in for it in production. What it does was
// learnt from the source of the clients and is shown by running two of them,
// azservicebus for Go and @azure/service-bus for JavaScript. Parity with the
// live service is unproven. Known differences:
//
//   - Entities are topics and session-enabled subscriptions, declared when the
//     bus is opened; there are no queues, no filters in SQL and no HTTP
//     interface to manage entities.
//   - A body is bytes: data sections are joined, other bodies are refused.
//     Application properties come back as the nearest type that the bus keeps,
//     and durable, priority, content-encoding and user-id are dropped.
//   - Properties to modify on abandon, defer and dead-letter are ignored.
//   - Tokens are checked when they are put and when a link attaches; one that
//     runs out later cuts nothing off.
//   - There is no TLS, no WebSocket, and no transaction.
//
// A server listens on a loopback address only, unless it is told otherwise.
package busserver
