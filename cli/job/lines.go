package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/command"
)

// A lineTable has the line of each field of one job in a file. The keys are the paths of the fields as errors name them,
// such as placement.node_affinity[0].
type lineTable map[string]int

// documentLines returns the lines of the fields of each document in a YAML or JSON file.
func documentLines(data []byte) []lineTable {
	var out []lineTable
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		if dec.Decode(&doc) != nil { // the end, or a mistake that the reader of the file has reported
			return out
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && doc.Content[0].Tag != "!!null" {
			table := lineTable{}
			table.add("", doc.Content[0])
			out = append(out, table)
		}
	}
}

// jobLines returns the lines of the fields of each job in a file, in the order of the jobs.
func jobLines(data []byte) []lineTable {
	var out []lineTable
	for _, doc := range documentLines(data) {
		if _, many := doc["jobs"]; !many {
			out = append(out, doc)
			continue
		}
		for i := 0; doc[fmt.Sprintf("jobs[%d]", i)] > 0; i++ {
			job, prefix := lineTable{}, fmt.Sprintf("jobs[%d].", i)
			for path, line := range doc {
				if rest, ok := strings.CutPrefix(path, prefix); ok {
					job[rest] = line
				}
			}
			out = append(out, job)
		}
	}
	return out
}

// The method `add` records the lines of a value and of everything in it.
func (t lineTable) add(path string, n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			field := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
			t[field] = n.Content[i].Line
			t.add(field, n.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, e := range n.Content {
			field := fmt.Sprintf("%s[%d]", path, i)
			t[field] = e.Line
			t.add(field, e)
		}
	}
}

// The method `line` returns the line of a field, or of the nearest field around it that the file has. It returns 0 if the
// file has none.
func (t lineTable) line(field string) int {
	for field != "" {
		if n := t[field]; n > 0 {
			return n
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 0
}

// The method `locate` adds the lines of the fields to an error about these fields. It keeps the code of the error.
func (t lineTable) locate(err error) error {
	if many, ok := errors.AsType[*ares.InvalidRequest](err); ok {
		out := &ares.InvalidRequest{Problems: slices.Clone(many.Problems)}
		var texts []string
		for _, p := range out.Problems {
			texts = append(texts, t.at(p.Field, fmt.Sprintf("%s: %s", p.Field, p.Message)))
		}
		return ares.Errorf(ares.Invalid, "%s", strings.Join(texts, "; "))
	}
	if one, ok := errors.AsType[*ares.Error](err); ok && t.line(one.Field) > 0 {
		return &ares.Error{Code: one.Code, Message: t.at(one.Field, one.Message), Field: one.Field}
	}
	return err
}

func (t lineTable) at(field, text string) string {
	if n := t.line(field); n > 0 {
		return fmt.Sprintf("line %d: %s", n, text)
	}
	return text
}

// The method `located` adds the name of the job file and the lines of the fields to an error with which the server
// refused job i of the file. If a flag set the field, the file is not at fault, and the error is returned unchanged.
func (s *submission) located(i int, err error) error {
	if err == nil || s.file == "" || s.file == "-" {
		return err
	}
	data, unread := os.ReadFile(s.file)
	if unread != nil {
		return err
	}
	tables := jobLines(data)
	if i >= len(tables) {
		return err
	}
	found := tables[i].locate(err)
	if found == err || found.Error() == err.Error() { //nolint:errorlint // whether it is the same value
		return err
	}
	return command.InFile(s.file, found)
}
