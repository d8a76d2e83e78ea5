package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/functions"
)

// operating are the pages on how to operate Orderflow, by path.
func operating(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../docs/operating/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	pages := make(map[string]string)
	for _, path := range paths {
		path = strings.TrimPrefix(filepath.ToSlash(path), "../")
		pages[path] = document(t, path)
	}
	return pages
}

func TestWhatTheOperatingPagesAskAndDoIsThereToBeAskedAndDone(t *testing.T) {
	t.Parallel()
	served := make(map[string]bool)
	for _, e := range functions.Endpoints() {
		served[e.Method+" "+regexp.MustCompile(`\{\w+\}`).ReplaceAllString(e.Path, "*")] = true
	}
	parameters := make(map[string]bool)
	for _, e := range functions.Endpoints() {
		for _, name := range e.Query {
			parameters[name] = true
		}
	}
	asked := 0
	for path, text := range operating(t) {
		for _, m := range regexp.MustCompile(`\b(ask|act) '?((?:orders|operations|health)[\w/-]*)(?:\?([^'\s]+))?`).FindAllStringSubmatch(text, -1) {
			method := map[string]string{"ask": "GET ", "act": "POST "}[m[1]]
			require.True(t, served[method+strings.Replace(strings.Replace(m[2], "order-42", "*", 1), "ID", "*", 1)], "%s: %s", path, m[0])
			for parameter := range strings.SplitSeq(m[3], "&") {
				name, _, _ := strings.Cut(parameter, "=")
				require.True(t, name == "" || parameters[name], "%s: %s", path, m[0])
			}
			asked++
		}
		for _, m := range regexp.MustCompile(`go run \./handler (\w+)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, usage, "\n  handler "+m[1], path)
		}
	}
	require.Greater(t, asked, 20)
}

func TestWhatTheOperatingPagesNameIsThere(t *testing.T) {
	t.Parallel()
	anchor := regexp.MustCompile(`[^a-z0-9 -]`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	for path, text := range operating(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "https://") {
				continue
			}
			file, part, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(path), file))
				_, err := os.Stat("../" + target)
				require.NoError(t, err, "%s links to %s", path, m[1])
			}
			if part != "" {
				var parts []string
				for _, h := range heading.FindAllStringSubmatch(document(t, target), -1) {
					parts = append(parts, strings.ReplaceAll(anchor.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
				}
				require.Contains(t, parts, part, "%s links to %s", path, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`(?:infra|docs|\.github)/[\w./-]+\.\w+`).FindAllString(text, -1) {
			_, err := os.Stat("../" + m)
			require.NoError(t, err, "%s names %s", path, m)
		}
	}
}
