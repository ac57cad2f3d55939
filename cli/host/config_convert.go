package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/engine/config"
)

// oldPrefix is the prefix of the gpu-scheduler's environment variables.
const oldPrefix = "GPU_SCHEDULER_"

func (a *commands) configConvertCommand() *cobra.Command {
	return &cobra.Command{
		Use: "convert [FILE]", Short: "Convert a gpu-scheduler configuration to Ares", Args: command.MaxOneArg,
		Long: `Convert a scheduler-config.yaml file of gpu-scheduler to an Ares configuration. Use "-" as FILE
to read standard input. The GPU_SCHEDULER_* environment variables override the file. Settings
that Ares ignores are listed on standard error.`,
		Example: "  ares config convert scheduler-config.yaml > ares.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			var file []byte
			if len(args) == 1 {
				data, err := a.ReadFile(args[0])
				if err != nil {
					return err
				}
				file = data
			}
			out, notes, err := convertConfig(file, os.Environ())
			if err != nil {
				return err
			}
			for _, note := range notes {
				output.Printf(a.Err, "ares: %s\n", output.Clean(note))
			}
			return a.Buffered(func(w io.Writer) { output.Printf(w, "%s", out) })
		},
	}
}

// oldSetting maps one key of the gpu-scheduler's configuration to Ares.
type oldSetting struct {
	key  string
	read func(old string) (any, error) // nil for a key that Ares does not have
	to   string                        // key in the Ares configuration
	why  string                        // the reason why Ares does not have the key
}

var oldSettings = []oldSetting{
	{key: "scheduler.scheduling_interval_ms", read: wholeNumber, to: "scheduler.scheduling_interval_ms"},
	{key: "scheduler.max_queue_size", read: wholeNumber, to: "scheduler.max_queue_size"},
	{key: "scheduler.enable_preemption", read: yesNo, to: "scheduler.enable_preemption"},
	{key: "scheduler.enable_gang_scheduling", read: yesNo, to: "scheduler.enable_gang_scheduling"},
	{key: "scheduler.enable_thermal_aware", read: yesNo, to: "scheduler.enable_thermal_aware"},
	{key: "scheduler.thermal_threshold", read: degrees, to: "scheduler.thermal_threshold"},
	{key: "database.host", why: noDatabase},
	{key: "database.port", why: noDatabase},
	{key: "database.user", why: noDatabase},
	{key: "database.password", why: noDatabase},
	{key: "database.database", why: noDatabase},
	{key: "database.sslmode", why: noDatabase},
	{key: "api.http_port", read: loopback, to: "http_addr"},
	{key: "api.grpc_port", read: loopback, to: "grpc_addr"},
	{key: "api.metrics_port", read: loopback, to: "metrics_addr"},
	{key: "api.host", why: "Ares listens on 127.0.0.1; to listen elsewhere set http_addr and grpc_addr, with TLS"},
}

const noDatabase = "Ares needs no database: it keeps its state in etcd, embedded or at etcd.endpoints (history may have one: history.url)"

func wholeNumber(s string) (any, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("want a whole number, got %q", s)
	}
	return n, nil
}

func degrees(s string) (any, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 1 && f <= config.MaxCelsius) {
		return nil, fmt.Errorf("want a temperature in °C from 1 to %d, got %q", config.MaxCelsius, s)
	}
	return f, nil
}

func yesNo(s string) (any, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return nil, fmt.Errorf("want true or false, got %q", s)
	}
	return b, nil
}

func loopback(s string) (any, error) {
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("want a port from 1 to 65535, got %q", s)
	}
	return net.JoinHostPort("127.0.0.1", s), nil
}

// convertConfig converts an old configuration file and old environment variables to the new YAML.
// It also returns a list of notes.
func convertConfig(file []byte, environ []string) (out []byte, notes []string, err error) {
	values, err := oldFile(file)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, oldEnvironment(environ, values)...)
	root := &yaml.Node{Kind: yaml.MappingNode}
	root.HeadComment = "Converted by ares config convert."
	var mistakes []error
	gone := map[string][]string{} // removed keys by reason
	for _, s := range oldSettings {
		old, ok := values[s.key]
		if !ok {
			continue
		}
		delete(values, s.key)
		if s.read == nil {
			gone[s.why] = append(gone[s.why], s.key)
			continue
		}
		v, wrong := s.read(old)
		if wrong != nil {
			mistakes = append(mistakes, ares.Errorf(ares.Invalid, "%s: %s", s.key, wrong).At(s.key))
			continue
		}
		put(root, strings.Split(s.to, "."), v)
	}
	if err = errors.Join(mistakes...); err != nil {
		return nil, nil, err
	}
	for _, why := range slices.Sorted(maps.Keys(gone)) {
		notes = append(notes, fmt.Sprintf("ignored: %s: %s", strings.Join(gone[why], ", "), why))
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		notes = append(notes, fmt.Sprintf("ignored: %s: %s", key, noSuch(key)))
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err = errors.Join(enc.Encode(root), enc.Close())
	return b.Bytes(), notes, err
}

func noSuch(key string) string {
	var known []string
	for _, s := range oldSettings {
		known = append(known, s.key)
	}
	if near := apipb.Nearest(key, known); near != "" {
		return "the gpu-scheduler has no such key; did you mean " + near + "?"
	}
	return "Ares has no such setting"
}

// oldFile flattens the old YAML into keys of the form section.key.
func oldFile(data []byte) (map[string]string, error) {
	values := map[string]string{}
	var sections map[string]any
	if err := yaml.Unmarshal(data, &sections); err != nil {
		return nil, ares.Errorf(ares.Invalid, "%s", command.YamlMistake(err))
	}
	for _, section := range slices.Sorted(maps.Keys(sections)) { // sorted, because the same key may be set twice and the last value must not vary
		v := sections[section]
		keys, ok := v.(map[string]any)
		if !ok {
			values[section] = fmt.Sprint(v)
			continue
		}
		for key, v := range keys {
			values[section+"."+key] = fmt.Sprint(v)
		}
	}
	return values, nil
}

// oldEnvironment overrides values of the old file with the environment variables
// GPU_SCHEDULER_SECTION_KEY.
func oldEnvironment(environ []string, values map[string]string) (notes []string) {
	slices.Sort(environ)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, oldPrefix)
		if !ok || value == "" { // an empty variable is treated like a missing one
			continue
		}
		i := slices.IndexFunc(oldSettings, func(s oldSetting) bool {
			return strings.ToUpper(strings.ReplaceAll(s.key, ".", "_")) == rest
		})
		if i < 0 {
			notes = append(notes, "ignored: "+name+": Ares has no such setting")
			continue
		}
		values[oldSettings[i].key] = value
	}
	return notes
}

// The function `put` sets a value in nested YAML mappings, which it creates if necessary. The keys
// stay in the order in which they were added.
func put(m *yaml.Node, path []string, value any) {
	if len(path) == 1 {
		v := &yaml.Node{}
		output.Must(v.Encode(value))
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}, v)
		return
	}
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == path[0] {
			put(m.Content[i+1], path[1:], value)
			return
		}
	}
	child := &yaml.Node{Kind: yaml.MappingNode}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}, child)
	put(child, path[1:], value)
}
