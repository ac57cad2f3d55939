package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// maxFileBytes limits what is read from a file or standard input.
const maxFileBytes = 64 << 20

func valueOf(v any) protoreflect.Value { return protoreflect.ValueOf(v) }

// readFile reads a file, or standard input for "-".
func (a *app) readFile(name string) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the file: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxFileBytes {
		return nil, ares.Errorf(ares.TooLarge, "%s is larger than %d MB", name, maxFileBytes>>20)
	}
	return data, nil
}

// readJobs reads the jobs in a file: one document, several, or a list under
// "jobs:".
func (a *app) readJobs(name string) ([]*apipb.JobSpec, error) {
	data, err := a.readFile(name)
	if err != nil {
		return nil, err
	}
	specs, err := parseJobs(data)
	if err != nil {
		return nil, in(name, err)
	}
	return specs, nil
}

// in says in which file a mistake is, keeping its code.
func in(name string, err error) error {
	if name == "-" {
		name = "standard input"
	}
	return fmt.Errorf("%s: %w", name, err)
}

func parseJobs(data []byte) ([]*apipb.JobSpec, error) {
	documents, err := toJSON(data)
	if err != nil {
		return nil, err
	}
	var specs []*apipb.JobSpec
	for i, doc := range documents {
		got, err := parseDocument(doc)
		if err != nil && len(documents) > 1 {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		specs = append(specs, got...)
	}
	if len(specs) == 0 {
		return nil, ares.Errorf(ares.Invalid, "there is no job in it")
	}
	return specs, nil
}

func parseDocument(doc []byte) ([]*apipb.JobSpec, error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(doc, &keys) == nil && keys["jobs"] != nil {
		var many apipb.SubmitJobsRequest
		if err := apipb.UnmarshalJSON(doc, &many); err != nil {
			return nil, err
		}
		return many.GetJobs(), nil
	}
	spec := &apipb.JobSpec{}
	if err := apipb.UnmarshalJSON(doc, spec); err != nil {
		return nil, err
	}
	return []*apipb.JobSpec{spec}, nil
}

// readMessage reads one message from a YAML or JSON file.
func (a *app) readMessage(name string, m proto.Message) error {
	data, err := a.readFile(name)
	if err != nil {
		return err
	}
	documents, err := toJSON(data)
	if err != nil {
		return in(name, err)
	}
	if len(documents) != 1 {
		return in(name, ares.Errorf(ares.Invalid, "want one document, got %d", len(documents)))
	}
	if err := apipb.UnmarshalJSON(documents[0], m); err != nil {
		return in(name, err)
	}
	return nil
}

// toJSON turns YAML into JSON, document by document. JSON stays as it is, so
// that mistakes in it are told with their own lines.
func toJSON(data []byte) ([][]byte, error) {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(trimmed) {
		return [][]byte{data}, nil
	}
	var out [][]byte
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var v any
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, ares.Errorf(ares.Invalid, "%s", yamlMistake(err))
		}
		if v == nil { // an empty document, as after a last ---
			continue
		}
		if v, err = jsonable(v); err != nil {
			return nil, err
		}
		doc, err := json.Marshal(v)
		if err != nil {
			return nil, ares.Errorf(ares.Invalid, "%s", err)
		}
		out = append(out, doc)
	}
}

// jsonable turns what YAML allows as keys into strings. Two keys that become
// one, such as 1 and 1.0, are a mistake: which of them counts would be chance.
func jsonable(v any) (_ any, err error) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if v[k], err = jsonable(e); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			name := fmt.Sprint(k)
			if _, twice := m[name]; twice {
				return nil, ares.Errorf(ares.Invalid, "%s: is there twice: keep one of them", name)
			}
			if m[name], err = jsonable(e); err != nil {
				return nil, err
			}
		}
		return m, nil
	case []any:
		for i, e := range v {
			if v[i], err = jsonable(e); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// yamlMistake puts a YAML error into one line.
func yamlMistake(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n")
	return "this is not YAML: " + strings.Join(strings.Fields(text), " ")
}
