package funchost

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// timeSpan is [-][d.]hh:mm:ss[.fffffff], the form in which host.json writes
// durations. .NET reads a few shorter forms too; they mislead more than they
// help ("5" is five days) and are refused.
var timeSpan = regexp.MustCompile(`^(-)?(?:(\d{1,8})\.)?(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,7}))?$`)

func parseTimeSpan(text string) (time.Duration, error) {
	parts := timeSpan.FindStringSubmatch(text)
	if parts == nil {
		return 0, fmt.Errorf("%q is not a duration like 00:05:00", text)
	}
	number := func(digits string) int {
		n, _ := strconv.Atoi(digits) // digits only, or empty: zero
		return n
	}
	days, hours, minutes, seconds := number(parts[2]), number(parts[3]), number(parts[4]), number(parts[5])
	if days > 36500 {
		return 0, fmt.Errorf("%q is longer than a century", text)
	}
	if hours > 23 {
		return 0, fmt.Errorf("%q has more than 23 hours, which .NET reads as days: write 1.00:00:00 for a day", text)
	}
	if minutes > 59 || seconds > 59 {
		return 0, fmt.Errorf("%q has more than 59 minutes or seconds", text)
	}
	const tick = 100 * time.Nanosecond
	ticks := number((parts[6] + "0000000")[:7])
	total := time.Duration(((days*24+hours)*60+minutes)*60+seconds)*time.Second + time.Duration(ticks)*tick
	if parts[1] == "-" {
		total = -total
	}
	return total, nil
}

// formatTimeSpan writes d as .NET prints it in its messages, to the second.
func formatTimeSpan(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		text = fmt.Sprintf("%d.%s", days, text)
	}
	return text
}

// resolve replaces every %Setting% of text.
func resolve(text string, setting func(string) (string, bool)) (string, error) {
	pieces := strings.Split(text, "%")
	if len(pieces)%2 == 0 {
		return "", fmt.Errorf("%q has a %% without its partner", text)
	}
	var faults []error
	for i := 1; i < len(pieces); i += 2 {
		value, ok := setting(pieces[i])
		if !ok || value == "" {
			faults = append(faults, fmt.Errorf("%%%s%% is not set", pieces[i]))
		}
		pieces[i] = value
	}
	return strings.Join(pieces, ""), errors.Join(faults...)
}
