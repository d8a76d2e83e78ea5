package busserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/handler/internal/localbus"
)

// A second client shows what the first one forgives: the same scenarios with
// @azure/service-bus. Its packages come from npm, once, into the folder of the
// scenarios if they are there already, else into a temporary one.
func TestTheJavaScriptClientFindsAServiceBus(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("not run: node is not installed")
	}
	dir := scripts(t)

	var topics []localbus.Topic
	for _, s := range Scenarios() {
		lock := time.Minute
		if s.ShortLock {
			lock = time.Second
		}
		topics = append(topics, s.topic(lock))
	}
	_, addr := serve(t, secured(), topics...)

	cmd := exec.CommandContext(t.Context(), node, "conformance.mjs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SERVICEBUS_CONNECTION="+connectionString(addr))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s%s", out, &stderr)

	type result struct{ Name, Skipped, Error string }
	results := map[string]result{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var r result
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r), "%s", lines.Bytes())
		results[r.Name] = r
	}
	require.Len(t, results, len(Scenarios()))
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r, ran := results[s.Name]
			require.True(t, ran, "conformance.mjs lacks the scenario")
			if r.Skipped != "" {
				t.Skip("not run: " + r.Skipped)
			}
			require.Empty(t, r.Error)
		})
	}
}

// scripts is a folder with the scenarios and their packages.
func scripts(t *testing.T) string {
	source := filepath.Join("testdata", "conformance")
	if _, err := os.Stat(filepath.Join(source, "node_modules")); err == nil {
		return source
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("not run: npm is not installed")
	}
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc", "conformance.mjs"} {
		content, err := os.ReadFile(filepath.Join(source, name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err, "npm ci: %s", out)
		}
		t.Skipf("not run: npm ci: %v\n%s", err, out)
	}
	return dir
}
