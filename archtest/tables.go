package archtest

// The constant `module` is the module's import path.
const module = "github.com/ares-scheduler/ares"

// The variable `layers` assigns each component a layer. A component is a top-level directory with all
// directories below it. "." is the root package, and each directory in cmd is a component. A component
// imports only components of lower layers.
var layers = map[string]int{
	".":          0, // the types that all others share
	"pause":      0, // waits that a context can cut short
	"loopback":   0, // addresses that cannot leave this machine
	"asciicast":  0, // the format of recorded sessions; the server writes it and the command line plays it
	"joblog":     0, // how the output of a rank is read, on its node and where it is stored
	"apipb":      1, // the wire contract; store and api both use it
	"secret":     1, // encryption of secrets; its keys are outside the store
	"audit":      1, // the hash-chained audit log; history stores its entries too
	"forecast":   1, // the models that learn feeds
	"engine":     2,
	"policy":     2,
	"learn":      2, // runtimes and node scores, learned from events
	"store":      2,
	"history":    2,
	"pki":        2, // certificates and join tokens
	"notify":     2, // alerts by webhook and mail
	"rediscache": 2, // the optional Redis cache
	"objects":    2, // the code of jobs, in chunks named by their content, the output of ended jobs, recordings of sessions
	"metrics":    3, // the metrics of a scheduler that owns an engine.State: the server, and the Kubernetes scheduler
	"auth":       3, // authentication: tokens, OIDC
	"control":    3,
	"client":     3,
	"kube":       4, // pods of a Kubernetes cluster, scheduled by the engine
	"api":        4,
	"agent":      4,
	"federation": 4, // hub and member clusters: parts of the server that use store and control
	"sim":        5, // simulates federations too
	"server":     5,
	"cli":        6,
	"cmd/":       7, // every directory in cmd
}

// The variable `unlayered` lists the components outside the layers. Components outside the layers may
// import every package, and no component may import them.
var unlayered = map[string]bool{"archtest": true, "test": true}

// The variable `forbidden` lists imports that are not allowed although the layers would allow them.
var forbidden = []struct {
	from, to []string
	why      string
}{
	{
		from: []string{"agent", "cli", "client"},
		to:   []string{"store", "control"},
		why:  "outside the control plane, code calls Ares through client",
	},
}

// For each import path, soleImporters names the only component that may import
// the path or a path below it. If an entry names no component, no component may
// import its path.
var soleImporters = []struct {
	path, component, why string
}{
	{"go.etcd.io/etcd", "store", "every write to etcd is a compared transaction of store"},
	{"go.etcd.io/bbolt", "store", "every write to etcd is a compared transaction of store"},
	{"go.etcd.io/raft", "store", "every write to etcd is a compared transaction of store"},
	{module + "/store/storepb", "store", "the format of stored records is private to store"},
	{"database/sql", "history", "SQL holds history only; a decision never reads it"},
	{"modernc.org/sqlite", "history", "SQL holds history only; a decision never reads it"},
	{"github.com/jackc/pgx", "history", "SQL holds history only; a decision never reads it"},
	{"github.com/pressly/goose", "history", "SQL holds history only; a decision never reads it"},
	{"github.com/redis/go-redis", "rediscache", "Redis is optional, so one package handles its absence"},
	{"gocloud.dev", "objects", "the bucket of objects is private to objects"},
	{"github.com/aws/aws-sdk-go-v2", "objects", "the bucket of objects is private to objects"},
	{"k8s.io", "kube", "everything else runs without Kubernetes"},
	{"sigs.k8s.io", "kube", "everything else runs without Kubernetes"},
}

// The variable `ranks` lists the packages of a component from top to bottom. A package imports only
// packages below it in the list.
var ranks = map[string][]string{
	"engine": {
		"engine",
		"engine/explain",
		"engine/cycle",
		"engine/preempt",
		"engine/backfill",
		"engine/placement",
		"engine/state",
		"engine/window",
		"engine/job",
		"engine/cluster/score/baseline",
		"engine/cluster/score",
		"engine/cluster",
		"engine/queue",
		"engine/topology",
		"engine/topology/links",
		"engine/config",
	},
	"api": {
		"api",
		"api/rest",
		"api/service",
		"api/pipeline",
		"api/method",
	},
	"cli": {
		"cli",
		"cli/host",
		"cli/sim",
		"cli/top",
		"cli/job",
		"cli/admin",
		"cli/account",
		"cli/command",
		"cli/contexts",
		"cli/output",
		"cli/exit",
		"cli/man",
	},
	"control": {
		"control",
		"control/admission",
		"control/scheduler",
		"control/lifecycle",
		"control/estimate",
		"control/accounting",
		"control/secrets",
		"control/sessionrecording",
		"control/code",
		"control/notices",
		"control/cache",
		"control/recording",
	},
}

// The variable `unranked` lists the packages of a ranked component that have no rank, because they only
// check or test the other packages. Unranked packages may import every package in ranks, and no package in
// ranks may import them.
var unranked = map[string]string{
	"engine/laws":         "it checks plans from outside",
	"engine/enginetest":   "it is for tests",
	"control/controltest": "it is for tests",
}

// The variable `optional` lists the packages that no other package of their component imports. Each entry
// gives the reason.
var optional = map[string]string{
	"engine/cluster/score/baseline": "it holds policies for comparisons, and a decision works without them",
}

// The variable `pure` lists the components, and single packages of other components, that use no input, output, clock,
// goroutines or randomness. Each entry names the packages that the component may import. An entry that ends in "/" also allows the
// paths below it.
var pure = map[string][]string{
	".": {
		"cmp", "crypto/sha256", "encoding/base32", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
		"hash/fnv", "iter", "maps", "math", "math/bits", "path", "slices", "sort", "strconv", "strings", "time", "unicode/utf8",
	},
	"engine": {
		module, module + "/engine/",
		"cmp", "container/heap", "errors", "fmt", "iter", "math", "math/big", "math/bits", "slices", "strings", "time",
	},
	"policy": {
		module, module + "/policy/", "cel.dev/cel-go/",
		"cmp", "errors", "fmt", "iter", "maps", "math", "math/bits", "reflect", "regexp", "slices", "sort", "strconv", "strings", "time",
	},
	"forecast": {
		module, module + "/forecast/",
		"cmp", "encoding/binary", "errors", "fmt", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time", "unicode/utf8",
	},
	"federation/loan":     {"cmp", "slices", "time"},
	"federation/metadata": {module, "cmp", "maps", "slices"},
	"federation/summary": {
		module, module + "/engine", module + "/apipb", "google.golang.org/protobuf/",
		"cmp", "maps", "slices", "strings", "time",
	},
	"federation/choose": {
		module, module + "/engine", module + "/engine/config", module + "/federation/summary",
		"cmp", "fmt", "maps", "math", "math/bits", "slices", "strings", "time",
	},
	"learn": {
		module, module + "/forecast",
		"cmp", "encoding/json", "fmt", "slices", "time",
	},
}

// mapsOrdered lists the pure components in which each range over a map needs an
// orderFree mark with a reason.
var mapsOrdered = map[string]bool{"engine": true}

// clockReaders lists the functions of package time that read the clock or wait.
var clockReaders = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"Tick": true, "NewTicker": true, "NewTimer": true,
}

// The variable `supervisor` lists the packages of the supervisor, the small process that outlives the
// agent. The packages of the supervisor import only the packages in supervisorImports.
var (
	supervisor        = map[string]bool{"cmd/ares-supervisor": true, "agent/run/seat": true}
	supervisorImports = []string{
		module + "/agent/run/seat",
		"bytes", "errors", "hash/crc32", "io", "os", "os/signal", "runtime", "strconv", "strings", "sync", "sync/atomic",
		"syscall", "time", "unsafe",
	}
)

// vagueNames lists directory names that are forbidden because they say nothing
// about the content.
var vagueNames = map[string]bool{
	"pkg": true, "util": true, "utils": true, "common": true, "manager": true, "types": true, "helpers": true,
	"helper": true, "misc": true, "shared": true,
}

// These constants limit the number of lines in code that is neither a test nor
// generated.
const (
	maxFunc = 70
	maxFile = 600
	maxMain = 50 // for all of cmd/ares
)

// sizeExceptions lists the code that may exceed a limit on lines, with the reason. A key has the form
// "file.go", "file.go:Func" or "file.go:Type.Method". An exception that is no longer needed is reported as
// a problem.
var sizeExceptions = map[string]string{}

// shapeLimited lists the components whose packages and structs have the size limits below.
var shapeLimited = map[string]bool{"engine": true}

// These constants limit the number of files in a package, the number of files that refer to each other
// in a cycle, and the number of fields in a struct. Test files do not count towards these limits.
const (
	maxCycle  = 15 // files that refer to each other in a cycle
	maxFiles  = 25
	maxFields = 25 // of a struct
)

// shapeExceptions lists the packages and structs that may exceed one of these limits, each with its own
// limit. A key is either the name of a package followed by "cycle" or "files", or the name of a struct. An
// exception that is no longer needed is reported as a problem.
var shapeExceptions = map[string]int{}
