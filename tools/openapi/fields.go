package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// fieldsHead is the beginning of the page about the fields of a job. The rest is generated.
const fieldsHead = `# The fields of a job

A job file and the body of ` + "`POST /api/v1/jobs`" + ` have these fields. [jobs.md](../guide/jobs.md) explains the common ones, and has the
[fields with units](../guide/jobs.md#values-with-units) that only a job file has. [limits.md](limits.md) has the limits. Times are
as in ` + "`2030-01-02T15:04:05Z`" + `. The page is generated from ` + "`apipb/job.proto`" + ` by ` + "`make generate`" + `.
`

// writeFields writes a page about the fields of a job, and of the messages in them.
func writeFields(file string, doc object) error {
	schemas := find(doc, "#/components/schemas").(object)
	var out bytes.Buffer
	out.WriteString(fieldsHead)
	for todo, done := []string{"JobSpec"}, map[string]bool{}; len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		if done[name] {
			continue
		}
		done[name] = true
		schema, ok := schemas[name].(object)
		if !ok {
			return fmt.Errorf("there is no schema %s", name)
		}
		title := name
		if name == "JobSpec" {
			title = "Job"
		}
		fmt.Fprintf(&out, "\n## %s\n\n", title)
		if text := oneLine(schema["description"]); text != "" && name != "JobSpec" {
			fmt.Fprintf(&out, "%s\n\n", text)
		}
		out.WriteString("| field | type | meaning |\n|---|---|---|\n")
		properties := schema["properties"].(object)
		for _, field := range slices.Sorted(maps.Keys(properties)) {
			kind, refs := typeOf(properties[field].(object))
			text := oneLine(properties[field].(object)["description"])
			if text == "" {
				return fmt.Errorf("the field %s of %s has no comment in apipb/job.proto", field, name)
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", field, kind, strings.ReplaceAll(text, "|", `\|`))
			todo = append(todo, refs...)
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o644) //nolint:gosec // documentation is for everyone
}

// The function `typeOf` describes the type of a field, and returns the schemas that it needs.
func typeOf(field object) (text string, refs []string) {
	if ref, ok := field["$ref"].(string); ok {
		name := ref[strings.LastIndex(ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name)), []string{name}
	}
	if all, ok := field["allOf"].([]any); ok && len(all) == 1 {
		return typeOf(all[0].(object))
	}
	switch kind := field["type"]; kind {
	case "array":
		text, refs = typeOf(field["items"].(object))
		return "list of " + text, refs
	case "object":
		if _, ok := field["additionalProperties"].(object); ok {
			return "map", nil
		}
		return "object", nil
	case "string":
		if field["format"] == "date-time" {
			return "time", nil
		}
		return "string", nil
	default:
		return fmt.Sprint(kind), nil
	}
}

// oneLine joins the lines of a description.
func oneLine(description any) string {
	text, _ := description.(string)
	return strings.Join(strings.Fields(text), " ")
}
