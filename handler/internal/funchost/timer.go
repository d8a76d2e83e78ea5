package funchost

import (
	"context"
	"time"
)

// runTimer calls invoke at each occurrence of the schedule, one run at a time.
// The next one is planned when a run has ended, so occurrences that went by
// meanwhile are dropped. The clock only tells the time; waiting is real.
func runTimer(ctx context.Context, t TimerTrigger, now func() time.Time, invoke func(*timerStatus)) {
	status := newTimerStatus(t, now())
	run := func() {
		invoke(status)
		if status != nil {
			status.last, status.lastUpdated = now(), now()
		}
	}
	if t.RunOnStartup && ctx.Err() == nil {
		run()
	}
	for {
		next := t.Schedule.Next(now())
		if status != nil {
			status.next = next
		}
		for now().Before(next) {
			timer := time.NewTimer(next.Sub(now()))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
		}
		if ctx.Err() != nil {
			return
		}
		run()
	}
}

// newTimerStatus is the monitor's first entry for a schedule. It is nil for
// one that is not monitored: by wish, or because it runs more often than once
// a minute.
func newTimerStatus(t TimerTrigger, now time.Time) *timerStatus {
	next := t.Schedule.Next(now)
	if !t.UseMonitor || t.Schedule.Next(next).Sub(next) < time.Minute {
		return nil
	}
	return &timerStatus{next: next, lastUpdated: now}
}
