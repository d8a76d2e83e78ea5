package project

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Topic is a topic of Service Bus as it is to be made.
type Topic struct {
	// Setting is the app setting that holds its name.
	Setting string `json:"setting"`
	Name    string `json:"name"`
	// DuplicateDetection is how long it remembers the IDs of messages.
	DuplicateDetection Span           `json:"duplicateDetection"`
	Subscriptions      []Subscription `json:"subscriptions"`
}

// Subscription is one of a topic's. It takes the messages of some Subjects, by
// one correlation rule for each and no other rule.
type Subscription struct {
	Name             string   `json:"name"`
	RequiresSession  bool     `json:"requiresSession"`
	MaxDeliveryCount int      `json:"maxDeliveryCount"`
	LockDuration     Span     `json:"lockDuration"`
	Subjects         []string `json:"subjects"`
}

// Span is a length of time that JSON has in the form of ISO 8601, like PT10M.
type Span time.Duration

func (s Span) String() string {
	d, text := time.Duration(s), "PT"
	for _, unit := range spanUnits() {
		if n := d / unit.length; n > 0 || unit.name == "S" && text == "PT" {
			text += strconv.Itoa(int(n)) + unit.name
			d %= unit.length
		}
	}
	return text
}

type spanUnit struct {
	name   string
	length time.Duration
}

func spanUnits() []spanUnit {
	return []spanUnit{{"H", time.Hour}, {"M", time.Minute}, {"S", time.Second}}
}

// MarshalText implements encoding.TextMarshaler.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(text []byte) error {
	parts := regexp.MustCompile(`^P(?:(\d{1,4})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,4})M)?(?:(\d{1,5})S)?)?$`).FindSubmatch(text)
	if parts == nil || bytes.HasSuffix(text, []byte("P")) || bytes.HasSuffix(text, []byte("T")) {
		return fmt.Errorf("%q is not a length of time such as PT10M", text)
	}
	number := func(digits []byte) int {
		n, _ := strconv.Atoi(string(digits)) // digits only, or empty: zero
		return n
	}
	d := time.Duration(number(parts[1])) * 24 * time.Hour
	for i, unit := range spanUnits() {
		d += time.Duration(number(parts[i+2])) * unit.length
	}
	*s = Span(d)
	return nil
}

// emulatorRemembers is how long a topic of the Service Bus emulator remembers at
// most.
const emulatorRemembers = Span(5 * time.Minute)

// topicList is the infrastructure's file of topics.
type topicList struct {
	Topics []Topic `json:"topics"`
}

// The emulator's file, as its schema has it
// (Azure/azure-service-bus-emulator-installer).
type (
	emulatorConfig struct {
		UserConfig struct {
			Namespaces []emulatorNamespace
			Logging    struct{ Type string }
		}
	}
	emulatorNamespace struct {
		Name   string
		Queues []struct{} // this project has none
		Topics []emulatorTopic
	}
	emulatorTopic struct {
		Name       string
		Properties struct {
			DefaultMessageTimeToLive, DuplicateDetectionHistoryTimeWindow Span
			RequiresDuplicateDetection                                    bool
		}
		Subscriptions []emulatorSubscription
	}
	emulatorSubscription struct {
		Name       string
		Properties struct {
			DeadLetteringOnMessageExpiration       bool
			DefaultMessageTimeToLive, LockDuration Span
			MaxDeliveryCount                       int
			RequiresSession                        bool
		}
		Rules []emulatorRule
	}
	emulatorRule struct {
		Name       string
		Properties struct {
			FilterType        string
			CorrelationFilter struct{ Label string }
		}
	}
)

// Made are the files that are made from what the program says, by path.
func (f Facts) Made() (map[string][]byte, error) {
	made := make(map[string][]byte)
	for file, value := range map[string]any{
		topicsFile:   topicList{[]Topic{f.Orders, f.Commands}},
		emulatorFile: emulated(f.Orders, f.Commands),
	} {
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		made[file] = append(data, '\n')
	}
	made[settingsFile] = f.deployedSettings()
	return made, nil
}

// emulated is topics as the emulator can have them.
func emulated(topics ...Topic) emulatorConfig {
	space := emulatorNamespace{Name: "sbemulatorns", Queues: []struct{}{}}
	for _, t := range topics {
		e := emulatorTopic{Name: t.Name}
		e.Properties.DefaultMessageTimeToLive = Span(time.Hour) // its longest
		e.Properties.DuplicateDetectionHistoryTimeWindow = min(t.DuplicateDetection, emulatorRemembers)
		e.Properties.RequiresDuplicateDetection = true
		for _, s := range t.Subscriptions {
			es := emulatorSubscription{Name: s.Name}
			es.Properties.DeadLetteringOnMessageExpiration = true
			es.Properties.DefaultMessageTimeToLive = e.Properties.DefaultMessageTimeToLive
			es.Properties.LockDuration, es.Properties.MaxDeliveryCount = s.LockDuration, s.MaxDeliveryCount
			es.Properties.RequiresSession = s.RequiresSession
			for _, subject := range s.Subjects {
				r := emulatorRule{Name: subject}
				r.Properties.FilterType, r.Properties.CorrelationFilter.Label = "Correlation", subject
				es.Rules = append(es.Rules, r)
			}
			e.Subscriptions = append(e.Subscriptions, es)
		}
		space.Topics = append(space.Topics, e)
	}
	var config emulatorConfig
	config.UserConfig.Namespaces = []emulatorNamespace{space}
	config.UserConfig.Logging.Type = "Console"
	return config
}

// makeAgain is what to do when a file that is made is not what it should be.
const makeAgain = "run `go test ./handler -run MadeFromTheTables -update`, or change the table in Go"

// topics compares the topics of the infrastructure and of the emulator with the
// program's.
func (c *check) topics() {
	want := []Topic{c.Orders, c.Commands}
	if data, ok := c.read(topicsFile, makeAgain); ok {
		var file topicList
		if err := json.Unmarshal(data, &file); err != nil {
			c.find(topicsFile, makeAgain, "cannot be understood: %v", err)
		} else {
			c.compare(topicsFile, makeAgain, file.Topics, want)
			c.surplus(topicsFile, file.Topics, want)
		}
	}
	if data, ok := c.read(emulatorFile, makeAgain); ok {
		c.emulator(data, want)
	}
}

// emulator compares what the emulator's file holds beside what the other one
// does too, and that.
func (c *check) emulator(data []byte, want []Topic) {
	var config emulatorConfig
	if err := json.Unmarshal(data, &config); err != nil {
		c.find(emulatorFile, makeAgain, "cannot be understood: %v", err)
		return
	}
	spaces := config.UserConfig.Namespaces
	if len(spaces) != 1 || spaces[0].Name != "sbemulatorns" {
		c.find(emulatorFile, makeAgain, "must have one namespace, sbemulatorns: the emulator takes no other")
		return
	}
	var got []Topic
	for _, t := range spaces[0].Topics {
		if !t.Properties.RequiresDuplicateDetection {
			c.find(emulatorFile+": "+t.Name, makeAgain, "RequiresDuplicateDetection must be true")
		}
		topic := Topic{Name: t.Name, DuplicateDetection: t.Properties.DuplicateDetectionHistoryTimeWindow}
		for _, s := range t.Subscriptions {
			if !s.Properties.DeadLetteringOnMessageExpiration {
				c.find(emulatorFile+": "+t.Name+"/"+s.Name, makeAgain, "DeadLetteringOnMessageExpiration must be true, or a message is dropped unseen")
			}
			subscription := Subscription{
				Name: s.Name, RequiresSession: s.Properties.RequiresSession,
				MaxDeliveryCount: s.Properties.MaxDeliveryCount, LockDuration: s.Properties.LockDuration,
			}
			for _, r := range s.Rules {
				if r.Properties.FilterType != "Correlation" {
					c.find(emulatorFile+": "+t.Name+"/"+s.Name, makeAgain, "the rule %s must be a correlation", r.Name)
				}
				subscription.Subjects = append(subscription.Subjects, r.Properties.CorrelationFilter.Label)
			}
			topic.Subscriptions = append(topic.Subscriptions, subscription)
		}
		got = append(got, topic)
	}
	want = unsettled(want)
	for i := range want {
		want[i].DuplicateDetection = min(want[i].DuplicateDetection, emulatorRemembers)
	}
	c.compare(emulatorFile, makeAgain, got, want)
	c.surplus(emulatorFile, got, want)
}

// Differences finds how topics as they were made differ from those of the
// program, and says of each what to do. Settings are not compared, and what there
// is besides may be for others.
func Differences(where, do string, got, want []Topic) []Finding {
	var c check
	c.compare(where, do, got, unsettled(want))
	return c.found
}

// unsettled is topics without the settings that hold their names.
func unsettled(topics []Topic) []Topic {
	topics = slices.Clone(topics)
	for i := range topics {
		topics[i].Setting = ""
	}
	return topics
}

// compare finds what is said of topics that the program does not say.
func (c *check) compare(file, do string, got, want []Topic) {
	for _, w := range want {
		g, there := called(got, w.Name)
		where := file + ": " + w.Name
		if !there {
			c.find(where, do, "the topic is missing")
			continue
		}
		c.same(where, do, "setting", g.Setting, w.Setting)
		c.same(where, do, "duplicate detection", g.DuplicateDetection, w.DuplicateDetection)
		for _, ws := range w.Subscriptions {
			gs, there := called(g.Subscriptions, ws.Name)
			where := where + "/" + ws.Name
			if !there {
				c.find(where, do, "the subscription is missing: what it would take is lost")
				continue
			}
			c.same(where, do, "sessions", gs.RequiresSession, ws.RequiresSession)
			c.same(where, do, "maximum delivery count", gs.MaxDeliveryCount, ws.MaxDeliveryCount)
			c.same(where, do, "lock duration", gs.LockDuration, ws.LockDuration)
			c.same(where, do, "subjects", list(gs.Subjects), list(ws.Subjects))
		}
	}
}

// surplus finds what a file has made that nobody needs.
func (c *check) surplus(file string, got, want []Topic) {
	for _, g := range got {
		w, there := called(want, g.Name)
		if !there {
			c.find(file+": "+g.Name, makeAgain, "the topic is none of the program's")
			continue
		}
		for _, s := range g.Subscriptions {
			if _, there := called(w.Subscriptions, s.Name); !there {
				c.find(file+": "+g.Name+"/"+s.Name, makeAgain, "the subscription is none of the program's: nobody takes what comes there")
			}
		}
	}
}

func (c *check) same(where, do, what string, got, want any) {
	if got != want {
		c.find(where, do, "%s must be %v, is %v", what, want, got)
	}
}

func (t Topic) called() string        { return t.Name }
func (s Subscription) called() string { return s.Name }

// called finds what has a name.
func called[T interface{ called() string }](all []T, name string) (found T, there bool) {
	i := slices.IndexFunc(all, func(t T) bool { return t.called() == name })
	if i < 0 {
		return found, false
	}
	return all[i], true
}

// list is names in order, in words.
func list(names []string) string { return strings.Join(slices.Sorted(slices.Values(names)), ", ") }
