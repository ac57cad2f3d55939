package policy

import (
	"reflect"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Field is a field that an expression can read.
type Field struct {
	Name string // with its variable, such as job.gpus
	Type string // as CEL calls it
	Text string // its description
	On   []ares.PolicyPoint
}

// Fields lists the fields that expressions can read, grouped by variable.
func Fields() []Field {
	jobs, calls := []ares.PolicyPoint{ares.OnSubmission, ares.OnPlacement}, []ares.PolicyPoint{ares.OnAccess}
	var out []Field
	add := func(seen []variable, on []ares.PolicyPoint) {
		for _, v := range seen {
			for f := range v.of.Fields() {
				name := v.name + "." + f.Tag.Get("json")
				if k := slices.IndexFunc(out, func(known Field) bool { return known.Name == name }); k >= 0 {
					out[k].On = append(slices.Clone(out[k].On), on...)
					continue
				}
				out = append(out, Field{Name: name, Type: typeName(f.Type), Text: f.Tag.Get("doc"), On: on})
			}
		}
	}
	add(jobVariables, jobs)
	add(accessVariables, calls)
	return append(out, Field{Name: "now", Type: "timestamp", Text: "the time of the evaluation, by the server's clock", On: ares.PolicyPoints()})
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.Int:
		return "int"
	case reflect.Float64:
		return "double"
	case reflect.String:
		return "string"
	case reflect.Slice:
		return "list(" + typeName(t.Elem()) + ")"
	case reflect.Map:
		return "map(" + typeName(t.Key()) + ", " + typeName(t.Elem()) + ")"
	default:
		return "timestamp" // there is no other struct
	}
}
