package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// WriteYAML converts JSON to YAML. WriteYAML decodes and encodes the value, because JSON
// text can contain characters that YAML must escape.
func WriteYAML(w io.Writer, data []byte) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	Must(dec.Decode(&v))
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	Must(enc.Encode(yamlOf(v)))
	Must(enc.Close())
	Printf(w, "%s", escapeControls(out.String()))
}

// yamlOf converts a decoded JSON value to a YAML node. Numbers keep the notation that they
// have in JSON. Text with unprintable characters gets double quotes, because no other YAML
// style can represent it.
func yamlOf(v any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := v.(type) {
	case map[string]any:
		n.Kind = yaml.MappingNode
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, yamlOf(k), yamlOf(v[k]))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, e := range v {
			n.Content = append(n.Content, yamlOf(e))
		}
	case string:
		n.Tag, n.Value = "!!str", v
		odd := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if strings.ContainsFunc(v, odd) || strings.TrimLeft(v, " \n") != v {
			n.Style = yaml.DoubleQuotedStyle
		}
	case nil:
		n.Value = "null"
	default: // a number, true or false
		n.Value = fmt.Sprint(v)
	}
	return n
}

// escapeControls writes some characters as \u sequences, because a terminal might interpret them
// although they are valid in JSON and YAML strings.
func escapeControls(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
