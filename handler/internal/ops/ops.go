// Package ops draws the operators' page: a shell that holds no data, and
// fragments of HTML for its views. It renders what it is given and does nothing
// else: what is shown is read in functions, and what is done about it is done by
// the API, for whose actions the fragments have buttons.
//
// Read view.go for how a fragment is made, then a view: overview.go, orders.go,
// order.go, messages.go. diagram.go draws the process, action.go what may be
// done. assets holds the templates, the style and the script.
package ops

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"strings"
)

//go:embed assets
var assets embed.FS

// Page draws. Its methods may be called at once.
type Page struct {
	shell     []byte
	policy    string
	templates *template.Template
	readOnly  bool // nothing may be done, so nothing is offered
}

// New is a page that offers what operators may do, unless it is read-only.
func New(readOnly bool) *Page {
	p := &Page{readOnly: readOnly}
	p.templates = template.Must(template.New("").Funcs(funcs()).ParseFS(assets, "assets/*.tmpl"))
	style, script := asset("page.css"), asset("page.js")
	p.shell = []byte(strings.NewReplacer("{{style}}", style, "{{script}}", script).Replace(asset("shell.html")))
	// The page's icon is a data: image; nothing else is loaded from anywhere.
	p.policy = "default-src 'none'; style-src '" + hash(style) + "'; script-src '" + hash(script) + "'; img-src data:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return p
}

// Shell is the page without any data, and the Content-Security-Policy that goes
// with it: its one style and its one script, by their hashes, and no other.
func (p *Page) Shell() (html []byte, policy string) { return p.shell, p.policy }

// hash is a text as a Content-Security-Policy names it.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// asset is an embedded file.
func asset(name string) string {
	text, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(text)
}

// render makes a fragment. What is rendered is made here, of texts and numbers,
// so that a failure is a fault of the template.
func (p *Page) render(view string, data any) []byte {
	var b bytes.Buffer
	if err := p.templates.ExecuteTemplate(&b, view, data); err != nil {
		panic(err)
	}
	return b.Bytes()
}
