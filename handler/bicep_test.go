package main

import (
	"regexp"
	"strings"
)

// template is what a Bicep file says by name.
type template struct {
	declared  map[string]string // its params, vars, resources, modules and outputs, and which of these each is
	described map[string]bool   // those with an @description
	optional  map[string]bool   // params with a default
	local     map[string]bool   // what loops and lambdas call their items
	used      map[string]bool   // every name that is referred to
	modules   map[string]module
	outputs   [][2]string // of which module, which output is asked for
}

// module is another template that is deployed, and the params that it is given.
type module struct {
	file   string
	params []string
}

// bicepKnows are the words and functions of the language that the templates use.
var bicepKnows = []string{
	"string", "int", "bool", "object", "array", "true", "false", "null", "if", "for", "in", "existing",
	"description", "minLength", "maxLength", "minValue", "maxValue", "allowed", "batchSize",
	"resourceGroup", "subscriptionResourceId", "tenant", "guid", "uniqueString", "loadJsonContent", "json",
	"union", "items", "map", "filter", "toObject", "empty", "startsWith", "split", "last",
}

var (
	bicepToken       = regexp.MustCompile(`[A-Za-z_]\w*|\d+|=>|[^\s\w]|\n`)
	bicepDeclaration = regexp.MustCompile(`(?m)^(param|var|resource|module|output) (\w+)(.*)`)
	bicepOutput      = regexp.MustCompile(`\b(\w+)\.outputs\.(\w+)`)
	bicepComment     = regexp.MustCompile(`(?m)(^|\s)//.*$`)
)

// readTemplate reads a file that the grammar finds well-formed.
func readTemplate(text string) template {
	b := template{
		declared: make(map[string]string), described: make(map[string]bool), optional: make(map[string]bool),
		local: make(map[string]bool), used: make(map[string]bool), modules: make(map[string]module),
	}
	text = bicepComment.ReplaceAllString(text, "")
	for _, at := range bicepDeclaration.FindAllStringSubmatchIndex(text, -1) {
		kind, name, rest := text[at[2]:at[3]], text[at[4]:at[5]], text[at[6]:at[7]]
		b.declared[name] = kind
		b.optional[name] = kind == "param" && strings.Contains(rest, "=")
		for decorators := text[:at[0]]; strings.HasSuffix(decorators, "\n"); {
			line := decorators[strings.LastIndex(decorators[:len(decorators)-1], "\n")+1:]
			if !strings.HasPrefix(line, "@") {
				break
			}
			b.described[name] = b.described[name] || strings.HasPrefix(line, "@description('")
			decorators = strings.TrimSuffix(decorators, line)
		}
		if kind == "module" {
			b.modules[name] = module{file: strings.Split(rest, "'")[1], params: paramsOf(text[at[0]:])}
		}
	}
	for _, m := range bicepOutput.FindAllStringSubmatch(text, -1) {
		b.outputs = append(b.outputs, [2]string{m[1], m[2]})
	}
	b.refer(text)
	return b
}

// paramsOf are the params that the module at the beginning of the text is given.
func paramsOf(text string) []string {
	_, inside, _ := strings.Cut(text, "\n  params: {\n")
	inside, _, _ = strings.Cut(inside, "\n  }\n")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^    (\w+):`).FindAllStringSubmatch(inside, -1) {
		names = append(names, m[1])
	}
	return names
}

// refer notes the names that a text refers to: not those of properties, nor what
// a string says outside ${…}.
func (b *template) refer(text string) {
	var interpolated strings.Builder
	tokens := bicepToken.FindAllString(cutStrings(text, &interpolated), -1)
	around := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return "\n"
		}
		return tokens[i]
	}
	for i, token := range tokens {
		before, after := around(i-1), around(i+1)
		switch {
		case !regexp.MustCompile(`^[A-Za-z_]`).MatchString(token), before == ".":
		case after == ":" && (before == "\n" || before == "{" || before == ","): // a property
		case before == "param", before == "var", before == "resource", before == "module", before == "output":
		case b.declares(token, before):
		case before == "for", after == "=>":
			b.local[token] = true
		default:
			b.used[token] = true
		}
	}
	if interpolated.Len() > 0 {
		b.refer(interpolated.String())
	}
}

// declares reports whether a word begins a declaration, or another statement.
func (b *template) declares(token, before string) bool {
	switch token {
	case "param", "var", "resource", "module", "output", "targetScope":
		return before == "\n"
	}
	return false
}

// cutStrings is the text without its strings; what they interpolate is written
// to another.
func cutStrings(text string, interpolated *strings.Builder) string {
	var code strings.Builder
	inside := false
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\'':
			inside = !inside
			code.WriteByte(' ')
		case !inside:
			code.WriteByte(text[i])
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], "${"):
			end := i + strings.Index(text[i:], "}")
			interpolated.WriteString(text[i+2:end] + "\n")
			i = end
		}
	}
	return code.String()
}
