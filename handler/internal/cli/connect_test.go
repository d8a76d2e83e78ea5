package cli

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheKeyIsSentInItsHeaderAndShownNowhere(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-k3y"
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\r\n"), 0o600))
	answers := []func(*http.Request) (*http.Response, error){
		always(200, asJSON, `{"status":"ready","degraded":[]}`),
		always(401, "", ""),
		always(500, "text/html", "<h1>"),
		always(302, "", "", "Location", "https://elsewhere.example"),
		func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") },
	}
	for i, answer := range answers {
		for _, from := range []string{"environment", "file", "input"} {
			d := sit(answer)
			line := []string{"health"}
			switch from {
			case "environment":
				d.Key = secret
			case "file":
				d.Key = "another"
				line = append(line, "-key-file", file)
			default:
				d.In = strings.NewReader(secret + "\n")
				line = append(line, "-key-file", "-")
			}
			code := d.run(t, line...)
			require.Equal(t, []string{"GET /api/health/ready"}, d.asked, "the address holds no key, and no other is asked")
			require.Equal(t, secret, d.headers[0].Get("x-functions-key"))
			require.NotContains(t, d.out.String()+d.err.String(), secret)
			require.Equal(t, []int{exitDone, exitNotAllowed, exitFailed, exitFailed, exitFailed}[i], code, &d.err)
		}
		d := sit(answer)
		d.Key = secret
		d.URL = app + "?code=" + secret
		d.run(t, "health", "-h")
		require.NotContains(t, d.out.String(), secret)
	}
	for url, sent := range map[string]bool{
		"http://app.example": false, "http://10.0.0.1:7071": false, "https://app.example": true,
		"http://127.0.0.1:7071": true, "http://localhost:7071": true, "http://[::1]:7071": true, "http://127.0.0.1.example": false,
	} {
		d := sit(answers[0])
		d.Key = secret
		code := d.run(t, "health", "-url", url)
		if sent {
			require.Zero(t, code, url)
			continue
		}
		require.Equal(t, exitUsage, code, url)
		require.Empty(t, d.asked, url)
		require.Contains(t, d.err.String(), "use https://")
	}
	d := sit(answers[0])
	require.Zero(t, d.run(t, "health", "-url", "http://app.example"), "without a key there is nothing to read")
	require.Empty(t, d.headers[0].Values("x-functions-key"))
	d.Key = "two\nlines"
	require.Equal(t, exitUsage, d.run(t, "health"))
	require.NotContains(t, d.err.String(), "two")
}

func TestTheAddressOfAnAppMayEndAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	for _, url := range []string{app, app + "/", app + "/api", app + "/api/", " " + app} {
		d := sit(always(200, asJSON, `{"status":"ready","degraded":[]}`))
		require.Zero(t, d.run(t, "health", "-url", url), url)
		require.Equal(t, []string{"GET /api/health/ready"}, d.asked, url)
	}
	d := sit(always(200, asJSON, `{"status":"ready","degraded":[]}`))
	require.Zero(t, d.run(t, "health", "-url", app+"/gateway/"))
	require.Equal(t, []string{"GET /gateway/api/health/ready"}, d.asked)
}

func TestWithoutAURLTheDatabaseIsAskedAndWhoActsIsToldWithWhat(t *testing.T) {
	t.Parallel()
	inside := sit(always(202, asJSON, cancelled))
	for _, c := range []struct {
		url, line, settings string
		direct              bool
	}{
		{"", "orders cancel o -reason r", "", true},
		{"", "orders cancel o -reason r -settings local.settings.json", "local.settings.json", true},
		{app, "orders cancel o -reason r -settings local.settings.json", "local.settings.json", true},
		{app, "orders cancel o -reason r -url=", "", true},
		{app, "orders cancel o -reason r", "", false},
		{"", "orders cancel o -reason r -url " + app, "", false},
	} {
		d := sit(always(202, asJSON, cancelled))
		d.URL, d.Key = c.url, "s3cr3t"
		opened, closed := 0, 0
		d.Open = func(_ context.Context, settings string) (Database, error) {
			require.Equal(t, c.settings, settings)
			opened++
			return Database{API: inside, About: "acting on orders.db", Close: func() error { closed++; return nil }}, nil
		}
		require.Zero(t, d.run(t, strings.Fields(c.line)...), &d.err)
		if !c.direct {
			require.Zero(t, opened)
			require.Len(t, d.asked, 1)
			continue
		}
		require.Equal(t, []int{1, 1}, []int{opened, closed})
		require.Empty(t, d.asked, "nothing goes over the network")
		require.Equal(t, "orderflow: acting on orders.db\n", d.err.String())
		require.Empty(t, inside.headers[0].Get("x-functions-key"))
	}
	d := sit(nil)
	d.URL = ""
	d.Open = func(context.Context, string) (Database, error) { return Database{}, ErrNowhere }
	require.Equal(t, exitUsage, d.run(t, "summary"))
	for _, way := range []string{"-url", "ORDERFLOW_URL", "SqlConnection", "-settings"} {
		require.Contains(t, d.err.String(), way)
	}
	d.Open = func(context.Context, string) (Database, error) { return Database{}, errors.New("the database is away") }
	require.Equal(t, exitFailed, d.run(t, "summary"))
	require.Equal(t, "orderflow: the database is away\n", d.err.String())
	for _, probe := range [][]string{{"health"}, {"health", "live"}} {
		require.Equal(t, exitUsage, d.run(t, probe...), "a database does not say how an app is")
		require.Contains(t, d.err.String(), "asked of the app")
	}
	reading := sit(always(200, asJSON, `{"byStatus":{}}`))
	reading.URL = ""
	reading.Open = func(context.Context, string) (Database, error) {
		return Database{API: reading, About: "acting", Close: func() error { return errors.New("it cannot be closed") }}, nil
	}
	require.Equal(t, exitFailed, reading.run(t, "summary"))
	require.Equal(t, "orderflow: it cannot be closed\n", reading.err.String(), "who only looks is told nothing")
}
