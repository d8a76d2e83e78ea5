package workflow_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// derived are the files with the quick tests that a mutant has to get past:
// those that follow the table, the rules and the stories. The others, this one
// among them, are left out of a mutant's test binary.
var derived = []string{
	"vocabulary_test.go", "sayings_test.go", "desk_test.go", "export_test.go", "norace_test.go",
	"cells_test.go", "cells_forward_test.go", "cells_backout_test.go", "cells_ends_test.go",
	"stories_test.go", "rules_test.go", "settled_test.go", "ids_test.go",
	"invariants_test.go", "world_test.go", "walk_test.go", "matrix_test.go",
}

// walking are the tests among them that take a walk, so they come second.
const walking = "^Test(TheWalk|TheMatrix|Every(Status|Row|RefusedCell))"

// TestEveryMutantIsCaught breaks the package in many ways, one at a time, and
// sees the derived tests fail each time: what they hold is really held.
func TestEveryMutantIsCaught(t *testing.T) {
	if raceDetector {
		t.Skip("the same test runs without the race detector; the mutants run without it anyway")
	}
	if testing.Short() {
		t.Skip("builds the package a hundred times")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go command to build the mutants")
	}
	t.Parallel()
	here, err := os.Getwd()
	require.NoError(t, err)

	t.Run("none", func(t *testing.T) { // what is not broken gets past
		require.Empty(t, tests(t, build(t, goTool, here, mutant{file: "process.go"})))
	})
	atOnce := make(chan struct{}, 2)
	for _, m := range mutants() {
		t.Run(m.what, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			require.NotEmpty(t, tests(t, build(t, goTool, here, m)), "no test fails although %s (%s)", m.what, m.file)
		})
	}
}

// build compiles the package, with one text replaced, and its derived tests,
// without touching a file. A mutant that does not compile is a mistake in the
// mutant.
func build(t *testing.T, goTool, here string, m mutant) string {
	t.Helper()
	source, err := os.ReadFile(m.file)
	require.NoError(t, err)
	text := strings.ReplaceAll(string(source), "\r\n", "\n")
	if m.old != "" {
		require.Equal(t, 1, strings.Count(text, m.old), "the text to replace occurs once in %s:\n%s", m.file, m.old)
		text = strings.Replace(text, m.old, m.new, 1)
	}
	dir := t.TempDir()
	broken, overlay, binary := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test.exe")
	require.NoError(t, os.WriteFile(broken, []byte(text), 0o600))

	replace := map[string]string{filepath.Join(here, m.file): broken}
	all, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, name := range all {
		if !slices.Contains(derived, name) {
			replace[filepath.Join(here, name)] = "" // as if it did not exist
		}
	}
	plan, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, plan, 0o600))

	out, err := exec.CommandContext(t.Context(), goTool, "test", "-c", "-o="+binary, "-overlay="+overlay, "-vet=off",
		"-gcflags=-N -l -dwarf=false", "-ldflags=-s -w", ".").CombinedOutput()
	require.NoError(t, err, "the mutant does not compile: %s", out)
	return binary
}

// tests runs a mutant's tests, in this folder, and returns the names of those
// that failed, or how it died.
func tests(t *testing.T, binary string) []string {
	t.Helper()
	for _, which := range []string{"-test.skip=" + walking, "-test.run=" + walking} {
		out, err := exec.CommandContext(t.Context(), binary, which, "-test.short", "-test.failfast", "-test.timeout=30s").CombinedOutput()
		if err == nil {
			continue
		}
		failed := regexp.MustCompile(`(?m)^\s*--- FAIL: \S+|^panic: .*|^fatal error: .*`).FindAllString(string(out), -1)
		require.NotEmpty(t, failed, "it failed, but no test did: %v\n%s", err, out)
		return failed
	}
	return nil
}
