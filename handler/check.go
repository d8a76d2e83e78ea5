package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"

	"orderflow/functions"
	"orderflow/handler/internal/project"
)

// checkFlags are the flags of `handler check`.
type checkFlags struct {
	offline bool
	root    string
	output  string
}

func (f *checkFlags) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.BoolVar(&f.offline, "offline", false, "hold the project's files together, and reach for nothing")
	flags.StringVar(&f.root, "root", ".", "with -offline: the `folder` that holds host.json")
	flags.StringVar(&f.output, "o", "text", "how to tell it: text or json")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if f.output != "text" && f.output != "json" {
		return usageError{fmt.Errorf("-o must be text or json; it is %q", f.output)}
	}
	return nil
}

// check says what is wrong with the project's files.
func check(_ context.Context, args []string, _ map[string]string, stdout, stderr io.Writer) error {
	var f checkFlags
	if err := f.parse(args, stderr); err != nil {
		return err
	}
	return f.files(stdout)
}

// files checks the project's files.
func (f *checkFlags) files(stdout io.Writer) error {
	facts, err := facts()
	if err != nil {
		return err
	}
	found := project.Check(os.DirFS(f.root), facts)
	if f.output == "json" {
		if err := tellJSON(stdout, append([]project.Finding{}, found...)); err != nil {
			return err
		}
	} else {
		for _, finding := range found {
			fmt.Fprintln(stdout, "✗", finding)
		}
		if len(found) == 0 {
			fmt.Fprintf(stdout, "✓ the project's files agree: %d functions, %d subscriptions, %d settings\n",
				len(facts.Functions), len(facts.Orders.Subscriptions)+len(facts.Commands.Subscriptions), len(facts.Settings))
		}
	}
	return failures(len(found))
}

// failures is the error of a check that found so many; nil for none.
func failures(n int) error {
	switch n {
	case 0:
		return nil
	case 1:
		return errors.New("one thing is wrong")
	default:
		return fmt.Errorf("%d things are wrong", n)
	}
}

func tellJSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// facts is what the project's files are held to.
func facts() (project.Facts, error) {
	s, err := readSettings(nil)
	if err != nil {
		return project.Facts{}, err
	}
	f := project.Facts{
		Functions: functions.Names(), Connection: "ServiceBusConnection",
		Timers: map[string]string{"outbox-dispatch": "OutboxSchedule", "sweep": "SweepSchedule"},
		Open:   []string{"health"},
		Read: func(environ map[string]string) (project.Values, error) {
			s, err := readSettings(environ)
			return project.Values{DuplicateDetection: s.DuplicateDetection, HoldFromDelivery: s.HoldFromDelivery}, err
		},
	}
	f.Orders, f.Commands = s.topology()
	for _, e := range functions.Endpoints() {
		f.Endpoints = append(f.Endpoints, project.Endpoint{Function: e.Function, Method: e.Method, Path: e.Path})
	}
	for _, d := range s.durations() {
		if d.value == &s.HandlerDeadline {
			f.LongestInvocation = d.most
		}
	}
	for field := range reflect.TypeFor[settings]().Fields() {
		if name := field.Tag.Get("env"); name != portSetting {
			f.Settings = append(f.Settings, project.Setting{Name: name, Default: field.Tag.Get("envDefault")})
		}
	}
	return f, nil
}

// portSetting is set by the host, and by nobody else.
const portSetting = "FUNCTIONS_CUSTOMHANDLER_PORT"
