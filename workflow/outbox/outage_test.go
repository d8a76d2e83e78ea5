package outbox_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

func TestWhenTheBrokerIsDownADrainTriesOnceForEachTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(context.Context, string) error { return errDown }}
		d := dispatcher(&rows, &bus)
		rows.alphabet()
		rows.addDeadline("A2", "B2")
		_, more := drained(t, d)
		require.True(t, more)
		require.Equal(t, 2, bus.tries)
		require.Equal(t, 2, rows.attempts(), "the others were not even claimed")
		for _, r := range rows.rows {
			require.False(t, r.leased(), r.ID)
			if r.Attempt > 0 {
				require.Equal(t, "the broker is down", r.lastError)
				require.Zero(t, r.Refusals)
			}
		}
		claims := rows.claims
		_, more = drained(t, d)
		require.True(t, more)
		require.Equal(t, 2, bus.tries, "it rests")
		require.Equal(t, claims, rows.claims, "and nothing is claimed meanwhile")
	})
}

func TestWhenABrokerGoesDownWhatIsUnderWayFailsTogetherAndTheRestIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(context.Context, string) error {
			time.Sleep(time.Second)
			return errDown
		}}
		d := known(t, &rows, &bus)
		log := logTo(d)
		d.Parallel = 4
		rows.alphabet()
		_, more := drained(t, d)
		require.True(t, more)
		require.Equal(t, 4, bus.tries)
		require.Equal(t, 4, rows.attempts())
		for _, r := range rows.rows {
			require.False(t, r.leased(), "%s is given back", r.ID)
		}
		require.Equal(t, []string{`"the broker does not take commands" error="the broker is down"`}, log.with(errorLine), "four failures are one")

		bus.refuse = nil
		time.Sleep(501 * time.Millisecond) // which is longer than a rest after the first failure
		sent, _ := drained(t, d)
		require.Equal(t, 22, sent, "they count as one for the rest, too")
	})
}

func TestTheRestsOfATopicGrowUpToHalfAMinuteAndEachEndsWithOneProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var tried []time.Time
		bus := broker{refuse: func(context.Context, string) error {
			tried = append(tried, time.Now())
			return errDown
		}}
		d := dispatcher(&rows, &bus)
		log := logTo(d)
		d.Jitter = func() float64 { return 1 - 1e-9 }
		rows.alphabet()
		for begun := time.Now(); time.Since(begun) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
			drained(t, d)
		}
		var rests []time.Duration
		for i := range tried[1:] {
			rests = append(rests, tried[i+1].Sub(tried[i]).Round(time.Second))
		}
		require.Equal(t, []time.Duration{1, 2, 4, 8, 16, 30, 30, 30}, seconds(rests)[:8])
		require.Len(t, log.with(errorLine), 1, "one line, however long it lasts")

		bus.refuse = nil
		time.Sleep(30 * time.Second)
		sent, more := drained(t, d)
		require.Equal(t, 26, sent, "the probe got through, and so everything follows at once")
		require.False(t, more)
		require.Equal(t, []string{fmt.Sprintf(`"the broker takes commands again" failures=%d`, len(tried))}, log.with(infoLine))
	})
}

func seconds(durations []time.Duration) (s []time.Duration) {
	for _, d := range durations {
		s = append(s, d/time.Second)
	}
	return s
}

func TestRestsAreSpreadOverAllOfTheirLengthButAreNeverNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, spread := range []struct {
			jitter float64
			rest   time.Duration
		}{{0, 100 * time.Millisecond}, {0.25, 250 * time.Millisecond}, {0.9, 900 * time.Millisecond}} {
			var rows table
			bus := broker{refuse: fails(errDown, "A1")}
			d := dispatcher(&rows, &bus)
			d.Jitter = func() float64 { return spread.jitter }
			rows.add("A1", "B1")
			drained(t, d)
			time.Sleep(spread.rest - time.Millisecond)
			drained(t, d)
			require.Empty(t, bus.of("B"))
			time.Sleep(2 * time.Millisecond)
			drained(t, d)
			require.Equal(t, []string{"B1"}, bus.of("B"))
		}
	})
}

func TestTheTroubleOfOneTopicDelaysNothingOfTheOther(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(context.Context, string) error{
		"it is down": func(context.Context, string) error { return errDown },
		"it hangs":   func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() },
	} {
		for _, sick := range []string{"commands", "deadlines"} {
			t.Run(sick+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var rows table
					bus := broker{refuse: func(ctx context.Context, id string) error {
						if (id[1] == '1') == (sick == "commands") {
							return trouble(ctx, id)
						}
						return nil
					}}
					d := known(t, &rows, &bus)
					d.Parallel, d.Batch = 3, 8
					begun := time.Now()
					for i := range 26 {
						rows.add(fmt.Sprintf("%c1", 'A'+i))
					}
					for i := range 26 {
						rows.addDeadline(fmt.Sprintf("%c2", 'A'+i))
					}
					sent, more := drained(t, d)
					require.Equal(t, 26, sent)
					require.True(t, more)
					for id, at := range bus.at {
						require.Equal(t, begun, at, id)
					}
					sent, _ = drained(t, d)
					require.Zero(t, sent)
					want := workflow.Want{Commands: sick != "commands", Deadlines: sick != "deadlines"}
					require.Equal(t, want, rows.wants[len(rows.wants)-1])
				})
			})
		}
	}
}

func TestATopicIsProbedAsSoonAsItHasRestedThoughTheOtherIsBusy(t *testing.T) {
	t.Parallel()
	for _, sick := range []string{"commands", "deadlines"} {
		synctest.Test(t, func(t *testing.T) {
			var rows table
			failures := 1
			bus := broker{refuse: func(ctx context.Context, id string) error {
				if (id[1] == '1') != (sick == "commands") {
					return taking(9*time.Second)(ctx, id)
				}
				if failures--; failures >= 0 {
					return errDown
				}
				return nil
			}}
			d := dispatcher(&rows, &bus)
			rows.add("A1", "B1")
			rows.addDeadline("A2", "B2")
			begun := time.Now()
			drained(t, d)
			for _, id := range bus.got {
				if (id[1] == '1') == (sick == "commands") {
					require.Equal(t, 500*time.Millisecond, bus.at[id].Sub(begun), id)
				}
			}
			require.Len(t, bus.got, 3, "all but the one that failed")
		})
	}
}

func TestWhatABrokerSaysOfWhatBeganBeforeTheTroubleIsNoProofThatItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(ctx context.Context, id string) error {
			if id == "A1" {
				return errDown
			}
			return taking(100*time.Millisecond)(ctx, id)
		}}
		d := known(t, &rows, &bus)
		rows.add("A1", "B1", "C1", "C2")
		sent, more := drained(t, d)
		require.Equal(t, 2, sent)
		require.True(t, more)
		require.Equal(t, "waiting after 0 attempts", rows.state("C2"))
	})
}

func TestNoOutageHoweverLongKillsARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(context.Context, string) error { return errDown }}
		d := dispatcher(&rows, &bus)
		rows.add("A1", "A2", "B1")
		rows.addDeadline("C1")
		for begun := time.Now(); time.Since(begun) < 24*time.Hour; time.Sleep(time.Minute) {
			drained(t, d)
		}
		require.Greater(t, rows.find("A1").Attempt, 100)
		require.LessOrEqual(t, bus.tries, 2*24*60)
		for _, m := range rows.find("A1").marks {
			require.LessOrEqual(t, m.RetryAfter, 30*time.Second, "it is there when the topic is")
			require.GreaterOrEqual(t, m.RetryAfter, 500*time.Millisecond)
			require.False(t, m.Refused)
		}
		bus.refuse = nil
		for range 4 {
			time.Sleep(10 * time.Second)
			drained(t, d)
		}
		require.ElementsMatch(t, []string{"A1", "A2", "B1", "C1"}, bus.got)
		require.Equal(t, []string{"A1", "A2"}, bus.of("A"))
	})
}

func TestARowAtWhichTheTopicAlwaysFailsDoesNotKeepTheOthersFromIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		tries := 0
		bus := broker{refuse: func(_ context.Context, id string) error {
			if id == "A1" {
				tries++
				return errDown
			}
			return nil
		}}
		d := dispatcher(&rows, &bus)
		rows.add("A1", "B1", "C1", "D1")
		for range 30 {
			drained(t, d)
			time.Sleep(time.Second)
		}
		require.Len(t, bus.got, 3)
		require.LessOrEqual(t, tries, 6, "at most one attempt for each of its delays")
	})
}

func TestWhoeverProbesADispatcherSendsOneLineHoweverManyRunsThereAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		bus := broker{refuse: func(context.Context, string) error {
			time.Sleep(time.Second)
			return errDown
		}}
		d := dispatcher(&rows, &bus)
		rows.alphabet()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { drained(t, d) })
		}
		wg.Wait()
		require.Equal(t, 1, bus.tries)
	})
}

func TestAProbeThatFindsNoRowKeepsNobodyFromProbingLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rows table
		var bus broker
		d := dispatcher(&rows, &bus)
		drained(t, d)
		drained(t, d)
		rows.before = only("claim", errDown)
		_, _, err := d.Drain(t.Context())
		require.Error(t, err)
		rows.before = nil
		ended, end := context.WithCancel(t.Context())
		rows.before = func(string) error { end(); return nil }
		rows.add("A1")
		_, more, err := d.Drain(ended)
		require.NoError(t, err)
		require.True(t, more)
		rows.before = nil
		bus.refuse = hanging("A1")
		d.Budget = time.Second
		drained(t, d)
		require.Equal(t, "waiting after 0 attempts", rows.state("A1"), "the run ended while it probed")
		bus.refuse, d.Budget = nil, 0
		sent, _ := drained(t, d)
		require.Equal(t, 1, sent)
	})
}
