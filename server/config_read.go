package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
)

// Load reads the defaults, then the file if a path is given, then the environment. It fails only when the file cannot
// be read at all. A wrong key or value keeps its default, and Check reports it together with every other mistake.
//
// The file has the form of Ares, or that of the gpu-scheduler: see readGPUScheduler.
func Load(path string, environ []string) (Config, error) {
	cfg := Default()
	if path == "" {
		cfg.readGPUScheduler("", nil, environ)
	} else {
		data, err := os.ReadFile(path)
		if err != nil {
			return cfg, fmt.Errorf("read configuration: %w", err)
		}
		if err = cfg.parse(path, data, environ); err != nil {
			return cfg, ares.Errorf(ares.Invalid, "%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if len(cfg.wrong) > 0 {
			cfg.wrong[0].Field = path + ": " + cfg.wrong[0].Field
		}
	}
	cfg.environment(environ)
	return cfg, nil
}

// The method `parse` sets the fields from the content of a configuration file, and stores the mistakes that it finds. The
// variables of the gpu-scheduler belong to a file in its form. They also apply beside a file that could have either form,
// because it has the section scheduler only.
func (c *Config) parse(path string, data []byte, environ []string) error {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		c.readGPUScheduler(path, nil, environ)
		return nil
	} else if err != nil {
		return err
	}
	if err := dec.Decode(&more); err == nil {
		return fmt.Errorf("line %d: a second YAML document begins here, but the file must contain only one", more.Line)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	top := doc.Content[0]
	if gpuSchedulerSectionOf(top) != "" {
		c.readGPUScheduler(path, top, environ)
		return nil
	}
	setFromFile(reflect.ValueOf(c).Elem(), "", top, &c.wrong)
	if hasOwnKeys(top) {
		c.ignoreGPUScheduler(path, environ)
	} else {
		c.readGPUScheduler(path, nil, environ)
	}
	return nil
}

// setFromFile sets the field `v` to the value of the YAML node n. The argument "at" is the path of the node in the
// file.
func setFromFile(v reflect.Value, at string, n *yaml.Node, wrong *ares.Problems) {
	line := n.Line // the line of an alias, not of its anchor
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.ShortTag() == "!!null":
	case v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		v.SetZero() // an empty list is no list
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct && n.Kind == yaml.SequenceNode:
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, item := range n.Content {
			setFromFile(list.Index(i), fmt.Sprintf("%s[%d]", at, i), item, wrong)
		}
		v.Set(list)
	case v.Kind() != reflect.Struct:
		if !decodeValue(v, n) {
			wrong.Add(fmt.Sprintf("line %d: %s", line, at), "want %s, got %s", expectedType(v), describeNode(n))
		}
	case n.Kind != yaml.MappingNode && at == "":
		wrong.Add(fmt.Sprintf("line %d", line), "want keys and values such as http_addr: 127.0.0.1:8080, got %s", describeNode(n))
	case n.Kind != yaml.MappingNode:
		wrong.Add(fmt.Sprintf("line %d: %s", line, at), "want %s, got %s", expectedType(v), describeNode(n))
	default:
		setFromMapping(v, at, n, wrong)
	}
}

// decodeValue decodes one value. It rejects a fraction for an integer key, because the YAML decoder
// would truncate the fraction.
func decodeValue(v reflect.Value, n *yaml.Node) bool {
	if v.Kind() == reflect.Int && n.ShortTag() != "!!int" {
		return false
	}
	return n.Decode(v.Addr().Interface()) == nil
}

func setFromMapping(v reflect.Value, at string, n *yaml.Node, wrong *ares.Problems) {
	fields, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		if key := v.Type().Field(i).Tag.Get("yaml"); key != "" {
			fields[key] = v.Field(i)
			names = append(names, key)
		}
	}
	if at != "" {
		at += "."
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, line := n.Content[i].Value, n.Content[i].Line
		field, known := fields[key]
		switch first := lines[key]; {
		case !known:
			message := "there is no key " + at + key
			if near := ares.Nearest(key, names); near != "" {
				message += "; did you mean " + at + near + "?"
			}
			wrong.Add(fmt.Sprintf("line %d", line), "%s", message)
		case first > 0:
			wrong.Add(fmt.Sprintf("line %d: %s", line, at+key), "was already given in line %d", first)
		default:
			lines[key] = line
			setFromFile(field, at+key, n.Content[i+1], wrong)
		}
	}
}

// expectedType describes the type of a key's value.
func expectedType(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Int:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			return "a list of items with keys of their own, such as - name: one"
		}
		return "a list of words such as [a, b]"
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			return "names with words such as {ml-team: submitter}"
		}
		return "names with numbers such as {h100: 2.5}"
	case reflect.Struct:
		return "keys of its own, such as " + v.Type().Field(0).Tag.Get("yaml")
	default:
		return "text"
	}
}

func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	default:
		return fmt.Sprintf("%q", n.Value)
	}
}

// This method sets fields from environment variables that begin with ARES_. Variables that are not keys of this
// configuration belong to other parts of Ares and are ignored.
func (c *Config) environment(environ []string) {
	vars := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			vars[k] = v
		}
	}
	for alias, name := range map[string]string{"ETCD_ENDPOINTS": "ARES_ETCD_ENDPOINTS", "LOG_LEVEL": "ARES_LOG_LEVEL"} {
		if _, set := vars[name]; !set && vars[alias] != "" {
			vars[name] = vars[alias]
		}
	}
	setFromEnvironment(reflect.ValueOf(c).Elem(), "ARES", vars, &c.wrong)
	c.Log.Level = strings.ToLower(c.Log.Level)
}

func setFromEnvironment(v reflect.Value, prefix string, vars map[string]string, wrong *ares.Problems) {
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		if key == "" {
			continue
		}
		name := prefix + "_" + strings.ToUpper(key)
		field := v.Field(i)
		if field.Kind() == reflect.Struct {
			setFromEnvironment(field, name, vars, wrong)
			continue
		}
		text := vars[name]
		switch {
		case text == "":
			continue
		case field.Kind() == reflect.String:
			field.SetString(text)
			continue
		case field.Kind() == reflect.Slice:
			text = "[" + text + "]"
		case field.Kind() == reflect.Map:
			text = "{" + strings.ReplaceAll(text, "=", ": ") + "}" // h100=2, as variables are written
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 || !decodeValue(field, doc.Content[0]) {
			wrong.Add(name, "want %s, got %q", expectedType(field), vars[name])
		}
	}
}
