package project

import (
	"io/fs"
	"path"
	"reflect"
	"regexp"
	"strings"
)

// loaded checks that the templates load the files that are made for them, and
// read of topics and subscriptions all that is said there. Whether they make of it
// what they should is for the compiler and for Azure to say.
func (c *check) loaded() {
	const do = "have a template read it, or what Azure makes is not what the program says"
	comment := regexp.MustCompile(`(?m)(^|\s)//.*$`)
	paths, _ := fs.Glob(c.root, templates) // the pattern is sound
	var text strings.Builder
	for _, file := range paths {
		if data, ok := c.read(file, ""); ok {
			text.Write(comment.ReplaceAll(data, nil))
		}
	}
	for _, file := range []string{topicsFile, settingsFile} {
		if !strings.Contains(text.String(), "loadJsonContent('"+path.Base(file)+"')") {
			c.find(templates, do, "no template loads %s", file)
		}
	}
	reads := func(name string, said reflect.Type) {
		for field := range said.Fields() {
			property := name + "." + field.Tag.Get("json")
			if !regexp.MustCompile(regexp.QuoteMeta(property) + `\b`).MatchString(text.String()) {
				c.find(templates, do, "no template reads %s of %s", property, topicsFile)
			}
		}
	}
	reads("topic", reflect.TypeFor[Topic]())
	reads("subscription", reflect.TypeFor[Subscription]())
}
