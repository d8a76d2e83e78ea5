package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary builds the handler once, the way the README does, and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "orderflow-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "handler")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	if environ := environment(os.Environ()); environ[faultyChild] != "" { // a handler for the soak
		fmt.Fprintln(os.Stderr, serveFaulty(environ))
		os.Exit(exitFailed)
	}
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// process is the built binary while it runs.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr lockedBuffer
	done           chan struct{}
}

// start runs the binary in the project's root, with only these settings and the
// arguments.
func start(t *testing.T, settings map[string]string, args ...string) *process {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	p := &process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Dir = ".."
	p.cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	for name, value := range settings {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is what the Functions host does: SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.done
}

// exitCode waits for the process to end by itself.
func (p *process) exitCode(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		require.Failf(t, "it still runs", "after %s; stdout: %s; stderr: %s", within, p.stdout.String(), p.stderr.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// lockedBuffer is a buffer that is read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// served is a handler process as the host starts it.
type served struct {
	*process
	url string
}

// folder is a folder for a local run. A handler whose host was killed may write
// to it for a moment longer, so it is removed when that is over.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "orderflow-run-") //nolint:usetesting // t.TempDir does not wait
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, 10*time.Second, 20*time.Millisecond)
	})
	return dir
}

// nowhere is a Service Bus that does not answer.
const nowhere = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=k;SharedAccessKey=a2V5;UseDevelopmentEmulator=true"

// startServed starts the binary as the Functions host would, on a database, and
// waits until GET / is answered.
func startServed(t *testing.T, database string, more map[string]string) *served {
	t.Helper()
	port := freePort(t)
	settings := map[string]string{
		"FUNCTIONS_CUSTOMHANDLER_PORT": port, "SqlConnection": database, "ServiceBusConnection": nowhere,
	}
	for name, value := range more {
		settings[name] = value
	}
	s := &served{start(t, settings), "http://127.0.0.1:" + port}
	require.Eventually(t, func() bool {
		response, err := http.Get(s.url)
		if err != nil {
			return false
		}
		return response.Body.Close() == nil
	}, 10*time.Second, 5*time.Millisecond, "GET / is not answered; stderr: %s", &s.stderr)
	return s
}

// post invokes a function with a body and returns the answer.
func (s *served) post(function string, body []byte) (*http.Response, string, error) {
	response, err := http.Post(s.url+"/"+function, "application/json; charset=utf-8", bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response, string(text), err
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

// payload reads one of the host's request bodies.
func payload(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "functions", "testdata", name))
	require.NoError(t, err)
	return b
}
