package functions

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"orderflow/workflow"
)

// How long is waited before something is tried again.
const (
	firstWait = 50 * time.Millisecond
	mostWait  = 2 * time.Second
)

// patiently tries again what cannot work at the moment, until it does or the
// invocation's deadline comes: the host delivers a failed message again at
// once, and its ten deliveries would be gone within a second. Waits grow and
// are spread, so that invocations which failed together do not come back
// together.
func patiently(ctx context.Context, try func(context.Context) error) error {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		err := try(ctx)
		if err == nil || !errors.Is(err, workflow.ErrTransient) {
			return err
		}
		timer := time.NewTimer(wait/2 + rand.N(wait/2)) //nolint:gosec // no secret hangs on it
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}
