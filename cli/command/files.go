package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// maxFileBytes is the maximum size of a file or of standard input.
const maxFileBytes = 64 << 20

// ReadFile reads a file, or standard input if the name is "-".
func (a *App) ReadFile(name string) ([]byte, error) {
	in := a.In
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: there is no such file", name)
		} else if err != nil {
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

// InFile adds a file name to the text of an error and keeps the error's code.
func InFile(name string, err error) error {
	if name == "-" {
		name = "standard input"
	}
	return fmt.Errorf("%s: %w", name, err)
}

// ReadMessage reads one message from a YAML or JSON file.
func (a *App) ReadMessage(name string, m proto.Message) error {
	data, err := a.ReadFile(name)
	if err != nil {
		return err
	}
	return a.ParseMessage(name, data, m)
}

// ParseMessage reads one message from the contents of a YAML or JSON file. Errors name the file.
func (a *App) ParseMessage(name string, data []byte, m proto.Message) error {
	documents, err := ToJSON(data)
	if err != nil {
		return InFile(name, err)
	}
	if len(documents) != 1 {
		return InFile(name, ares.Errorf(ares.Invalid, "expected exactly one YAML or JSON document, got %d", len(documents)))
	}
	if err := apipb.UnmarshalJSON(documents[0], m); err != nil {
		return InFile(name, err)
	}
	return nil
}

// ToJSON converts YAML to JSON, document by document. JSON is left unchanged, so that errors
// in it have the right line numbers.
func ToJSON(data []byte) ([][]byte, error) {
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
			return nil, ares.Errorf(ares.Invalid, "%s", YamlMistake(err))
		}
		if v == nil { // an empty document, such as after a final ---
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

// The function `jsonable` converts YAML keys to strings. If two keys become the same string,
// such as 1 and 1.0, the function returns an error. Otherwise the choice between their values
// would be random.
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
				return nil, ares.Errorf(ares.Invalid, "the key %q appears twice in one object: remove one of the two", name)
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

// YamlMistake formats a YAML error on one line.
func YamlMistake(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n")
	return "not YAML: " + strings.Join(strings.Fields(text), " ")
}
