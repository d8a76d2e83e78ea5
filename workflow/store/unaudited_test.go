package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestAnAuditCostsNoStatementMore(t *testing.T) {
	t.Parallel()
	var ran [2][]string
	for n, audit := range []bool{false, true} {
		s, spy := watched(t, Options{Audit: audit})
		ran[n], _ = spy.during(func() {
			for _, m := range []workflow.Message{
				placed(t, "order-42"), reserved(t, "order-42"), said(t, "order-42", "early", workflow.ShipmentConfirmed, `,"shipmentId":"s"`),
				said(t, "order-42", "refused", workflow.InventoryReserved, `,"reservationId":"other"`),
				said(t, "order-42", "captured", workflow.PaymentCaptured, `,"paymentId":"p"`),
			} {
				_, err := s.Handle(t.Context(), m)
				require.NoError(t, err)
			}
		})
	}
	require.Equal(t, ran[0], ran[1])
}

func TestWhatTheAuditCosts(t *testing.T) {
	t.Parallel()
	s, spy := watched(t, Options{Audit: true})
	for n := range 150 {
		_, err := s.Handle(t.Context(), placed(t, fmt.Sprint("order-", n)))
		require.NoError(t, err)
	}
	var events []workflow.Event
	ran, _ := spy.during(func() {
		var err error
		events, err = s.Unaudited(t.Context(), 500)
		require.NoError(t, err)
	})
	require.Len(t, events, 150)
	require.Len(t, ran, 6, "a look at each of the six kinds")
	ran, _ = spy.during(func() { require.NoError(t, s.Audited(t.Context(), events)) })
	require.Equal(t, 2, strings.Count(strings.Join(ran, "\n"), "COMMIT"), "a hundred to a commit")
	require.Len(t, ran, 150+2*2)
}

func TestOnSQLServerTheAuditIsOneRoundTripToReadAndOneForAHundredToConfirm(t *testing.T) {
	t.Parallel()
	s, server, l := wire(t, Options{Audit: true})
	row := []any{"order-42", int64(1), int64(0), int64(1), someday, "m", "OrderPlaced", "c", "p", "o", "", int64(2), "Applied", "r", "f", "t", int64(1), "[]", "f", int64(1), nil}
	sets := []tdsRows{rowsOf(row), noRows(15), noRows(15), noRows(15), noRows(17), noRows(17)}
	l.otherwise("audit > 0", 1, tdsAnswer{sets: sets})
	var events []workflow.Event
	messages, _ := server.during(func() {
		var err error
		events, err = s.Unaudited(t.Context(), 500)
		require.NoError(t, err)
	})
	require.Equal(t, map[byte]int{tdsCall: 1}, messages)
	require.Equal(t, []workflow.Event{{
		OrderID: "order-42", Key: "message:1:0:1", At: someday, Kind: workflow.EventMessage, MessageID: "m", Type: "OrderPlaced",
		Conversation: "c", ParentID: "p", OriginID: "o", Outcome: workflow.Applied, Reason: "r", From: "f", To: "t", Version: 1, Revision: 1,
		Emitted: []string{}, Function: "f", Deliveries: 1, Size: 2,
	}}, events)
	many := make([]workflow.Event, 101)
	for i := range many {
		many[i] = events[0]
	}
	messages, requests := server.during(func() { require.NoError(t, s.Audited(t.Context(), many)) })
	require.Equal(t, map[byte]int{tdsCall: 2}, messages)
	require.Equal(t, 100, strings.Count(requests[0].text, "SET audit = -audit"))
}

// BenchmarkAudit is one step of an order with and without an audit, side by
// side, and what it takes to read and confirm its events.
func BenchmarkAudit(b *testing.B) {
	for _, audit := range []bool{false, true} {
		b.Run(fmt.Sprint("audit=", audit), func(b *testing.B) {
			s := opened(b, Options{Audit: audit})
			messages := make([]workflow.Message, 0, b.N)
			for n := range b.N {
				_, err := s.Handle(b.Context(), placed(b, fmt.Sprint("order-", n)))
				require.NoError(b, err)
				messages = append(messages, reserved(b, fmt.Sprint("order-", n)))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := range b.N {
				if _, err := s.Handle(b.Context(), messages[n]); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			begun, told := time.Now(), 0
			for {
				events, err := s.Unaudited(b.Context(), 500)
				require.NoError(b, err)
				if len(events) == 0 {
					break
				}
				require.NoError(b, s.Audited(b.Context(), events))
				told += len(events)
			}
			b.ReportMetric(float64(time.Since(begun).Microseconds())/float64(max(1, told)), "µs/event")
		})
	}
}
