package project

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"orderflow/handler/internal/funchost"
)

// deployedSettings is the infrastructure's file of settings: each with its
// default, and empty what the infrastructure fills in. What can be connected by
// identity is.
func (f Facts) deployedSettings() []byte {
	var file bytes.Buffer
	separator := "{\n"
	for _, s := range f.Settings {
		byIdentity := func(other Setting) bool { return strings.HasPrefix(other.Name, s.Name+"__") }
		if slices.ContainsFunc(f.Settings, byIdentity) {
			continue
		}
		fmt.Fprintf(&file, "%s  %q: %q", separator, s.Name, s.Default)
		separator = ",\n"
	}
	file.WriteString("\n}\n")
	return file.Bytes()
}

// settings checks the two files that say what the settings are: one on a
// developer's machine, one deployed.
func (c *check) settings() {
	if data, ok := c.read(exampleFile, ""); ok {
		var file struct{ Values map[string]string }
		if err := json.Unmarshal(data, &file); err != nil {
			c.find(exampleFile, "make it such as `func init` does", "cannot be understood: %v", err)
		} else {
			if runtime := file.Values["FUNCTIONS_WORKER_RUNTIME"]; runtime != "custom" {
				c.find(exampleFile+": FUNCTIONS_WORKER_RUNTIME", "", "must be custom, is %q", runtime)
			}
			delete(file.Values, "FUNCTIONS_WORKER_RUNTIME")
			c.values(exampleFile, file.Values)
		}
	}
	if data, ok := c.read(settingsFile, makeAgain); ok {
		var values map[string]string
		if err := json.Unmarshal(data, &values); err != nil {
			c.find(settingsFile, makeAgain, "cannot be understood: %v", err)
			return
		}
		for _, name := range []string{"FUNCTIONS_WORKER_RUNTIME", "FUNCTIONS_EXTENSION_VERSION", "WEBSITE_RUN_FROM_PACKAGE"} {
			if _, there := values[name]; there {
				c.find(settingsFile+": "+name, "take it out", "an app on Flex Consumption may not have it: its runtime stands in functionAppConfig")
				delete(values, name)
			}
		}
		c.values(settingsFile, values)
	}
}

// others reports whether the host or a library reads a setting, by its name
// alone.
func others(name string) bool {
	begins := func(with string) bool { return strings.HasPrefix(name, with) }
	return slices.ContainsFunc([]string{"AzureWebJobs", "AzureFunctionsJobHost__", "APPLICATIONINSIGHTS_", "OTEL_"}, begins)
}

// values checks the settings of a file.
func (c *check) values(file string, values map[string]string) {
	wanted := c.named()
	for _, s := range c.Settings {
		wanted[base(s.Name)] = ""
	}
	there := make(map[string]bool)
	for name := range values {
		there[base(name)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if by := wanted[name]; by != "" && !there[name] {
			c.find(file, "add it", "%s is missing, which %s reads", name, by)
		} else if !there[name] {
			c.find(file, "add it, with its default or empty", "%s is missing, which the program reads", name)
		}
	}
	set := make(map[string]string) // what is empty is filled in elsewhere
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] != "" {
			set[name] = values[name]
		}
		own := slices.ContainsFunc(c.Settings, func(s Setting) bool { return s.Name == name })
		_, ofFunction := wanted[name]
		_, ofConnection := wanted[base(name)]
		if !own && !ofFunction && !others(name) && (!ofConnection || !strings.HasSuffix(name, "__credential")) {
			c.find(file+": "+name, "correct its name, or take it out", "neither the program nor the host reads it")
		}
	}
	for _, t := range []Topic{c.Orders, c.Commands} {
		if name, there := set[t.Setting]; there && name != t.Name {
			c.find(file+": "+t.Setting, "use that name, or change the table in Go", "the topic is made as %q, is %q here", t.Name, name)
		}
	}
	for _, function := range slices.Sorted(maps.Keys(c.Timers)) {
		name := c.Timers[function]
		if _, err := funchost.ParseSchedule(set[name]); err != nil && set[name] != "" {
			c.find(file+": "+name, "write it as NCRONTAB, such as \"0 * * * * *\"", "the schedule of %s: %v", function, err)
		}
	}
	read, err := c.Read(set)
	for _, fault := range faults(err) {
		c.find(file, "", "%v", fault)
	}
	if err != nil {
		return
	}
	if remembered := Span(read.DuplicateDetection); remembered != c.Orders.DuplicateDetection || remembered != c.Commands.DuplicateDetection {
		c.find(file+": DuplicateDetection", "make them the same", "the topics remember for %s, and %s is said here: what is sent again would come twice, or too late",
			c.Orders.DuplicateDetection, remembered)
	}
	for _, s := range c.Orders.Subscriptions {
		if read.HoldFromDelivery >= s.MaxDeliveryCount {
			c.find(file+": HoldFromDelivery", "make it smaller", "a message is held from delivery %d on, and %s gives it up after %d: deliveries that are lost on the way count too",
				read.HoldFromDelivery, s.Name, s.MaxDeliveryCount)
			return // once is enough
		}
	}
}

// base is what a setting is about: its name without the part of a connection
// that it says.
func base(name string) string {
	about, _, _ := strings.Cut(name, "__")
	return about
}

// named are the settings that function.json files name, each with a file that
// does.
func (c *check) named() map[string]string {
	all := make(map[string]string)
	setting := regexp.MustCompile(`%([^%"\s]+)%`)
	for _, name := range c.Functions {
		for _, text := range c.bindings(name).texts() {
			for _, m := range setting.FindAllStringSubmatch(text, -1) {
				all[m[1]] = functionFile(name)
			}
		}
	}
	return all
}

// faults are the errors that one error joins.
func faults(err error) []error {
	if err == nil {
		return nil
	}
	joined, several := err.(interface{ Unwrap() []error }) //nolint:errorlint // not one further down
	if !several {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, faults(e)...)
	}
	return all
}
