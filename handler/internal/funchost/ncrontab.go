package funchost

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Schedule is an NCRONTAB expression. A day must match both day-of-month and
// day-of-week, unlike cron proper, where either will do. Times are UTC.
type Schedule struct {
	expression string
	second     uint64
	minute     uint64
	hour       uint64
	day        uint64
	month      uint64
	weekday    uint64
}

// cronField is the place of one field: its bounds and the names its values go by.
type cronField struct {
	name     string
	min, max int
	names    []string
}

// ParseSchedule reads six fields, seconds first, or the five of cron. Each is
// a list of *, a value, a range a-b, or one of these with a step (*/5, 2/15,
// 8-18/2). Months and weekdays (Sunday is 0) may be named. A duration, which
// the real host takes on some plans, is refused, as is a schedule that no date
// ever meets.
func ParseSchedule(expression string) (Schedule, error) {
	fields := strings.Fields(expression)
	if _, err := parseTimeSpan(expression); err == nil || len(fields) == 1 && strings.Contains(expression, ":") {
		return Schedule{}, fmt.Errorf("%q is a duration: it works on dedicated plans only, write an NCRONTAB expression", expression)
	}
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != 6 {
		return Schedule{}, fmt.Errorf("%q is not an NCRONTAB expression: it has %d fields, not 5 or 6", expression, len(fields))
	}
	s := Schedule{expression: expression}
	sets := []*uint64{&s.second, &s.minute, &s.hour, &s.day, &s.month, &s.weekday}
	for i, field := range []cronField{
		{"second", 0, 59, nil},
		{"minute", 0, 59, nil},
		{"hour", 0, 23, nil},
		{"day", 1, 31, nil},
		{"month", 1, 12, []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}},
		{"weekday", 0, 6, []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}},
	} {
		var err error
		if *sets[i], err = field.parse(fields[i]); err != nil {
			return Schedule{}, fmt.Errorf("%q: %s: %w", expression, field.name, err)
		}
	}
	if s.Next(time.Unix(0, 0)).IsZero() {
		return Schedule{}, fmt.Errorf("%q never comes", expression)
	}
	return s, nil
}

// parse gives the set of values as bits.
func (f cronField) parse(text string) (uint64, error) {
	var set uint64
	for item := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(item, "/")
		every := 1
		if stepped {
			n, err := strconv.Atoi(step)
			if err != nil || n < 1 {
				return 0, fmt.Errorf("%q is not a step of 1 or more", step)
			}
			every = n
		}
		first, last := f.min, f.max
		if span != "*" {
			from, to, ranged := strings.Cut(span, "-")
			var err error
			if first, err = f.value(from); err != nil {
				return 0, err
			}
			if ranged {
				if last, err = f.value(to); err != nil {
					return 0, err
				}
			} else if !stepped {
				last = first
			}
			if last < first {
				return 0, fmt.Errorf("the range %q runs backwards, which the host would turn round", span)
			}
		}
		for v := first; v <= last; v += every {
			set |= 1 << v
		}
	}
	return set, nil
}

func (f cronField) value(text string) (int, error) {
	for i, name := range f.names {
		if len(text) >= 3 && len(text) <= len(name) && strings.EqualFold(text, name[:len(text)]) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || text[0] == '+' || n < f.min || n > f.max {
		return 0, fmt.Errorf("%q is not a value from %d to %d", text, f.min, f.max)
	}
	return n, nil
}

// String is the expression as it was written.
func (s Schedule) String() string { return s.expression }

// Next is the first occurrence after t, in UTC, to the second. It is zero only
// for the zero Schedule: the search covers a whole cycle of the calendar.
func (s Schedule) Next(t time.Time) time.Time {
	t = t.UTC().Truncate(time.Second).Add(time.Second)
	hour, minute, second := t.Clock()
	day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
	const calendarCycle = 146097 // days in 400 years, a whole number of weeks
	for range calendarCycle + 1 {
		if has(s.month, int(day.Month())) && has(s.day, day.Day()) && has(s.weekday, int(day.Weekday())) {
			if clock, ok := s.clockFrom(hour, minute, second); ok {
				return day.Add(clock)
			}
		}
		hour, minute, second = 0, 0, 0
		day = day.AddDate(0, 0, 1)
	}
	return time.Time{}
}

// clockFrom is the first time of day that matches, not before the one given.
func (s Schedule) clockFrom(hour, minute, second int) (time.Duration, bool) {
	for h, ok := from(s.hour, hour); ok; h, ok = from(s.hour, h+1) {
		if h > hour {
			minute, second = 0, 0
		}
		for m, ok := from(s.minute, minute); ok; m, ok = from(s.minute, m+1) {
			if h > hour || m > minute {
				second = 0
			}
			if sec, ok := from(s.second, second); ok {
				return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute + time.Duration(sec)*time.Second, true
			}
		}
	}
	return 0, false
}

func has(set uint64, value int) bool { return set&(1<<value) != 0 }

// from is the smallest member of set that is not below value.
func from(set uint64, value int) (int, bool) {
	rest := set >> value << value
	return bits.TrailingZeros64(rest), rest != 0
}
