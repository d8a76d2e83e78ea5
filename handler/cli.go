package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"orderflow/handler/internal/cli"
	"orderflow/workflow/store"
)

// operate runs a command of an operator.
func operate(ctx context.Context, args []string, environ map[string]string, stdout, stderr io.Writer) int {
	s := cli.System{
		In: os.Stdin, Out: stdout, Err: stderr, Now: time.Now, NewKey: uuid.NewString, User: environ["USER"],
		URL: environ["ORDERFLOW_URL"], Key: environ["ORDERFLOW_KEY"], Network: http.DefaultTransport,
		Open: func(ctx context.Context, file string) (cli.Database, error) {
			return openDirectly(ctx, environ, file, stderr)
		},
	}
	if u, err := user.Current(); err == nil {
		s.User = u.Username
	}
	return cli.Run(ctx, args, s)
}

// openDirectly makes the API ready over a database, without a network, a
// dispatcher or Service Bus. What is done there is committed as an app would
// commit it; what is to be sent, an app sends that runs on the database.
func openDirectly(ctx context.Context, environ map[string]string, file string, stderr io.Writer) (d cli.Database, err error) {
	if environ, err = withSettings(environ, file); err != nil {
		return d, fmt.Errorf("-settings: %w", err)
	}
	s, err := readSettings(environ)
	if s.SQLConnection == "" {
		return d, cli.ErrNowhere
	}
	if err := errors.Join(err, s.checkDatabase()); err != nil {
		return d, err
	}
	options := s.storeOptions()
	options.Existing = true
	opened, err := store.Open(ctx, s.SQLConnection, options)
	if err != nil {
		return d, fmt.Errorf("SqlConnection: %w", err)
	}
	if err := opened.Ready(ctx); err != nil {
		return d, errors.Join(fmt.Errorf("SqlConnection: %w", err), opened.Close())
	}
	orders := &lateStore{ready: make(chan struct{})}
	orders.is(opened)
	h := &handler{settings: s, log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	return cli.Database{API: inside{h.app(ctx, orders, nil).Handler()}, About: s.about(), Close: opened.Close}, nil
}

// about says what somebody has to know who acts on a database with these
// settings: they are those of this process, and not of the app.
func (s *settings) about() string {
	database := s.SQLConnection
	if s.isSQLServer() { // the rest of its address may hold a password
		database = "of a SQL Server"
		if u, err := url.Parse(s.SQLConnection); err == nil {
			database = fmt.Sprintf("%q of the SQL Server %s", u.Query().Get("database"), u.Host)
		}
	}
	audit := "not listed for an audit"
	if s.audited() {
		audit = "listed for the audit"
	}
	return fmt.Sprintf("acting on the database %s: deadlines that are armed take %s for the warehouse, %s for the payment, %s for shipping and %s for an undo; what is done is %s; the app sends what is to be sent on its next run",
		database, s.InventoryDeadline, s.PaymentDeadline, s.ShipmentDeadline, s.CompensationDeadline, audit)
}

// withSettings is an environment with what a file of settings says, which goes
// before it: the file was named. A database's path in it is meant from the
// file's folder, which is where the app runs.
func withSettings(environ map[string]string, file string) (map[string]string, error) {
	if file == "" {
		return environ, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var settings struct {
		IsEncrypted bool
		Values      map[string]string
	}
	if err := json.Unmarshal(text, &settings); err != nil {
		return nil, fmt.Errorf("%s is no file of settings such as local.settings.json: %w", file, err)
	}
	if settings.IsEncrypted {
		return nil, fmt.Errorf("%s is encrypted: decrypt it with `func settings decrypt`", file)
	}
	if path := settings.Values["SqlConnection"]; path != "" && !strings.Contains(path, "://") && !filepath.IsAbs(path) {
		settings.Values["SqlConnection"] = filepath.Join(filepath.Dir(file), path)
	}
	both := make(map[string]string)
	maps.Copy(both, environ)
	maps.Copy(both, settings.Values)
	return both, nil
}

// inside is a transport that ends at a handler in this process.
type inside struct{ handler http.Handler }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	w := &told{header: make(http.Header), status: http.StatusOK}
	i.handler.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// told keeps what a handler answers.
type told struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (t *told) Header() http.Header { return t.header }

func (t *told) WriteHeader(status int) { t.status = status }

func (t *told) Write(text []byte) (int, error) { return t.body.Write(text) }
