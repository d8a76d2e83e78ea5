package funchost

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func everyTenSeconds(t *testing.T) TimerTrigger {
	t.Helper()
	schedule, err := ParseSchedule("*/10 * * * * *")
	require.NoError(t, err)
	return TimerTrigger{Binding: "timer", Schedule: schedule, UseMonitor: true}
}

// runsOf lets a timer run for a while and gives when each run began, in
// seconds from the start of the bubble, which is a full hour.
func runsOf(t *testing.T, trigger TimerTrigger, total time.Duration, invoke func(*timerStatus)) []float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), total)
	defer cancel()
	begin := time.Now()
	var runs []float64
	runTimer(ctx, trigger, time.Now, func(status *timerStatus) {
		runs = append(runs, time.Since(begin).Seconds())
		invoke(status)
	})
	return runs
}

func TestTimerRunsAtEachOccurrence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := runsOf(t, everyTenSeconds(t), 35*time.Second, func(status *timerStatus) {
			require.Nil(t, status, "a schedule of less than a minute is not monitored")
		})
		require.Equal(t, []float64{10, 20, 30}, runs)
	})
}

func TestTimerRunsNeverOverlapAndMissedTicksAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := runsOf(t, everyTenSeconds(t), 95*time.Second, func(*timerStatus) { <-time.After(25 * time.Second) })
		require.Equal(t, []float64{10, 40, 70}, runs)
	})
}

func TestTimerMayAlsoRunAtTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trigger := everyTenSeconds(t)
		trigger.RunOnStartup = true
		require.Equal(t, []float64{0, 10}, runsOf(t, trigger, 15*time.Second, func(*timerStatus) {}))
	})
}

func TestMonitoredTimerKnowsItsLastAndItsPresentRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		schedule, err := ParseSchedule("*/5 * * * *")
		require.NoError(t, err)
		begin := time.Now().UTC()
		var seen []timerStatus
		runsOf(t, TimerTrigger{Schedule: schedule, UseMonitor: true}, 11*time.Minute, func(status *timerStatus) {
			seen = append(seen, timerStatus{status.last.UTC(), status.next.UTC(), status.lastUpdated.UTC()})
			<-time.After(time.Second)
		})
		ended := begin.Add(5*time.Minute + time.Second)
		require.Equal(t, []timerStatus{
			{time.Time{}, begin.Add(5 * time.Minute), begin},
			{ended, begin.Add(10 * time.Minute), ended},
		}, seen)
		require.Nil(t, newTimerStatus(TimerTrigger{Schedule: schedule}, begin), "useMonitor is false")
	})
}

func TestTimerFunctionIsInvokedAndAFailureIsNotRepeatedBeforeTheNextTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bodies := make(chan map[string]any, 10)
		s := enact(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/sweep" {
				var body map[string]any
				_ = json.NewDecoder(r.Body).Decode(&body)
				bodies <- body
				w.WriteHeader(http.StatusInternalServerError)
			}
		}), func(h *Host) { h.App.Functions[2].Disabled = false })
		begin := time.Now()
		for n := range 2 {
			inv := s.next()
			require.ErrorContains(t, inv.Err, "500")
			require.Equal(t, "sweep", inv.Function)
			require.Equal(t, time.Duration(n+1)*5*time.Minute, time.Since(begin))
			body := <-bodies
			require.Contains(t, body["Data"].(map[string]any)["timer"], "ScheduleStatus")
			require.Len(t, body["Metadata"], 1)
		}
	})
}
