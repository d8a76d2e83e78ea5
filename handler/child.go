package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

// child is the handler as a process of its own, started as the Functions host
// starts it and started again whenever it ends.
type child struct {
	executable string
	settings   map[string]string // the app settings, and the port
	port       int               // where it listens
	root       string            // the app's root, its working directory
	pidFile    string            // where its process ID is written, for people
	log        io.Writer         // takes its stdout and stderr
	exited     func()            // told each time it has ended

	mu      sync.Mutex
	process *os.Process // the present one
}

// A child that ends by itself this soon after its start, this many times in a
// row, is not started again.
const (
	childSoon  = 2 * time.Second
	childTries = 5
	childRest  = 100 * time.Millisecond
)

// run keeps the handler running until ctx ends, and then ends it as the host
// does: with SIGKILL. The error is that of a handler which cannot be started.
func (c *child) run(ctx context.Context) error {
	for failed := 0; ; {
		began := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was ended, and says so
		}
		c.exited()
		var exit *exec.ExitError
		if killed := errors.As(err, &exit) && exit.ExitCode() < 0; killed || time.Since(began) > childSoon {
			failed = 0
		} else {
			failed++
		}
		if failed == childTries {
			return fmt.Errorf("it ended %d times right after its start: %w", failed, err)
		}
		select {
		case <-time.After(childRest):
		case <-ctx.Done():
			return nil
		}
	}
}

// once runs the handler until it ends or ctx does.
func (c *child) once(ctx context.Context) error {
	last := &tail{to: c.log}
	cmd := exec.CommandContext(ctx, c.executable, "serve", "-stop-with-stdin")
	cmd.Dir, cmd.Env = c.root, c.environment()
	cmd.Stdout, cmd.Stderr = c.log, last
	// It reads the other end of this pipe, so it ends when this process does,
	// however that comes.
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer alive.Close()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the handler: %w", err)
	}
	c.mu.Lock()
	c.process = cmd.Process
	c.mu.Unlock()
	if err := os.WriteFile(c.pidFile, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	err = cmd.Wait()
	return fmt.Errorf("%w; it said: %s", or(err, errors.New("exit status 0")), last.text())
}

// kill ends the present process; it is started again.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		_ = c.process.Kill() // it may have ended already
	}
}

// environment is what the host gives its handler: its own environment, the app
// settings, and where to listen.
func (c *child) environment() []string {
	environ := os.Environ()
	set := func(name, value string) { environ = append(environ, name+"="+value) }
	for name, value := range c.settings {
		set(name, value)
	}
	id, port := uuid.NewString(), strconv.Itoa(c.port)
	set("FUNCTIONS_CUSTOMHANDLER_WORKER_ID", id)
	set("FUNCTIONS_HTTPWORKER_PORT", port)
	set("FUNCTIONS_HTTPWORKER_ID", id)
	set("FUNCTIONS_APP_ROOT_PATH", c.root)
	return environ
}

// tail passes on what is written and keeps the end of it.
type tail struct {
	to  io.Writer
	mu  sync.Mutex
	end []byte
}

const tailMost = 1000

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if len(t.end) > tailMost {
		t.end = slices.Clone(t.end[len(t.end)-tailMost:])
	}
	return t.to.Write(p)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.end)
}
