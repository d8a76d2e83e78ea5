package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
)

// connect finds what answers. Its close is not nil.
func (c *command) connect(ctx context.Context) (closed func() error, err error) {
	nothing := func() error { return nil }
	named := make(map[string]bool)
	c.flags.Visit(func(f *flag.Flag) { named[f.Name] = true })
	if !named["url"] {
		c.url = c.URL
	}
	switch {
	case named["url"] && c.url != "" && c.settings != "":
		return nothing, wrong("-url and -settings name two things to ask: name one")
	case c.settings == "" && c.url != "":
		key, err := c.readKey()
		if err != nil {
			return nothing, err
		}
		base, err := baseOf(c.url, key)
		if err != nil {
			return nothing, wrong("%v", err)
		}
		c.client = &client{base: base, key: key, api: c.Network, timeout: c.wait, note: c.note}
		return nothing, nil
	case c.broker:
		return nothing, wrong("what the broker gave up is asked of an app, which is connected to it: name one with -url or ORDERFLOW_URL")
	case c.probe:
		return nothing, wrong("how an app is, is asked of the app: name one with -url or ORDERFLOW_URL; `handler check` looks at a database")
	case c.keyFile != "":
		return nothing, wrong("-key-file is for an app: name it with -url or ORDERFLOW_URL")
	}
	d, err := c.Open(ctx, c.settings)
	if err != nil {
		return nothing, err
	}
	if c.acts() {
		c.note(d.About)
	}
	c.client = &client{base: "http://the.database", api: d.API, timeout: c.wait, note: c.note}
	return d.Close, nil
}

// readKey is the key to send, empty for none. No error holds it.
func (c *command) readKey() (string, error) {
	key := c.Key
	if c.keyFile != "" {
		from := c.In
		if c.keyFile != "-" {
			f, err := os.Open(c.keyFile)
			if err != nil {
				return "", wrong("-key-file: %v", err)
			}
			defer f.Close()
			from = f
		}
		text, err := io.ReadAll(io.LimitReader(from, 4096))
		if err != nil {
			return "", wrong("-key-file: %v", err)
		}
		key = string(text)
		if strings.TrimSpace(key) == "" {
			return "", wrong("-key-file: there is no key in it")
		}
	}
	key = strings.TrimSpace(key)
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", wrong("the key has characters that no key has; it is one line of letters and digits")
	}
	return key, nil
}

// baseOf reads the address of an app. It says what is wrong with one.
func baseOf(address, key string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http"):
		return "", errors.New("the URL of an app begins with https://, as in https://NAME.azurewebsites.net, or with http:// on this machine")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the URL of an app is its address alone; the key comes from ORDERFLOW_KEY or -key-file")
	case key != "" && u.Scheme == "http" && !loopback(u.Hostname()):
		return "", errors.New("a key is not sent over http://, where others can read it: use https://")
	}
	path := strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), "/api")
	return u.Scheme + "://" + u.Host + path, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
