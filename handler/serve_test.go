package main

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
	"orderflow/workflow/store"
)

func TestEveryPayloadOfTheHostIsAnsweredAndItsRowsAreWritten(t *testing.T) {
	t.Parallel()
	type rows struct{ orders, journal, outbox, rejected int }
	placed := rows{orders: 1, journal: 1, outbox: 2}
	held := rows{orders: 1, journal: 1}
	rejected := rows{rejected: 1}
	for _, c := range []struct {
		payload, function string
		log               string // what the answer's log line says
		rows              rows
	}{
		{"order-placed.binary.json", "order-placed", "Applied", placed},
		{"order-placed.string.json", "order-placed", "Applied", placed},
		{"order-placed.binary.body-with-metadata-names.json", "order-placed", "Applied", placed},
		{"order-placed.body-is-json-string.json", "order-placed", "Applied", placed},
		{"order-placed.no-correlation.json", "order-placed", "Applied", placed},
		{"order-placed.numbers-quoted-twice.json", "order-placed", "Applied", placed},
		{"inventory-reserved.binary.json", "inventory-reserved", "Held", held},
		{"payment-captured.binary.json", "payment-result", "Held", held},
		{"poison.empty.json", "order-placed", "Rejected", rejected},
		{"poison.not-json.json", "order-placed", "Rejected", rejected},
		{"poison.wrong-types.json", "order-placed", "Rejected", rejected},
		{"timer.json", "outbox-dispatch", "", rows{}},
		{"timer.no-schedule-status.json", "outbox-dispatch", "", rows{}},
		{"timer.json", "sweep", "sweep: sent 0", rows{}},
	} {
		t.Run(c.function+" "+c.payload, func(t *testing.T) {
			t.Parallel()
			database := filepath.Join(t.TempDir(), "orders.db")
			s := startServed(t, database, nil)
			response, body, err := s.post(c.function, payload(t, c.payload))
			require.NoError(t, err)
			requireSettled(t, response, body, c.log)

			written := rows{
				count(t, database, "orders"), count(t, database, "journal"), count(t, database, "outbox"), count(t, database, "rejected"),
			}
			require.Equal(t, c.rows, written)
			require.Empty(t, s.stderr.String(), "stderr is for what ends the program")
		})
	}
	files, err := os.ReadDir("../functions/testdata")
	require.NoError(t, err)
	require.Len(t, files, 13, "every payload is in the table above")
}

// requireSettled asserts what the host needs to complete a message.
func requireSettled(t *testing.T, response *http.Response, body, log string) {
	t.Helper()
	require.Equal(t, http.StatusOK, response.StatusCode, body)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"))
	require.Empty(t, response.Header.Get("Content-Encoding"))
	var answer struct {
		Outputs     map[string]any
		Logs        []string
		ReturnValue any
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.NotNil(t, answer.Outputs)
	require.Empty(t, answer.Outputs)
	require.Nil(t, answer.ReturnValue)
	require.Contains(t, strings.Join(answer.Logs, "\n"), log)
}

// count counts the rows of a table from outside, as a person would.
func count(t *testing.T, database, table string) int {
	t.Helper()
	db, err := sql.Open("sqlite", database)
	require.NoError(t, err)
	defer db.Close()
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

func TestTwentyCopiesInTwoProcessesAreOneTransition(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "orders.db")
	processes := []*served{startServed(t, database, nil), startServed(t, database, nil)}
	body := payload(t, "order-placed.binary.json")

	var wg sync.WaitGroup
	answers := make(chan string, 20)
	for i := range 20 {
		wg.Go(func() {
			response, text, err := processes[i%2].post("order-placed", body)
			if err == nil && response.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", response.StatusCode)
			}
			if err != nil {
				text = "failed: " + err.Error()
			}
			answers <- text
		})
	}
	wg.Wait()
	close(answers)
	applied, duplicates := 0, 0
	for text := range answers {
		switch {
		case strings.Contains(text, "Duplicate"): // "it was handled before: Applied"
			duplicates++
		case strings.Contains(text, "Applied"):
			applied++
		}
	}
	require.Equal(t, 1, applied)
	require.Equal(t, 19, duplicates)
	require.Equal(t, 1, count(t, database, "journal"))
	require.Equal(t, 2, count(t, database, "outbox"))
}

func TestWithTheDatabaseAwayTheHandlerIsReadyAndMessagesStayWithTheBroker(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "orders.db")
	lock, err := sql.Open("sqlite", database+"-lock") // what a starting process holds
	require.NoError(t, err)
	lock.SetMaxOpenConns(1)
	_, err = lock.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)

	s := startServed(t, database, map[string]string{"HandlerDeadline": "1s"})
	before := time.Now()
	response, body, err := s.post("order-placed", payload(t, "order-placed.binary.json"))
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, response.StatusCode)
	require.Less(t, time.Since(before), 10*time.Second)
	var object map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &object), "a failure is a JSON object too: %s", body)
	require.Eventually(t, func() bool { return strings.Contains(s.stdout.String(), "order-42") },
		5*time.Second, 5*time.Millisecond, "the cause is in the log")

	_, err = lock.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.NoError(t, lock.Close())
	require.Eventually(t, func() bool {
		response, _, err := s.post("order-placed", payload(t, "order-placed.binary.json"))
		return err == nil && response.StatusCode == http.StatusOK
	}, 20*time.Second, 50*time.Millisecond, "it recovers by itself")
}

// message is the body that the host posts for a message in binary mode.
func message(id string, typ workflow.MessageType, orderID string, body map[string]any) []byte {
	body["orderId"] = orderID
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	quote := func(s string) string { return fmt.Sprintf("%q", s) }
	request, err := json.Marshal(map[string]any{
		"Data": map[string]any{"message": base64.StdEncoding.EncodeToString(data)},
		"Metadata": map[string]any{
			"MessageId": quote(id), "SessionId": quote(orderID), "Subject": quote(string(typ)),
			"CorrelationId": quote("conv-7"), "DeliveryCount": "1",
			"ApplicationProperties": map[string]any{"SchemaVersion": "1", "OriginatingMessageId": "self"},
		},
	})
	if err != nil {
		panic(err)
	}
	return request
}

// flow is an order that is backed out: every step sends or arms something.
func flow(orderID string) []step {
	return []step{
		{"order-placed", message("m1", workflow.OrderPlaced, orderID, map[string]any{
			"customerId": "c-7", "currency": "EUR", "amount": 12990, "lines": []map[string]any{{"sku": "A/1", "quantity": 2}},
		})},
		{"inventory-reserved", message("m2", workflow.InventoryReserved, orderID, map[string]any{"reservationId": "reservation-9001"})},
		{"payment-result", message("m3", workflow.PaymentCaptured, orderID, map[string]any{"paymentId": "payment-77"})},
		{"shipment-result", message("m4", workflow.ShipmentFailed, orderID, map[string]any{"reason": "too heavy"})},
		{"compensation-result", message("m5", workflow.PaymentRefunded, orderID, map[string]any{"paymentId": "payment-77", "refundId": "refund-1"})},
		{"compensation-result", message("m6", workflow.InventoryReleased, orderID, map[string]any{"reservationId": "reservation-9001"})},
	}
}

type step struct {
	function string
	body     []byte
}

func TestAKillAtEveryStepChangesNeitherTheEndingNorTheEmittedIDs(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "orders.db")
	s := startServed(t, database, nil)
	for i, step := range flow("order-42") {
		// The process is killed while it works on the message, a little later
		// each time, and the broker delivers again.
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _, _ = s.post(step.function, step.body) // most often cut off
		}()
		select {
		case <-answered:
		case <-time.After(time.Duration(i) * time.Millisecond):
		}
		s.kill()
		<-answered
		s = startServed(t, database, nil)
		response, body, err := s.post(step.function, step.body)
		require.NoError(t, err)
		requireSettled(t, response, body, "")
	}
	s.kill()

	db, err := store.Open(t.Context(), database, store.Options{Now: time.Now})
	require.NoError(t, err)
	defer db.Close()
	story, err := db.Story(t.Context(), "order-42")
	require.NoError(t, err)
	require.Equal(t, workflow.Cancelled, story.Order.Status)
	require.EqualValues(t, 6, story.Order.Version)
	var emitted []string
	for _, d := range story.Outbox {
		emitted = append(emitted, strings.TrimPrefix(d.ID, "order-42:"))
	}
	require.Equal(t, []string{
		"reserve-inventory:1", "inventory-timeout:1", "capture-payment:1", "payment-timeout:1",
		"ship-order:1", "shipment-timeout:1", "refund-payment:1", "compensation-timeout:1",
		"release-inventory:1", "compensation-timeout:2", "cancel-order:1",
	}, emitted)
	for _, e := range story.Journal {
		require.Equal(t, workflow.Applied, e.Outcome)
	}
}

func TestOnlyTheDatabaseCopiedToANewMachineLetsOrdersGoOn(t *testing.T) {
	t.Parallel()
	old, moved := filepath.Join(t.TempDir(), "orders.db"), filepath.Join(t.TempDir(), "moved.db")
	steps := flow("order-42")
	s := startServed(t, old, nil)
	for _, step := range steps[:3] {
		response, body, err := s.post(step.function, step.body)
		require.NoError(t, err)
		requireSettled(t, response, body, "Applied")
	}
	s.kill()
	for _, part := range []string{"", "-wal"} {
		if b, err := os.ReadFile(old + part); err == nil {
			require.NoError(t, os.WriteFile(moved+part, b, 0o600))
		}
	}
	s = startServed(t, moved, nil)
	for _, step := range steps[3:] {
		response, body, err := s.post(step.function, step.body)
		require.NoError(t, err)
		requireSettled(t, response, body, "Applied")
	}
	require.Equal(t, 11, count(t, moved, "outbox"))
}

func TestAskedToStopTheHandlerFinishesAndGivesNoZero(t *testing.T) {
	t.Parallel()
	s := startServed(t, filepath.Join(t.TempDir(), "orders.db"), nil)
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitFailed, s.exitCode(t, 5*time.Second))
}

func TestTheHostsDeadlineIsLongerThanTheHandlersOwn(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../host.json")
	require.NoError(t, err)
	var host struct {
		FunctionTimeout string `json:"functionTimeout"`
	}
	require.NoError(t, json.Unmarshal(b, &host))
	var hours, minutes, seconds int
	_, err = fmt.Sscanf(host.FunctionTimeout, "%d:%d:%d", &hours, &minutes, &seconds)
	require.NoError(t, err)
	timeout := time.Duration(hours*3600+minutes*60+seconds) * time.Second
	s, err := readSettings(map[string]string{})
	require.NoError(t, err)
	require.Greater(t, timeout, s.HandlerDeadline)
	for _, d := range s.durations() {
		if d.name == "HandlerDeadline" {
			require.Greater(t, timeout, d.most)
		}
	}
}
