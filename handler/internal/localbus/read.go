package localbus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// eachActive names every message that may be received, dead letters included,
// by sequence number within its subscription.
func (s *store) eachActive(ctx context.Context, add func(topic, subscription, session string, dead bool, e entry)) error {
	rows, err := s.reader.QueryContext(ctx, selectActive)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // rows.Err has said what matters
	for rows.Next() {
		var topic, subscription, session string
		var dead bool
		var e entry
		if err := rows.Scan(&topic, &subscription, &session, &dead, &e.sequence, &e.expires); err != nil {
			return err
		}
		add(topic, subscription, session, dead, e)
	}
	return rows.Err()
}

// message reads a message of the line; its DeliveryCount is that of the failed
// deliveries so far. sql.ErrNoRows when it is not there in this state.
func (s *store) message(ctx context.Context, l *line, sequence int64, state State) (*Message, error) {
	m, err := scanMessage(s.one.QueryRowContext(ctx, l.queue.topic, l.queue.Name, sequence, l.dead, state))
	if err != nil {
		return nil, fmt.Errorf("read message %d: %w", sequence, err)
	}
	return &m, nil
}

// sessionState reads a session's state; nil for none.
func (s *store) sessionState(ctx context.Context, q *queue, session string) ([]byte, error) {
	var state []byte
	err := s.state.QueryRowContext(ctx, q.topic, q.Name, session).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err == nil && state == nil: // the driver's for an empty value
		state = []byte{}
	}
	return state, err
}

func scanMessage(row interface{ Scan(...any) error }) (Message, error) {
	var m Message
	var enqueued, scheduled int64
	var properties string
	err := row.Scan(&m.SequenceNumber, &enqueued, &m.State, &m.DeliveryCount, &m.DeadLetterReason, &m.DeadLetterDescription,
		&m.MessageID, &m.SessionID, &m.CorrelationID, &m.Subject, &m.ContentType,
		&m.To, &m.ReplyTo, &m.ReplyToSessionID, &m.PartitionKey, &properties, &m.Body, &scheduled, &m.TimeToLive)
	if err != nil {
		return Message{}, err
	}
	m.EnqueuedAt = moment(enqueued)
	m.ScheduledAt = moment(scheduled)
	m.Properties, err = decodeProperties(properties)
	return m, err
}
