package funchost

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScheduleComesWhenNCRONTABSays(t *testing.T) {
	t.Parallel()
	// 2026-07-19 is a Sunday.
	for _, c := range []struct {
		schedule string
		after    string
		next     []string
	}{
		{"*/10 * * * * *", "2026-07-19T09:59:59Z", []string{"2026-07-19T10:00:00Z", "2026-07-19T10:00:10Z"}},
		{"*/10 * * * * *", "2026-07-19T10:00:00Z", []string{"2026-07-19T10:00:10Z"}},
		{"*/10 * * * * *", "2026-07-19T10:00:00.5Z", []string{"2026-07-19T10:00:10Z"}},
		{"*/5 * * * *", "2026-07-19T10:03:20Z", []string{"2026-07-19T10:05:00Z", "2026-07-19T10:10:00Z"}},
		{"0 */5 * * * *", "2026-07-19T23:57:00Z", []string{"2026-07-20T00:00:00Z"}},
		{"* * * * * *", "2026-12-31T23:59:59Z", []string{"2027-01-01T00:00:00Z", "2027-01-01T00:00:01Z"}},
		{"30 15 8-10/2 * * *", "2026-07-19T08:15:30Z", []string{"2026-07-19T10:15:30Z", "2026-07-20T08:15:30Z"}},
		{"0 0,30 9,17 * * *", "2026-07-19T09:10:00Z", []string{"2026-07-19T09:30:00Z", "2026-07-19T17:00:00Z", "2026-07-19T17:30:00Z", "2026-07-20T09:00:00Z"}},
		{"0 50/4 * * * *", "2026-07-19T10:50:00Z", []string{"2026-07-19T10:54:00Z", "2026-07-19T10:58:00Z", "2026-07-19T11:50:00Z"}},
		{"0 0 0 1 * *", "2026-01-31T12:00:00Z", []string{"2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"}},
		{"0 0 0 31 * *", "2026-01-31T12:00:00Z", []string{"2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"}},
		{"0 0 0 29 2 *", "2026-01-01T00:00:00Z", []string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"}},
		{"0 0 0 29 2 *", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00:00Z"}},
		{"0 30 9 * JAN,aug MON-Fri", "2026-07-19T00:00:00Z", []string{"2026-08-03T09:30:00Z", "2026-08-04T09:30:00Z"}},
		{"0 0 12 * December Sunday", "2026-07-19T00:00:00Z", []string{"2026-12-06T12:00:00Z"}},
		{"0 0 6 * * 0,6", "2026-07-19T07:00:00Z", []string{"2026-07-25T06:00:00Z", "2026-07-26T06:00:00Z"}},
		// Both the day and the weekday must match, where cron takes either.
		{"0 0 0 13 * FRI", "2026-07-19T00:00:00Z", []string{"2026-11-13T00:00:00Z", "2027-08-13T00:00:00Z"}},
		{"0 0 0 29 2 MON", "2026-07-19T00:00:00Z", []string{"2044-02-29T00:00:00Z", "2072-02-29T00:00:00Z"}},
		{"\t0  0 0 1-7 * 1 ", "2026-07-19T00:00:00Z", []string{"2026-08-03T00:00:00Z"}},
		// UTC, wherever the clock is.
		{"0 0 0 * * *", "2026-07-19T01:30:00+02:00", []string{"2026-07-19T00:00:00Z"}},
	} {
		s, err := ParseSchedule(c.schedule)
		require.NoError(t, err, c.schedule)
		at, err := time.Parse(time.RFC3339, c.after)
		require.NoError(t, err)
		for _, want := range c.next {
			at = s.Next(at)
			require.Equal(t, want, at.Format(time.RFC3339), "%s after %s", c.schedule, c.after)
		}
	}
}

func TestScheduleThatNCRONTABDoesNotKnowIsRefused(t *testing.T) {
	t.Parallel()
	for schedule, reason := range map[string]string{
		"":                   "0 fields",
		"* * * *":            "4 fields",
		"* * * * * * *":      "7 fields",
		"@daily":             "1 fields",
		"00:05:00":           "is a duration",
		"1.00:00:00":         "is a duration",
		"0:5":                "is a duration",
		"60 * * * * *":       `second: "60" is not a value from 0 to 59`,
		"* 60 * * * *":       "minute",
		"* * 24 * * *":       "hour",
		"* * * 0 * *":        "day",
		"* * * 32 * *":       "day",
		"* * * * 13 *":       "month",
		"* * * * * 7":        `weekday: "7" is not a value from 0 to 6`,
		"* * * ? * *":        "day",
		"* * * L * *":        "day",
		"* * * * * 1#2":      "weekday",
		"* * * * MO *":       "month",
		"* * * * Januaryy *": "month",
		"*/0 * * * * *":      "step",
		"*/ * * * * *":       "step",
		"*/x * * * * *":      "step",
		"+5 * * * * *":       "second",
		"-5 * * * * *":       "second",
		"1,,2 * * * * *":     "second",
		", * * * * *":        "second",
		"1- * * * * *":       "second",
		"50-10 * * * * *":    "runs backwards",
		"* * * * * FRI-MON":  "runs backwards",
		"0 0 0 30 2 *":       "never comes",
		"0 0 0 31 4,6 *":     "never comes",
	} {
		_, err := ParseSchedule(schedule)
		require.ErrorContains(t, err, reason, schedule)
	}
}
