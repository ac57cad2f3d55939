package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
)

// Notices returns lines for the log about the form in which the configuration was read. There are none for a file in the
// form of Ares.
func (c *Config) Notices() []string { return slices.Clone(c.notices) }

// readGPUScheduler sets the fields from a file in the gpu-scheduler's form and from the variables GPU_SCHEDULER_*. The
// argument `top` is the top mapping of the file, or nil without a file.
func (c *Config) readGPUScheduler(path string, top *yaml.Node, environ []string) {
	from := gpuSchedulerConfig{values: map[string]gpuSchedulerValue{}}
	if top != nil {
		from.readFile(top)
	}
	used := from.readVariables(environ)
	root := from.convert()
	for _, u := range from.unknown {
		if u.line > 0 {
			from.wrong.Add(fmt.Sprintf("line %d: %s", u.line, u.key), "%s", u.message)
		} else {
			c.notices = append(c.notices, fmt.Sprintf("%s is ignored: %s", u.key, u.message))
		}
	}
	c.wrong = append(c.wrong, from.wrong...)
	if len(c.wrong) > 0 {
		return
	}
	setFromFile(reflect.ValueOf(c).Elem(), "", root, &c.wrong)
	became := strings.Join(flatten(root, ""), ", ")
	switch {
	case top != nil:
		text := fmt.Sprintf("%s has the form of the gpu-scheduler and was read as: %s", path, became)
		if len(used) > 0 {
			text += fmt.Sprintf(" (%s %s the file)", strings.Join(used, ", "), oneOrMany(used, "overrides", "override"))
		}
		c.notices = append([]string{text}, c.notices...)
	case became != "":
		c.notices = append([]string{fmt.Sprintf("%s %s read as: %s", strings.Join(used, ", "), oneOrMany(used, "was", "were"), became)}, c.notices...)
	}
}

// oneOrMany returns the form of a verb for the number of names.
func oneOrMany(names []string, one, many string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

// ignoreGPUScheduler notes the variables GPU_SCHEDULER_* beside a file in the form of Ares. They are not used, because it
// would be unclear whether the file or the variable has precedence for an address.
func (c *Config) ignoreGPUScheduler(path string, environ []string) {
	from := gpuSchedulerConfig{values: map[string]gpuSchedulerValue{}}
	if used := from.readVariables(environ); len(used) > 0 {
		c.notices = append(c.notices, fmt.Sprintf("%s: ignored, because %s has the form of Ares: set the variables ARES_* instead (docs/reference/configuration.md)", strings.Join(used, ", "), path))
	}
}

// The function `flatten` lists the keys and values below a mapping. It leaves out the password of a URL.
func flatten(n *yaml.Node, at string) []string {
	var out []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := at+n.Content[i].Value, n.Content[i+1]
		if v.Kind == yaml.MappingNode {
			out = append(out, flatten(v, key+".")...)
			continue
		}
		text := v.Value
		if u, err := url.Parse(text); err == nil && u.User != nil {
			text = u.Redacted()
		}
		out = append(out, key+"="+text)
	}
	return out
}

// ConvertConfig converts a configuration file of the gpu-scheduler and its environment variables to a file of Ares. It also
// returns notes about settings that Ares does not use. A password that comes from a variable is left out.
func ConvertConfig(file []byte, environ []string) (out []byte, notes []string, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(file))
	var doc yaml.Node
	if err = dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, ares.Errorf(ares.Invalid, "%s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	from := gpuSchedulerConfig{values: map[string]gpuSchedulerValue{}}
	if len(doc.Content) > 0 && doc.Content[0].ShortTag() != "!!null" {
		from.readFile(doc.Content[0])
	}
	from.readVariables(environ)
	if secret := from.values["database.password"]; secret.variable != "" && from.namesDatabase() {
		delete(from.values, "database.password")
		notes = append(notes, secret.variable+": left out of history.url, so that the password is in no file: give it to the server in PGPASSWORD")
	}
	root := from.convert()
	if err = from.wrong.Err(); err != nil {
		return nil, nil, err
	}
	for _, u := range from.unknown {
		switch {
		case u.line == 0 || !isAresKey(u.key):
			notes = append(notes, fmt.Sprintf("ignored: %s: %s", u.key, u.message))
		case gpuSchedulerSectionOf(doc.Content[0]) == "":
			return nil, nil, ares.Errorf(ares.Invalid, "line %d: %s is a key of Ares: the file has the form of Ares already, so use it as it is", u.line, u.key)
		default:
			notes = append(notes, fmt.Sprintf("left out: %s: it is a key of Ares: add it to the result", u.key))
		}
	}
	root.HeadComment = "Converted by ares config convert."
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err = errors.Join(enc.Encode(root), enc.Close())
	return b.Bytes(), notes, err
}
