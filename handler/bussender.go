package main

import (
	"context"
	"errors"
	"fmt"

	"orderflow/handler/internal/localbus"
	"orderflow/workflow"
)

// busSender gives messages to the bus of local mode.
type busSender struct {
	bus              *localbus.Bus
	orders, commands string // topics
}

func (s busSender) Send(ctx context.Context, messages []workflow.Outgoing) ([]int64, error) {
	var sequences []int64
	for i := range messages {
		out := &messages[i]
		m := localbus.Message{
			MessageID: out.ID, SessionID: out.OrderID, CorrelationID: out.Conversation,
			Subject: string(out.Type), ContentType: workflow.ContentType, Body: out.Body,
			Properties: make(map[string]any),
		}
		for name, value := range out.Properties() {
			m.Properties[name] = value
		}
		topic := s.commands
		if out.Purpose != "" {
			topic, m.ScheduledAt = s.orders, out.DueAt
		}
		sequence, err := s.bus.Send(ctx, topic, m)
		if err != nil {
			if errors.Is(err, localbus.ErrMessageTooLarge) || errors.Is(err, localbus.ErrInvalidMessage) {
				err = fmt.Errorf("%w: %w", workflow.ErrMessageRefused, err)
			}
			return sequences, fmt.Errorf("send %s: %w", out.ID, err)
		}
		sequences = append(sequences, sequence[0])
	}
	return sequences, nil
}
