package archtest

// module is the import path of the tree's root.
const module = "github.com/ares-scheduler/ares"

// layers ranks the components. A component is a top-level directory with
// everything below it; "." is the root package, and each directory in cmd is a
// component. A component imports only components of lower layers.
var layers = map[string]int{
	".":        0, // the types that all others share
	"apipb":    1, // the wire contract; store and api both use it
	"audit":    1, // the hash-chained audit log; history stores its entries too
	"engine":   2,
	"policy":   2,
	"forecast": 2,
	"store":    2,
	"history":  2,
	"pki":      2, // certificates and join tokens
	"notify":   2, // alerts by webhook and mail
	"aside":    2, // the optional Redis cache
	"auth":     3, // authentication: tokens, OIDC
	"control":  3,
	"client":   3,
	"api":      4,
	"agent":    4,
	"sim":      4,
	"server":   5,
	"cli":      6,
	"cmd/":     7, // every directory in cmd
}

// unlayered lists the components outside the layers: they may import every
// package, and no component may import them.
var unlayered = map[string]bool{"archtest": true, "test": true}

// forbidden lists imports that the layers would allow.
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

// soleImporters names the one component that may import a path or a path below
// it. Without a component, none may.
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
	{"github.com/redis/go-redis", "aside", "Redis is optional, so one package handles its absence"},
	{"k8s.io", "", "Ares runs without Kubernetes"},
	{"sigs.k8s.io/controller-runtime", "", "Ares runs without Kubernetes"},
}

// ranks lists the packages of a component from top to bottom. A package imports
// only packages below it in the list, so data flows one way.
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
}

// unranked lists the packages of such a component that check the others, with
// the reason: they may import every package of the list, and none of the list
// may import them.
var unranked = map[string]string{
	"engine/laws":       "it checks plans from outside",
	"engine/enginetest": "it is for tests",
}

// optional lists the packages that no package of their own component imports,
// with the reason.
var optional = map[string]string{
	"engine/cluster/score/baseline": "it holds policies for comparisons, and a decision works without them",
}

// pure lists the components without input, output, clock, goroutine or
// randomness, and the imports each may have. A path that ends in "/" allows the
// paths below it too.
var pure = map[string][]string{
	".": {
		"cmp", "crypto/sha256", "encoding/base32", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt",
		"hash/fnv", "iter", "maps", "math", "math/bits", "slices", "sort", "strconv", "strings", "time", "unicode/utf8",
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
}

// mapsOrdered lists the pure components where a range over a map needs a reason.
var mapsOrdered = map[string]bool{"engine": true}

// clockReaders lists the functions of package time that read the clock or wait.
var clockReaders = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"Tick": true, "NewTicker": true, "NewTimer": true,
}

// supervisor lists the packages of the supervisor, the small process that
// outlives the agent. They import only supervisorImports.
var (
	supervisor        = map[string]bool{"cmd/ares-supervisor": true, "agent/run/seat": true}
	supervisorImports = []string{
		module + "/agent/run/seat",
		"bytes", "errors", "hash/crc32", "io", "os", "os/signal", "runtime", "strconv", "strings", "sync", "sync/atomic",
		"syscall", "time", "unsafe",
	}
)

// vagueNames lists directory names that do not tell what is inside.
var vagueNames = map[string]bool{
	"pkg": true, "util": true, "utils": true, "common": true, "manager": true, "types": true, "helpers": true,
	"helper": true, "misc": true, "shared": true,
}

// Limits on lines, for code that is neither a test nor generated.
const (
	maxFunc = 70
	maxFile = 600
	maxMain = 50 // of all cmd/ares
)

// sizeExceptions lists what may exceed a limit on lines, as "file.go",
// "file.go:Func" or "file.go:Type.Method", with the reason. An exception that is
// not needed is a problem.
var sizeExceptions = map[string]string{}

// shapeLimited lists the components whose packages have limits on shape.
var shapeLimited = map[string]bool{"engine": true}

// Limits on the shape of a package, without its tests.
const (
	maxCycle  = 15 // files that refer to each other in a cycle
	maxFiles  = 25
	maxFields = 25 // of a struct
)

// shapeExceptions lists what may exceed a limit on shape, with a limit of its
// own: the "cycle" or the "files" of a package, or a struct. An exception that
// is not needed is a problem.
var shapeExceptions = map[string]int{}
