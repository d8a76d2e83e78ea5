package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/workflow"
)

// rooms is the map of the project: each package, what it may import of the
// project, and why no more. Arrows point down only.
var rooms = []struct {
	room    string
	imports []string
	why     string
}{
	{"workflow", nil, "the process is pure"},
	{"workflow/invariants", []string{"workflow"}, "the sentences that tests hold every order to"},
	{"workflow/store", []string{"workflow"}, "the database talks in workflow types"},
	{"workflow/store/storetest", []string{"workflow", "workflow/invariants", "workflow/store", "workflow/outbox"}, "the suite of every database drains it too, and replays it"},
	{"workflow/outbox", []string{"workflow"}, "rows and sender are interfaces of its own"},
	{"functions", []string{"workflow"}, "the host's wire ends here"},
	{"handler/internal/servicebus", []string{"workflow"}, "it sends workflow messages, and reads those that the broker gave up"},
	{"handler/internal/audit", []string{"workflow"}, "it writes workflow events; what tells it of them is an interface of its own"},
	{"handler/internal/localbus", nil, "it is a broker and knows nothing of orders"},
	{"handler/internal/amqp", nil, "it is a protocol and knows nothing of brokers"},
	{"handler/internal/busserver", []string{"handler/internal/amqp", "handler/internal/localbus"}, "it speaks for the broker"},
	{"handler/internal/funchost", []string{"handler/internal/localbus"}, "it is a host and knows nothing of orders"},
	{"handler/internal/project", []string{"handler/internal/funchost"}, "it reads files; what the program says comes as arguments"},
	{"handler/internal/telemetry", []string{"workflow", "functions"}, "it tells others what the functions and the sender do"},
	{"handler/internal/cli", nil, "it is a client of the API and knows what that tells it"},
	{"handler/internal/ops", []string{"workflow"}, "it draws what it is given"},
	{"handler/internal/simulation", []string{"workflow"}, "its services are ordinary clients; its samples name endings"},
	{"handler", []string{
		"workflow", "workflow/store", "workflow/outbox", "functions", "handler/internal/servicebus", "handler/internal/audit",
		"handler/internal/telemetry", "handler/internal/cli", "handler/internal/ops",
		"handler/internal/localbus", "handler/internal/busserver", "handler/internal/funchost", "handler/internal/simulation",
		"handler/internal/project",
	}, "it wires everything"},
}

func TestImportsPointInward(t *testing.T) {
	t.Parallel()
	allowed := make(map[string][]string)
	for _, r := range rooms {
		allowed[r.room] = r.imports
	}
	seen := make(map[string]bool)
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, "orderflow/")
		imports, known := allowed[room]
		require.True(t, known, "%s is not on the map: add it, with what it may import and why", room)
		seen[room] = true
		for _, i := range p.Imports {
			if inner, ours := strings.CutPrefix(i, "orderflow/"); ours {
				require.Contains(t, imports, inner, "%s imports %s", room, inner)
			}
			if strings.Contains(i, "azure-sdk-for-go") || strings.HasPrefix(i, "modernc.org/") || strings.Contains(i, "go-mssqldb") {
				require.True(t, strings.HasPrefix(room, "handler") || room == "workflow/store", "%s imports %s", room, i)
			}
			if strings.Contains(i, "opentelemetry") {
				require.Equal(t, "handler/internal/telemetry", room, "%s imports %s", room, i)
			}
		}
	}
	for _, r := range rooms {
		require.True(t, seen[r.room], "%s is on the map and not in the project", r.room)
	}
}

type goPackage struct {
	ImportPath string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}

// document reads a file of the project as text.
func document(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", path))
	require.NoError(t, err)
	return string(b)
}

func TestTheReadmesDiagramIsTheProcess(t *testing.T) {
	t.Parallel()
	require.Contains(t, document(t, "README.md"), "```mermaid\n"+workflow.Mermaid()+"```\n")
}

func TestTheReadmesMapOfRoomsIsComplete(t *testing.T) {
	t.Parallel()
	readme := document(t, "README.md")
	for _, r := range rooms {
		require.Contains(t, readme, "`"+r.room+"`")
	}
}

func TestEveryTestThatTheDocumentsNameExists(t *testing.T) {
	t.Parallel()
	var tests []string
	var code strings.Builder
	declared := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Benchmark\w+)\(`)
	for _, path := range files(t, ".go") {
		text := document(t, path)
		code.WriteString(text)
		for _, m := range declared.FindAllStringSubmatch(text, -1) {
			tests = append(tests, m[1])
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)((?:/[^`/]+)*)`")
	found := 0
	for _, path := range files(t, ".md") {
		for _, m := range named.FindAllStringSubmatch(document(t, path), -1) {
			found++
			require.True(t, slices.Contains(tests, m[1]), "%s names %s, which does not exist", path, m[1])
			for _, part := range strings.Split(m[2], "/")[1:] { // a subtest is named in full somewhere
				exists := strings.Contains(code.String(), strconv.Quote(part))
				require.True(t, exists, "%s names the subtest %q, which does not exist", path, part)
			}
		}
	}
	require.Greater(t, found, 10, "the README shows the test of each guarantee")
}

func TestNoDocumentClaimsExactlyOnce(t *testing.T) {
	t.Parallel()
	claim := regexp.MustCompile(`(?i)exactly-once|exactly once (processing|delivery)`)
	for _, path := range append(files(t, ".md"), files(t, ".go")...) {
		for line := range strings.Lines(document(t, path)) {
			if claim.MatchString(line) && !strings.Contains(line, "(?i)") {
				require.Regexp(t, `(?i)\b(never|no|not|nobody)\b|ClaimsExactlyOnce`, line, path)
			}
		}
	}
}

// files lists the project's files with an ending, by their path from its root.
func files(t *testing.T, ending string) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ending {
			rel, err := filepath.Rel("..", path)
			all = append(all, rel)
			return err
		}
		return nil
	}))
	slices.Sort(all)
	return all
}
