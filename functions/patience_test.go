package functions_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// outage fails as a database that is away does, until it is back.
func outage(until time.Time, tries *int) func() error {
	return func() error {
		*tries++
		if time.Now().Before(until) {
			return fmt.Errorf("the database is away: %w", workflow.ErrTransient)
		}
		return nil
	}
}

func TestAnOutageOfThirtySecondsCostsOneDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		away := outage(time.Now().Add(30*time.Second), &tries)
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			return decision(workflow.Applied), away()
		}}
		settled(t, 200, w.post(t, "/order-placed", invocation(placedBody, nil)))
		require.Less(t, tries, 40, "nothing hammers a database that is away")
	})
}

func TestAnOutageLongerThanTheInvocationIsLeftToTheNextDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		away := outage(began.Add(time.Hour), &tries)
		w := world{handle: func(context.Context, workflow.Message) (workflow.Decision, error) {
			return workflow.Decision{}, away()
		}}
		require.Equal(t, 500, w.post(t, "/order-placed", invocation(placedBody, nil)).Code)
		require.InDelta(t, 60, time.Since(began).Seconds(), 1, "it lasts as long as the invocation may")
	})
}

func TestARefusedMessageIsKeptOnceTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		away := outage(time.Now().Add(5*time.Second), &tries)
		w := world{reject: func(context.Context, workflow.Rejection) error { return away() }}
		settled(t, 200, w.post(t, "/order-placed", invocation("no JSON", nil)))
		require.Greater(t, tries, 1)
	})
}
