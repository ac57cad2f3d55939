package server

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// gpuSchedulerPrefix is the prefix of the gpu-scheduler's environment variables.
const gpuSchedulerPrefix = "GPU_SCHEDULER_"

// gpuSchedulerOnly lists the sections that only a configuration file of the gpu-scheduler has. Its third section, scheduler,
// has the same keys in Ares.
var gpuSchedulerOnly = []string{"api", "database"}

// gpuSchedulerSetting is one key of the gpu-scheduler's configuration, and the key of Ares that it becomes.
type gpuSchedulerSetting struct {
	key  string
	read func(text string) (any, error) // nil for a key that Ares does not have
	to   string                         // key in the Ares configuration; "" for the keys of database, which together become history.url
	why  string                         // the reason why Ares does not have the key
}

var gpuSchedulerSettings = []gpuSchedulerSetting{
	{key: "scheduler.scheduling_interval_ms", read: readWhole, to: "scheduler.scheduling_interval_ms"},
	{key: "scheduler.max_queue_size", read: readWhole, to: "scheduler.max_queue_size"},
	{key: "scheduler.enable_preemption", read: readBool, to: "scheduler.enable_preemption"},
	{key: "scheduler.enable_gang_scheduling", read: readBool, to: "scheduler.enable_gang_scheduling"},
	{key: "scheduler.enable_thermal_aware", read: readBool, to: "scheduler.enable_thermal_aware"},
	{key: "scheduler.thermal_threshold", read: readCelsius, to: "scheduler.thermal_threshold"},
	{key: "database.host", read: readText},
	{key: "database.port", read: readPort},
	{key: "database.user", read: readText},
	{key: "database.password", read: readText},
	{key: "database.database", read: readText},
	{key: "database.sslmode", read: readSSLMode},
	{key: "api.http_port", read: readAddress, to: "http_addr"},
	{key: "api.grpc_port", read: readAddress, to: "grpc_addr"},
	{key: "api.metrics_port", read: readAddress, to: "metrics_addr"},
	{key: "api.host", why: "Ares listens on 127.0.0.1: to listen elsewhere, convert the file with ares config convert, and set http_addr and grpc_addr"},
}

// gpuSchedulerKeys returns the keys of gpuSchedulerSettings.
func gpuSchedulerKeys() []string {
	var keys []string
	for _, s := range gpuSchedulerSettings {
		keys = append(keys, s.key)
	}
	return keys
}

func readText(s string) (any, error) { return s, nil }

func readWhole(s string) (any, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("want a whole number, got %q", s)
	}
	return n, nil
}

func readCelsius(s string) (any, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= 1 && f <= config.MaxCelsius) {
		return nil, fmt.Errorf("want a temperature in °C from 1 to %d, got %q", config.MaxCelsius, s)
	}
	return f, nil
}

func readBool(s string) (any, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return nil, fmt.Errorf("want true or false, got %q", s)
	}
	return b, nil
}

func readPort(s string) (any, error) {
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("want a port from 1 to 65535, got %q", s)
	}
	return s, nil
}

// readAddress reads a port, and returns the loopback address with this port. The gpu-scheduler listened on all
// addresses. Ares needs an address of its own for that, because it then uses TLS.
func readAddress(s string) (any, error) {
	if _, err := readPort(s); err != nil {
		return nil, err
	}
	return net.JoinHostPort("127.0.0.1", s), nil
}

func readSSLMode(s string) (any, error) {
	modes := []string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}
	if !slices.Contains(modes, s) {
		return nil, fmt.Errorf("want one of %s, got %q", strings.Join(modes, ", "), s)
	}
	return s, nil
}

// gpuSchedulerValue is a value of a configuration in the gpu-scheduler's form.
type gpuSchedulerValue struct {
	text     string
	line     int    // line of the file, 0 if the value comes from a variable
	variable string // name of that variable
}

// gpuSchedulerConfig is a configuration in the gpu-scheduler's form, from a file and from variables.
type gpuSchedulerConfig struct {
	values  map[string]gpuSchedulerValue
	unknown []unknownKey
	wrong   ares.Problems
}

// unknownKey is a key that the gpu-scheduler does not have, or that Ares does not have.
type unknownKey struct {
	line    int
	key     string
	message string
}

// readFile reads the top mapping of a file. It reports the values that are not of the gpu-scheduler's form.
func (c *gpuSchedulerConfig) readFile(top *yaml.Node) {
	c.values = map[string]gpuSchedulerValue{}
	if top.Kind != yaml.MappingNode {
		c.wrong.Add(fmt.Sprintf("line %d", top.Line), "want the sections scheduler, database and api, got %s", describeNode(top))
		return
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		name, section := top.Content[i], resolveAlias(top.Content[i+1])
		if name.Value != "scheduler" && !slices.Contains(gpuSchedulerOnly, name.Value) {
			c.unknown = append(c.unknown, unknownKey{name.Line, name.Value, unknownSection(name.Value, gpuSchedulerSectionOf(top))})
			continue
		}
		switch {
		case section.ShortTag() == "!!null":
		case section.Kind != yaml.MappingNode:
			c.wrong.Add(fmt.Sprintf("line %d: %s", name.Line, name.Value), "want keys of its own, such as %s, got %s", firstKey(name.Value), describeNode(section))
		default:
			c.readSection(name.Value, section, gpuSchedulerSectionOf(top))
		}
	}
}

// readSection reads the keys of one section.
func (c *gpuSchedulerConfig) readSection(name string, section *yaml.Node, only string) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		line, key, value := section.Content[i].Line, name+"."+section.Content[i].Value, resolveAlias(section.Content[i+1])
		first, twice := c.values[key]
		switch {
		case !slices.Contains(gpuSchedulerKeys(), key):
			c.unknown = append(c.unknown, unknownKey{line, key, unknownSetting(key, only)})
		case twice:
			c.wrong.Add(fmt.Sprintf("line %d: %s", line, key), "was already given in line %d", first.line)
		case value.ShortTag() == "!!null":
		case value.Kind != yaml.ScalarNode:
			c.wrong.Add(fmt.Sprintf("line %d: %s", line, key), "want one value, got %s", describeNode(value))
		default:
			c.values[key] = gpuSchedulerValue{text: value.Value, line: line}
		}
	}
}

// readVariables lets the variables GPU_SCHEDULER_SECTION_KEY override the values of the file. It returns the names of the
// variables that it used. For a Service with the name gpu-scheduler-database, Kubernetes sets GPU_SCHEDULER_DATABASE_PORT to
// a URL such as tcp://10.0.0.1:5432 in every pod: such a value is not a setting.
func (c *gpuSchedulerConfig) readVariables(environ []string) (used []string) {
	environ = slices.Clone(environ)
	slices.Sort(environ)
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		rest, ok := strings.CutPrefix(name, gpuSchedulerPrefix)
		if !ok || value == "" { // an empty variable is treated like a missing one
			continue
		}
		i := slices.IndexFunc(gpuSchedulerSettings, func(s gpuSchedulerSetting) bool {
			return strings.ToUpper(strings.ReplaceAll(s.key, ".", "_")) == rest
		})
		if i < 0 {
			c.unknown = append(c.unknown, unknownKey{0, name, "Ares has no such setting"})
			continue
		}
		if strings.HasSuffix(name, "_PORT") && strings.HasPrefix(value, "tcp://") {
			c.unknown = append(c.unknown, unknownKey{0, name, "Kubernetes sets it to " + value + " for a Service: to set the port, give a number"})
			continue
		}
		c.values[gpuSchedulerSettings[i].key] = gpuSchedulerValue{text: value, variable: name}
		used = append(used, name)
	}
	return used
}

// The method `convert` returns the keys and values of Ares. Keys that Ares does not have are added to c.unknown.
func (c *gpuSchedulerConfig) convert() *yaml.Node {
	root := &yaml.Node{Kind: yaml.MappingNode}
	database := map[string]string{}
	for _, s := range gpuSchedulerSettings {
		v, ok := c.values[s.key]
		if !ok {
			continue
		}
		if s.read == nil {
			c.unknown = append(c.unknown, unknownKey{v.line, cmp.Or(v.variable, s.key), s.why})
			continue
		}
		value, err := s.read(v.text)
		if err != nil {
			c.wrong.Add(v.name(s.key), "%s", err)
			continue
		}
		if s.to == "" {
			database[strings.TrimPrefix(s.key, "database.")] = v.text
			continue
		}
		putKey(root, strings.Split(s.to, "."), value)
	}
	if len(database) == 0 || len(c.wrong) > 0 {
		return root
	}
	if !c.namesDatabase() {
		for _, key := range slices.Sorted(maps.Keys(database)) {
			c.unknown = append(c.unknown, unknownKey{0, c.values["database."+key].variable, "no database is named: set GPU_SCHEDULER_DATABASE_HOST, or give a file with a section database"})
		}
		return root
	}
	putKey(root, []string{"history", "url"}, databaseURL(database))
	return root
}

// The method `name` returns the name by which an error refers to a value.
func (v gpuSchedulerValue) name(key string) string {
	switch {
	case v.variable != "":
		return v.variable
	case v.line > 0:
		return fmt.Sprintf("line %d: %s", v.line, key)
	default:
		return key
	}
}

// namesDatabase reports whether the configuration names a database. A password or a port in the environment alone does
// not, because the environment may be that of a shell in which another program was started.
func (c *gpuSchedulerConfig) namesDatabase() bool {
	for key, v := range c.values { // order-free: it asks whether any of them exists
		if strings.HasPrefix(key, "database.") && (v.line > 0 || key == "database.host" || key == "database.database") {
			return true
		}
	}
	return false
}

// databaseURL returns the URL of the gpu-scheduler's database. A host that is a path is the directory of a socket.
func databaseURL(d map[string]string) string {
	host, port, user, query := cmp.Or(d["host"], "localhost"), cmp.Or(d["port"], "5432"), cmp.Or(d["user"], "postgres"), url.Values{}
	u := url.URL{Scheme: "postgres", User: url.User(user), Host: net.JoinHostPort(host, port), Path: "/" + cmp.Or(d["database"], "gpu_scheduler")}
	if strings.HasPrefix(host, "/") {
		u.Host = ""
		query.Set("host", host)
		query.Set("port", port)
	}
	if d["password"] != "" {
		u.User = url.UserPassword(user, d["password"])
	}
	if d["sslmode"] != "" {
		query.Set("sslmode", d["sslmode"])
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// putKey sets a value in nested YAML mappings, which it creates if necessary. The keys stay in the order in which they
// were added.
func putKey(m *yaml.Node, path []string, value any) {
	if len(path) == 1 {
		v := &yaml.Node{}
		if err := v.Encode(value); err != nil {
			panic(err) // only numbers, words and booleans come here
		}
		m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}, v)
		return
	}
	for i := 0; i < len(m.Content); i += 2 {
		if m.Content[i].Value == path[0] {
			putKey(m.Content[i+1], path[1:], value)
			return
		}
	}
	child := &yaml.Node{Kind: yaml.MappingNode}
	m.Content = append(m.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: path[0]}, child)
	putKey(child, path[1:], value)
}

// gpuSchedulerSectionOf returns the first section of a file that only the gpu-scheduler has, with its line. It returns ""
// if the file has none: then the file has the form of Ares.
func gpuSchedulerSectionOf(top *yaml.Node) string {
	if top.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if key := top.Content[i]; slices.Contains(gpuSchedulerOnly, key.Value) {
			return fmt.Sprintf("%s in line %d", key.Value, key.Line)
		}
	}
	return ""
}

// hasOwnKeys reports whether a file has a section or a key that only Ares has.
func hasOwnKeys(top *yaml.Node) bool {
	if top.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		if key := top.Content[i].Value; key != "scheduler" && slices.Contains(yamlKeys(reflect.TypeFor[Config]()), key) {
			return true
		}
	}
	return false
}

func resolveAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func firstKey(section string) string {
	for _, key := range gpuSchedulerKeys() {
		if rest, ok := strings.CutPrefix(key, section+"."); ok {
			return rest
		}
	}
	return ""
}

// yamlKeys returns the keys of a struct of the Ares configuration.
func yamlKeys(t reflect.Type) []string {
	var keys []string
	for field := range t.Fields() {
		if key := field.Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// isAresKey reports whether the configuration of Ares has the key, at the top or in the section scheduler.
func isAresKey(key string) bool {
	if rest, ok := strings.CutPrefix(key, "scheduler."); ok {
		return slices.Contains(yamlKeys(reflect.TypeFor[SchedulerConfig]()), rest)
	}
	return slices.Contains(yamlKeys(reflect.TypeFor[Config]()), key)
}

// unknownSection and unknownSetting explain a key that the gpu-scheduler does not have. The argument `only` names the
// section that makes the file a file of the gpu-scheduler, or is "".
func unknownSection(key, only string) string {
	if only != "" && isAresKey(key) {
		return mixed(key, only)
	}
	if near := ares.Nearest(key, append([]string{"scheduler"}, gpuSchedulerOnly...)); near != "" {
		return "the gpu-scheduler has no such section; did you mean " + near + "?"
	}
	return "Ares has no such setting"
}

func unknownSetting(key, only string) string {
	if only != "" && isAresKey(key) {
		return mixed(key, only)
	}
	if near := ares.Nearest(key, gpuSchedulerKeys()); near != "" {
		return "the gpu-scheduler has no such key; did you mean " + near + "?"
	}
	return "Ares has no such setting"
}

func mixed(key, only string) string {
	return fmt.Sprintf("the file mixes two forms: %s is a key of Ares, but %s is a section of the gpu-scheduler: convert the file with ares config convert, and add the keys of Ares to the result", key, only)
}
