// Package project holds the project's files together: what host.json, the
// function folders, the settings, the infrastructure and .funcignore say must be
// what the program says of itself. It also makes of them the package that is
// deployed.
//
// It reads files and nothing else: no environment, no network. What the program
// says comes as Facts.
package project

import (
	"cmp"
	"fmt"
	"io/fs"
	"time"
)

// The files that say something of which another file, or the program, says the
// same.
const (
	hostFile     = "host.json"
	ignoreFile   = ".funcignore"
	exampleFile  = "local.settings.json.example"
	topicsFile   = "infra/topics.json"
	settingsFile = "infra/settings.json"
	emulatorFile = "emulator/config.json"
	templates    = "infra/*.bicep"
)

// Executable is the program's path in the project and in the package:
// customHandler.description.defaultExecutablePath in host.json. It has no ".exe"
// on any system.
const Executable = "handler/handler"

// Facts is what the program says of itself.
type Facts struct {
	// Functions are the names of all functions: each has a folder.
	Functions []string
	// Orders is the topic that functions listen to: each of its subscriptions is
	// named as the function that takes its messages. Commands is the other.
	Orders, Commands Topic
	// Connection is the setting, or the prefix of those, by which the host finds
	// Service Bus, as the program does.
	Connection string
	// Timers are the functions that run by a schedule, each with the setting
	// that holds it.
	Timers map[string]string
	// Endpoints are what the functions that people and programs call answer.
	Endpoints []Endpoint
	// Open are those of them that need no key.
	Open []string
	// Settings are the app settings that the program reads.
	Settings []Setting
	// Read reads settings as the program does. Its error names each that is
	// wrong.
	Read func(map[string]string) (Values, error)
	// LongestInvocation is what the setting for the deadline of an invocation may
	// be at most.
	LongestInvocation time.Duration
}

// Endpoint is a method and a path, below the route prefix, of the API, and the
// function whose key opens it. {id} stands for any one segment.
type Endpoint struct {
	Function, Method, Path string
}

// Setting is an app setting, with its default if it has one. What belongs to one
// thing is named NAME or NAME__part, as the host has it.
type Setting struct {
	Name, Default string
}

// Values is what the settings of those names say.
type Values struct {
	DuplicateDetection time.Duration
	HoldFromDelivery   int
}

// Finding is one fault of the files.
type Finding struct {
	Where string `json:"where"` // the file, and in it the place
	What  string `json:"what"`
	// Do is what to do about it; empty where What says what must be.
	Do string `json:"do,omitempty"`
}

func (f Finding) String() string {
	text := f.Where + ": " + f.What
	if f.Do != "" {
		text += ": " + f.Do
	}
	return text
}

// Check holds the files of a project's root to what the program says, and to
// each other. What it finds comes in the same order each time; nothing is all
// well.
func Check(root fs.FS, f Facts) []Finding {
	c := &check{Facts: f, root: root}
	if _, ok := c.read(hostFile, inTheRoot); !ok {
		return c.found // another folder, of which nothing else need be said
	}
	c.host()
	c.settings()
	c.topics()
	c.loaded()
	c.ignored()
	return c.found
}

// check is one run of Check.
type check struct {
	Facts
	root  fs.FS
	found []Finding
}

func (c *check) find(where, do, format string, args ...any) {
	c.found = append(c.found, Finding{Where: where, What: fmt.Sprintf(format, args...), Do: do})
}

// inTheRoot is what to do when the folder is none of a project.
const inTheRoot = "run it in the project's root, or name that with -root"

// functionFile is where the function of a name is declared.
func functionFile(name string) string { return name + "/function.json" }

// read reads a file that has to be there.
func (c *check) read(file, do string) (data []byte, ok bool) {
	data, err := fs.ReadFile(c.root, file)
	if err != nil {
		c.find(file, cmp.Or(do, "put it back"), "cannot be read: %v", err)
		return nil, false
	}
	return data, true
}
