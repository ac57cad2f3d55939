// Package trace is the record of one run of the robustness suite: what clients
// asked and were answered, what the store went through, what the jobs
// themselves wrote, and which faults were made. A run is judged from this
// record alone, so it can be judged again long after.
package trace

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The files of a run's directory.
const (
	MetaFile   = "meta.json"
	CallsFile  = "calls.jsonl"
	StoreFile  = "store.jsonl"
	FaultsFile = "faults.jsonl"
	JobsDir    = "jobs" // a file JOB.trace for each job, written by its processes
)

// Run is a whole record.
type Run struct {
	Meta      Meta
	Calls     []Call
	Store     []Entry
	Faults    []Fault
	Witnesses map[string][]Witness // by job
}

// Meta says what was run. All times of a record but those of wall clocks are
// CLOCK_BOOTTIME, which every process of a machine shares.
type Meta struct {
	Seed       uint64         `json:"seed"`
	Version    string         `json:"version"` // of the program under test
	StartedAt  time.Time      `json:"started_at"`
	Start      time.Duration  `json:"start"`
	Healed     time.Duration  `json:"healed"` // when the last fault was taken back; 0 if the run did not get there
	End        time.Duration  `json:"end"`
	SessionTTL time.Duration  `json:"session_ttl"`
	Servers    []string       `json:"servers"`
	Nodes      []string       `json:"nodes"`
	Quotas     map[string]int `json:"quotas"` // GPUs a tenant may use at once
	// Restores are the moments at which the store was put back to a backup.
	Restores []Restore `json:"restores,omitempty"`
}

// Restore is one return to a backup. What happened at revisions above Backup
// may have been forgotten; nothing after it may carry a fence at or below
// Highest.
type Restore struct {
	At      time.Duration `json:"at"`
	Backup  int64         `json:"backup"`  // revision of the snapshot
	Highest int64         `json:"highest"` // revision of the store when it was thrown away
}

// Op is what a client did.
type Op string

// The operations of clients.
const (
	Submit Op = "submit"
	Get    Op = "get"
	List   Op = "list"
	Cancel Op = "cancel"
)

// Outcome is what a client knows of its call.
type Outcome string

// The outcomes of a call.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // answered with an error that says it was not done
	Unknown Outcome = "unknown" // it may have been done, now or later
)

// Call is one call of one client, tried once at one server.
type Call struct {
	Client  int           `json:"client"`
	Server  string        `json:"server"`
	Op      Op            `json:"op"`
	Start   time.Duration `json:"start"`
	End     time.Duration `json:"end"`
	Outcome Outcome       `json:"outcome"`
	Code    string        `json:"code,omitempty"` // of a refusal or failure: an ares.Code
	Error   string        `json:"error,omitempty"`

	Job     string `json:"job,omitempty"`     // its ID; known before the call, for it is a hash of the request
	Request string `json:"request,omitempty"` // of a submit: its request_id
	Body    string `json:"body,omitempty"`    // of a submit: which of several bodies went under that request_id

	Duplicate bool       `json:"duplicate,omitempty"` // a submit found the job there
	Phase     ares.Phase `json:"phase,omitempty"`     // as answered by get; by cancel "cancelled" or "cancelling"
	Attempt   int        `json:"attempt,omitempty"`   // as answered by get
	Stop      string     `json:"stop,omitempty"`      // as answered by get: why the job is asked to stop
	Revision  int64      `json:"revision,omitempty"`  // as answered: of the job's latest change, or of the list

	MinRevision int64    `json:"min_revision,omitempty"` // as asked of a list
	Listed      []Listed `json:"listed,omitempty"`       // a whole list, all pages, or nothing
}

// Listed is one job in a list.
type Listed struct {
	Job      string     `json:"job"`
	Phase    ares.Phase `json:"phase"`
	Revision int64      `json:"revision"`
}

// Entry is one revision of the store, or, after a gap, all of it.
type Entry struct {
	At    time.Duration `json:"at"` // when the recorder saw it
	Batch ares.Batch    `json:"batch"`
}

// Fault is one thing done to the system under test.
type Fault struct {
	Kind   string        `json:"kind"` // such as agent-kill; the tables count by it
	Target string        `json:"target"`
	Detail string        `json:"detail,omitempty"`
	At     time.Duration `json:"at"`
	Until  time.Duration `json:"until,omitempty"` // when it was taken back; 0 for what needs no taking back
	// Excuses says that overlap of attempts of jobs on the target node is
	// within the stated limit while it lasts and shortly after.
	Excuses bool `json:"excuses,omitempty"`
}

// Witness is one line that a job's process wrote.
type Witness struct {
	Verb    Verb
	Attempt int
	Fence   int64
	Rank    int
	Node    string
	Pid     int
	At      time.Duration
	Detail  string // what was found, for the bad verbs; the devices, for start
}

// Verb is what a process says.
type Verb string

// The verbs of processes. The last three are findings: a process finds them
// by locks that the kernel lets go when their holder dies.
const (
	Started  Verb = "start"
	Beat     Verb = "beat"
	Termed   Verb = "term" // SIGTERM came
	Ended    Verb = "end"
	Overlap  Verb = "overlap"  // a process of another attempt lives
	Twice    Verb = "twice"    // another process of the same attempt and rank lives
	Oversold Verb = "oversold" // another process has one of the devices
)
