package functions_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
	"orderflow/workflow"
)

// delivery is a sound message as it is delivered for the nth time.
func delivery(n int) string {
	return invocation(placedBody, map[string]any{"DeliveryCount": fmt.Sprint(n)})
}

// away fails as a database that is away does.
func away(context.Context, workflow.Message) (workflow.Decision, error) {
	return workflow.Decision{}, fmt.Errorf("the database is away: %w", workflow.ErrTransient)
}

func TestAMessageThatStillFailsOnALateDeliveryIsTriedAndThenHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := world{handle: away}
		w.hold = func(ctx context.Context, _ workflow.Message, why string) (workflow.Decision, error) {
			require.Equal(t, 45*time.Second, time.Since(began).Truncate(3*time.Second), "it was tried first")
			deadline, _ := ctx.Deadline()
			require.Greater(t, time.Until(deadline), 10*time.Second, "and there is time left to keep it")
			d := decision(workflow.Blocked)
			d.Reason = why
			return d, nil
		}
		settled(t, 200, w.post(t, "/order-placed", delivery(8)))
		require.Greater(t, len(w.messages), 10)

		got := w.onlyHold(t)
		require.Equal(t, w.messages[0], got.Message)
		require.Equal(t, "the database is away: not possible at the moment", got.why)
		require.Equal(t, 8, got.Delivery.Count)
		require.NotEmpty(t, got.Fingerprint)
		line := w.logged(t)
		require.Equal(t, "ERROR", line["level"])
		require.Equal(t, "Blocked", line["outcome"])
		require.Equal(t, got.why, line["reason"])
		require.Equal(t, "handle the message: "+got.why, line["error"])
		require.NotContains(t, line, "trouble")
	})
}

func TestAnEarlierDeliveryThatFailsIsLeftToTheNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ delivery, holdFrom int }{{7, 0}, {2, 3}, {0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			w := world{handle: away}
			a := w.app()
			a.HoldFrom = c.holdFrom
			began := time.Now()
			settled(t, 500, send(a.Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(c.delivery)))))
			require.InDelta(t, 60, time.Since(began).Seconds(), 1)
			require.Empty(t, w.holds)
		})
	}
}

func TestFromWhichDeliveryOnAMessageIsHeldCanBeSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{handle: away}
		a := w.app()
		a.HoldFrom = 3
		settled(t, 200, send(a.Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(3)))))
		w.onlyHold(t)
	})
}

func TestALateDeliveryThatCanBeHandledIsNotHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		until := outage(time.Now().Add(30*time.Second), &tries)
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			return decision(workflow.Applied), until()
		}}
		settled(t, 200, w.post(t, "/order-placed", delivery(10)))
		require.Empty(t, w.holds)
		require.Equal(t, "INFO", w.logged(t)["level"])
	})
}

func TestALateDeliveryOnWhichNothingWasDecidedIsHeld(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
		return decision(workflow.Failed), nil
	}}
	settled(t, 200, w.post(t, "/order-placed", delivery(9)))
	require.Equal(t, `nothing was decided: the outcome is "Failed"`, w.onlyHold(t).why)
}

func TestATryThatHangsOnALateDeliveryLeavesTimeToHoldTheMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := world{handle: func(ctx context.Context, _ workflow.Message) (workflow.Decision, error) {
			<-ctx.Done()
			return workflow.Decision{}, ctx.Err()
		}}
		settled(t, 200, w.post(t, "/order-placed", delivery(8)))
		require.Equal(t, "context deadline exceeded", w.onlyHold(t).why)
	})
}

func TestAMessageThatCanNeitherBeHandledNorHeldIsLeftToTheBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := world{handle: away}
		w.hold = func(context.Context, workflow.Message, string) (workflow.Decision, error) {
			return workflow.Decision{}, fmt.Errorf("still away: %w", workflow.ErrTransient)
		}
		settled(t, 500, w.post(t, "/order-placed", delivery(10)))
		require.InDelta(t, 60, time.Since(began).Seconds(), 1, "both are tried as long as the invocation may last")
		require.Greater(t, len(w.holds), 3)
		line := w.logged(t)
		require.Equal(t, "Failed", line["outcome"])
		require.Contains(t, line["error"], "the database is away")
		require.Contains(t, line["error"], "still away")
	})
}

func TestAMessageThatProvesToBeHandledWhenItIsToBeHeldIsADuplicate(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
		return workflow.Decision{}, errors.New("the reply was lost")
	}}
	w.hold = func(context.Context, workflow.Message, string) (workflow.Decision, error) {
		return decision(workflow.Duplicate), nil
	}
	settled(t, 200, w.post(t, "/order-placed", delivery(1)))
	require.Equal(t, "Duplicate", w.logged(t)["outcome"])
}

func TestWhatWaitingDoesNotMendIsHeldAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			tries++
			return workflow.Decision{}, errors.New("the state cannot be read")
		}}
		settled(t, 200, w.post(t, "/order-placed", delivery(1)))
		require.Equal(t, 1, tries)
		require.Zero(t, time.Since(began))
		require.Equal(t, "the state cannot be read", w.onlyHold(t).why)
		require.Equal(t, "ERROR", w.logged(t)["level"])
	})
}

func TestAMessageThatMakesTheProgramPanicIsHeldAtOnceWithItsStackInTheLog(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { panic("a fault") }}
	settled(t, 200, w.post(t, "/order-placed", delivery(1)))
	require.Equal(t, "panic: a fault", w.onlyHold(t).why)
	line := w.logged(t)
	require.Equal(t, "ERROR", line["level"])
	require.Equal(t, "Blocked", line["outcome"])
	require.Equal(t, "handle the message: panic: a fault", line["error"])
	require.Contains(t, line["trouble"], "hold_test.go")
}

func TestAPanicWhileAMessageIsHeldLeavesItToTheBroker(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) { panic("a fault") }}
	w.hold = func(context.Context, workflow.Message, string) (workflow.Decision, error) { panic("another") }
	settled(t, 500, w.post(t, "/order-placed", delivery(1)))
	require.Len(t, w.holds, 1)
	require.Equal(t, "handle the message: panic: a fault; and keep it: panic: another", w.logged(t)["error"])
}

// blind reads no message without a panic.
func (w *world) blind() http.Handler {
	return functions.Reading(w.app(), func(workflow.Envelope) (workflow.Message, error) { panic("a fault") }).Handler()
}

func TestAMessageThatCannotBeReadWithoutAPanicIsHeldWhenItIsKnownWhoseItIs(t *testing.T) {
	t.Parallel()
	var w world
	settled(t, 200, send(w.blind(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(1)))))
	got := w.onlyHold(t)
	require.Empty(t, w.messages)
	require.Equal(t, origin, got.ID)
	require.Equal(t, "order-42", got.OrderID)
	require.Equal(t, workflow.OrderPlaced, got.Type)
	require.Equal(t, "order-placed", got.Delivery.Function)
	sameBytes(t, placedBody, got.Body)
	require.Equal(t, "panic: a fault", got.why)
	require.Contains(t, w.logged(t)["trouble"], "hold_test.go")
}

func TestAMessageThatCannotBeReadWithoutAPanicIsRejectedWhenItMightTakeAnothersPlace(t *testing.T) {
	t.Parallel()
	for reason, metadata := range map[string]map[string]any{
		"its MessageId is missing":              {"MessageId": nil},
		"its SessionId is missing":              {"SessionId": nil},
		"its SessionId holds '/'":               {"SessionId": quoted("order/42")},
		"the order gives to its own messages":   {"MessageId": quoted("order-42:payment-timeout:1")},
		"comes through the operator's door onl": {"Subject": quoted("Retry")},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			var w world
			settled(t, 200, send(w.blind(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, metadata)))))
			got := w.onlyRejection(t)
			require.Contains(t, got.Reason, "it could not be read (panic: a fault)")
			require.Contains(t, got.Reason, reason)
			line := w.logged(t)
			require.Equal(t, "Rejected", line["outcome"])
			require.Equal(t, "ERROR", line["level"], "the program is at fault")
			require.Contains(t, line["trouble"], "hold_test.go")
		})
	}
}

func TestAMessageThatCannotEvenBeRejectedAfterAPanicIsLeftToTheBroker(t *testing.T) {
	t.Parallel()
	w := world{reject: func(context.Context, workflow.Rejection) error { return errors.New("the database is away") }}
	settled(t, 500, send(w.blind(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(invocation(placedBody, map[string]any{"MessageId": nil})))))
	require.Contains(t, w.logged(t)["error"], "the database is away")
}

func TestAMessageThatTheProcessBlockedIsSettledAndAnError(t *testing.T) {
	t.Parallel()
	w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
		d := decision(workflow.Blocked)
		d.Reason, d.Trouble = "panic: no luck", "the order is blocked by it"
		return d, nil
	}}
	settled(t, 200, w.post(t, "/order-placed", delivery(1)))
	require.Empty(t, w.holds)
	line := w.logged(t)
	require.Equal(t, "ERROR", line["level"])
	require.Equal(t, "panic: no luck", line["reason"])
	require.Equal(t, "the order is blocked by it", line["trouble"])
}

func TestOnceTheProcessIsToStopAnInvocationEndsAndHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		life, end := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { end(errors.New("the process is stopping")) })
		w := world{handle: away}
		a := w.app()
		a.Context = life
		settled(t, 500, send(a.Handler(), newRequest(t, http.MethodPost, "/order-placed", strings.NewReader(delivery(10)))))
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Empty(t, w.holds, "its end is no fault of the message")
	})
}
