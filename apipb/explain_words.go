package apipb

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	ares "github.com/ares-scheduler/ares"
)

// The variable `examples` holds a correct value for each field that users often get wrong.
var examples = map[protoreflect.Name]string{
	"command":           ` such as ["python", "train.py"]`,
	"args":              ` such as ["--epochs", "100"]`,
	"environment":       ` such as {"NAME": "value"}`,
	"labels":            ` such as {"team": "vision"}`,
	"node_selector":     ` such as {"zone": "a"}`,
	"node_requirements": ` such as [{"key": "gpu.memory", "operator": ">=", "values": ["80G"]}]`,
	"values":            ` such as ["80G"]`,
	"after":             ` of job IDs`,
	"retry_on":          ` such as ["failure", "signal"]`,
}

// The variable `spellings` holds wrong field names that users often write. Each name is
// mapped to the field that the user means.
var spellings = map[string][]protoreflect.Name{
	"gpus":        {"gpu_count", "max_gpus"},
	"gpu":         {"gpu_count"},
	"num_gpus":    {"gpu_count"},
	"cpus":        {"cpu_cores", "max_cpu_cores"},
	"cpu":         {"cpu_cores"},
	"cores":       {"cpu_cores"},
	"mem":         {"memory_mb"},
	"memory":      {"memory_mb", "max_memory_mb"},
	"gpu_memory":  {"gpu_memory_mb", "max_gpu_memory_mb"},
	"env":         {"environment"},
	"tenant":      {"tenant_id"},
	"cwd":         {"working_dir"},
	"workdir":     {"working_dir"},
	"cmd":         {"command"},
	"replicas":    {"members"},
	"nodes":       {"members"},
	"timeout":     {"max_runtime_minutes"},
	"time":        {"max_runtime_minutes"},
	"time_limit":  {"max_runtime_minutes"},
	"runtime":     {"max_runtime_minutes"},
	"walltime":    {"max_runtime_minutes"},
	"mode":        {"execution_mode"},
	"depends_on":  {"after"},
	"concurrency": {"max_concurrent_jobs"},
	"weight":      {"fair_share_weight"},
	"tier":        {"priority_tier"},
}

// The function `nearest` returns the name of the field of d that is most similar to `key`,
// or "" if no name is similar. If the field is one level deeper, the function returns its
// path.
func nearest(d protoreflect.MessageDescriptor, key string) string {
	fields := d.Fields()
	for _, name := range spellings[strings.ToLower(key)] {
		if fields.ByName(name) != nil {
			return string(name)
		}
	}
	if fd := fields.ByJSONName(key); fd != nil { // camelCase
		return string(fd.Name())
	}
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	word := strings.ToLower(key)
	if best := ares.Nearest(key, names); best != "" && ares.EditDistance(word, best) <= 1 {
		return best
	}
	for i := range fields.Len() {
		fd := fields.Get(i)
		if fd.Message() != nil && !fd.IsMap() && fd.Message().Fields().ByName(protoreflect.Name(key)) != nil {
			return string(fd.Name()) + "." + key
		}
	}
	// A word with more than one mistake is similar to many names. The first letter is seldom wrong.
	alike := func(names []string) []string {
		return slices.DeleteFunc(names, func(name string) bool { return word == "" || name[0] != word[0] })
	}
	if wrong := ares.Nearest(word, alike(slices.Sorted(maps.Keys(spellings)))); len(word) >= 3 && wrong != "" && ares.EditDistance(word, wrong) <= 1 {
		for _, name := range spellings[wrong] {
			if fields.ByName(name) != nil {
				return string(name)
			}
		}
	}
	return ares.Nearest(key, alike(names))
}

// The function `wanted` describes the values that a field accepts.
func wanted(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "an object of " + plural(fd.MapValue()) + examples[fd.Name()]
	case fd.IsList():
		return "a list of " + plural(fd) + examples[fd.Name()]
	}
	return wantedOne(fd) + examples[fd.Name()]
}

func wantedOne(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "a number"
	case protoreflect.BytesKind:
		return "a base64 string"
	case protoreflect.EnumKind:
		return "one of its names"
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if fd.Message().FullName() == "google.protobuf.Timestamp" {
			return `a time such as "2026-01-31T18:00:00Z"`
		}
		return "an object"
	default:
		return "a whole number"
	}
}

func plural(fd protoreflect.FieldDescriptor) string {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return "strings"
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return "objects"
	case protoreflect.BoolKind:
		return "true or false"
	default:
		return "numbers"
	}
}

func kindOf(tok json.Token) string {
	switch t := tok.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case json.Number:
		return "the number " + ares.Clip(t.String())
	case bool:
		if t {
			return "true"
		}
		return "false"
	case json.Delim:
		if t == '[' {
			return "a list"
		}
	}
	return "an object"
}

func join(path, key string) string {
	if path == "" {
		return ares.Clip(key)
	}
	return path + "." + ares.Clip(key)
}
