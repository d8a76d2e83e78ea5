package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"

	"orderflow/functions"
	"orderflow/handler/internal/project"
)

// checkFlags are the flags of `handler check`.
type checkFlags struct {
	offline  bool
	root     string
	settings string
	output   string
}

func (f *checkFlags) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.BoolVar(&f.offline, "offline", false, "hold the project's files together, and reach for nothing")
	flags.StringVar(&f.root, "root", "", "with -offline: the `folder` that holds host.json, if it is not this one")
	flags.StringVar(&f.settings, "settings", "", "without -offline: a `file` like local.settings.json, whose Values count before the environment's")
	flags.StringVar(&f.output, "o", "text", "how to tell it: text or json")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	switch {
	case f.output != "text" && f.output != "json":
		return usageError{fmt.Errorf("-o must be text or json; it is %q", f.output)}
	case f.offline && f.settings != "":
		return usageError{errors.New("-settings is not for -offline, which reads the files of settings by itself")}
	case !f.offline && f.root != "":
		return usageError{errors.New("-root is for -offline: without it no file of the project is read")}
	}
	return nil
}

// check says what keeps the program from working: what the project's files
// disagree in, or what is not as it must be around the program.
func check(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) error {
	var f checkFlags
	if err := f.parse(args, stderr); err != nil {
		return err
	}
	if f.offline {
		return f.files(stdout)
	}
	environ, err := f.environment(environ)
	if err != nil {
		return err
	}
	return f.tell(stdout, lookAround(ctx, environ))
}

// environment is the settings that are checked.
func (f *checkFlags) environment(environ map[string]string) (map[string]string, error) {
	if f.settings == "" {
		return environ, nil
	}
	data, err := os.ReadFile(f.settings)
	if err != nil {
		return nil, fmt.Errorf("-settings: %w", err)
	}
	var file struct {
		IsEncrypted bool
		Values      map[string]string
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("-settings: %s: %w", f.settings, err)
	}
	if file.IsEncrypted {
		return nil, fmt.Errorf("-settings: %s is encrypted: run `func settings decrypt` first", f.settings)
	}
	all := make(map[string]string)
	maps.Copy(all, environ)
	maps.Copy(all, file.Values)
	return all, nil
}

// tell tells what was seen.
func (f *checkFlags) tell(stdout io.Writer, all []look) error {
	wrong := 0
	for _, l := range all {
		if l.State == lookWrong {
			wrong++
		}
	}
	if f.output == "json" {
		if err := tellJSON(stdout, all); err != nil {
			return err
		}
		return failures(wrong)
	}
	width := 0
	for _, l := range all {
		width = max(width, len(l.Name))
	}
	for _, l := range all {
		fmt.Fprintf(stdout, "%s %-*s  %s\n", l.State.sign(), width, l.Name, l.Says)
		if l.Do != "" {
			fmt.Fprintf(stdout, "    %s\n", l.Do)
		}
	}
	return failures(wrong)
}

// files checks the project's files.
func (f *checkFlags) files(stdout io.Writer) error {
	facts, err := facts()
	if err != nil {
		return err
	}
	found := project.Check(os.DirFS(or(f.root, ".")), facts)
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
		Open:   []string{"health", "ops"},
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
