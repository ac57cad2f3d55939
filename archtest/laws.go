package archtest

// module is the import path of the tree's root.
const module = "github.com/ares-scheduler/ares"

// layers ranks the rooms. A room is a top-level directory with everything
// below it, "." is the root package, and each directory in cmd is a room.
// Imports strictly descend; equals do not know each other.
var layers = map[string]int{
	".":          0, // the vocabulary
	"apipb":      1, // the wire contract: both the store and the doors speak it
	"audit":      1, // the chained log of who did what; history keeps its entries too
	"engine":     2,
	"policy":     2,
	"forecast":   2,
	"store":      2,
	"history":    2,
	"pki":        2, // certificates and join tokens
	"notify":     2, // alerts to people
	"aside":      2, // Redis beside the servers; nothing depends on it
	"auth":       3, // who somebody is: tokens, OIDC
	"control":    3,
	"client":     3,
	"checkpoint": 3,
	"api":        4,
	"agent":      4,
	"kube":       4,
	"federation": 4,
	"polaris":    4,
	"sim":        4,
	"web":        4,
	"server":     5,
	"cli":        6,
	"cmd/":       7, // every room in cmd
}

// beside lists the rooms that stand beside the layers: they may look at
// everything, and nothing may import them.
var beside = map[string]bool{"archtest": true, "test": true}

// strangers lists who must not import whom although the layers would allow it.
var strangers = []struct {
	from, to []string
	why      string
}{
	{
		from: []string{"agent", "cli", "kube", "federation", "client"},
		to:   []string{"store", "control"},
		why:  "it speaks to Ares through client, like everybody outside the control plane",
	},
}

// soleImporters names the one room that may import a path or what is below it.
var soleImporters = []struct {
	path, room, why string
}{
	{"go.etcd.io/etcd", "store", "etcd has one door, where every write is a compared transaction"},
	{"go.etcd.io/bbolt", "store", "etcd has one door, where every write is a compared transaction"},
	{"go.etcd.io/raft", "store", "etcd has one door, where every write is a compared transaction"},
	{module + "/store/storepb", "store", "how records are written is the store's own secret"},
	{"database/sql", "history", "SQL holds history only; a decision never reads it"},
	{"modernc.org/sqlite", "history", "SQL holds history only; a decision never reads it"},
	{"github.com/jackc/pgx", "history", "SQL holds history only; a decision never reads it"},
	{"github.com/pressly/goose", "history", "SQL holds history only; a decision never reads it"},
	{"github.com/redis/go-redis", "aside", "nothing may depend on Redis"},
	{"k8s.io", "kube", "Ares runs without Kubernetes; only its adapter knows it"},
	{"sigs.k8s.io/controller-runtime", "kube", "Ares runs without Kubernetes; only its adapter knows it"},
}

// ancestors lists the packages that may import the package above them. All
// others are pieces that their parent is built from.
var ancestors = map[string]string{
	"engine/laws":      "it judges what its parent decides",
	"audit/sinktest":   "it judges what implements its parent's interface",
	"history/sqlite":   "a driver implements its parent's interface",
	"history/postgres": "a driver implements its parent's interface",
}

// pure lists the rooms without input, output, clock, goroutine or randomness,
// and the imports each may have. A path that ends in "/" allows what is below.
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

// ordered lists the pure rooms where ranging over a map needs a reason.
var ordered = map[string]bool{"engine": true}

// clock lists what of package time reads the clock or waits for it.
var clock = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"Tick": true, "NewTicker": true, "NewTimer": true,
}

// supervisor is the small process that outlives the agent. It and what it
// shares with the agent are built from these standard packages and each other.
var (
	supervisor        = map[string]bool{"cmd/ares-supervisor": true, "agent/run/seat": true}
	supervisorImports = []string{
		module + "/agent/run/seat",
		"bytes", "errors", "hash/crc32", "io", "os", "os/signal", "runtime", "strconv", "strings", "sync", "sync/atomic",
		"syscall", "time", "unsafe",
	}
)

// noNames lists directory names that say nothing about what is inside.
var noNames = map[string]bool{
	"pkg": true, "util": true, "utils": true, "common": true, "manager": true, "types": true, "helpers": true,
	"helper": true, "misc": true, "shared": true,
}

// Limits on size, in lines, for code that is neither a test nor generated.
const (
	maxFunc = 70
	maxFile = 600
	maxMain = 50 // of all cmd/ares
)

// long lists what may exceed a limit, as "file.go" or "file.go:Func" or
// "file.go:Type.Method", with the reason. An entry that is no longer needed is
// a complaint.
var long = map[string]string{}

// shaped lists the rooms whose packages are limited in shape.
var shaped = map[string]bool{"engine": true}

// Limits on the shape of a package, tests left out.
const (
	maxCycle  = 15 // files that refer to each other in a cycle
	maxFiles  = 25
	maxFields = 25 // of a struct
)

// shapeExceptions lists what may exceed a limit on shape, and how far: a
// package's "cycle" or "files", or a struct. An entry that is no longer needed
// is a complaint.
var shapeExceptions = map[string]int{
	"engine cycle": 64,
	"engine files": 72,
	"engine.State": 61,
	"engine.entry": 27,
	"engine.hunt":  29,
	"engine.node":  29,
	"engine.try":   33,
	"engine.want":  29,
}
