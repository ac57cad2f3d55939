// Package trace defines the record of one run of the robustness suite. The
// record has the clients' calls and their answers, the revisions of the store,
// and the injected faults. It also has the lines that the jobs themselves
// wrote. A run is checked from this record alone, so it can be checked again at
// any later time.
package trace

import (
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The directory of a run contains these files.
const (
	MetaFile   = "meta.json"
	CallsFile  = "calls.jsonl"
	StoreFile  = "store.jsonl"
	FaultsFile = "faults.jsonl"
	JobsDir    = "jobs" // a file JOB.trace for each job, written by its processes
)

// Run is the complete record of one run.
type Run struct {
	Meta      Meta
	Calls     []Call
	Store     []Entry
	Faults    []Fault
	Witnesses map[string][]Witness // by job
}

// Meta describes the run. All times in a record, except wall-clock times, are
// times of CLOCK_BOOTTIME. All processes on a machine share this clock.
type Meta struct {
	Seed       uint64         `json:"seed"`
	Version    string         `json:"version"` // of the program under test
	StartedAt  time.Time      `json:"started_at"`
	Start      time.Duration  `json:"start"`
	Healed     time.Duration  `json:"healed"` // when the last fault was undone; 0 if the run did not get there
	End        time.Duration  `json:"end"`
	SessionTTL time.Duration  `json:"session_ttl"`
	Servers    []string       `json:"servers"`
	Nodes      []string       `json:"nodes"`
	Quotas     map[string]int `json:"quotas"` // GPUs that a tenant may use at once
	// Hub says that the store is that of a federation's hub: its runs are copies of those in the clusters.
	Hub bool `json:"hub,omitempty"`
	// OwnersRestored says that a cluster of the hub was restored from a backup. It may have forgotten attempts, so the hub shows fewer too.
	OwnersRestored bool `json:"-"`
	// Restores lists the times at which the store was restored from a backup.
	Restores []Restore `json:"restores,omitempty"`
}

// Restore is one restore from a backup. Changes after the revision in the field
// Backup may be lost. After the restore, the fence of every new attempt must be
// higher than Highest.
type Restore struct {
	At      time.Duration `json:"at"`
	Backup  int64         `json:"backup"`  // revision of the snapshot
	Highest int64         `json:"highest"` // revision of the store when it was deleted
}

// Op is the operation of a call.
type Op string

// Clients call these operations.
const (
	Submit Op = "submit"
	Get    Op = "get"
	List   Op = "list"
	Cancel Op = "cancel"
)

// Outcome says what a client knows about the result of its call.
type Outcome string

// These are the outcomes of a call.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // answered with an error that says it was not done
	Unknown Outcome = "unknown" // it may have been done, now or later
)

// Call is a single call of one client to one server, without retries.
type Call struct {
	Client  int           `json:"client"`
	Server  string        `json:"server"`
	Op      Op            `json:"op"`
	Start   time.Duration `json:"start"`
	End     time.Duration `json:"end"`
	Outcome Outcome       `json:"outcome"`
	Code    string        `json:"code,omitempty"` // ares.Code of a rejection or failure
	Error   string        `json:"error,omitempty"`

	Job     string `json:"job,omitempty"`     // job ID; known before the call, because it is a hash of the request
	Request string `json:"request,omitempty"` // of a submit: its request_id
	Body    string `json:"body,omitempty"`    // of a submit: which of several bodies was sent with that request_id

	Duplicate bool       `json:"duplicate,omitempty"` // a submit found that the job already exists
	Phase     ares.Phase `json:"phase,omitempty"`     // as answered by get; by cancel "cancelled" or "cancelling"
	Attempt   int        `json:"attempt,omitempty"`   // as answered by get
	Stop      string     `json:"stop,omitempty"`      // as answered by get: why the job is asked to stop
	Revision  int64      `json:"revision,omitempty"`  // as answered: of the job's latest change, or of the list

	MinRevision int64    `json:"min_revision,omitempty"` // as requested for a list
	Listed      []Listed `json:"listed,omitempty"`       // a complete list of all pages, or nothing
}

// Listed is one job in a list.
type Listed struct {
	Job      string     `json:"job"`
	Phase    ares.Phase `json:"phase"`
	Revision int64      `json:"revision"`
}

// Entry is one revision of the store. After a gap in the watch, an Entry holds
// the store's whole content.
type Entry struct {
	At    time.Duration `json:"at"` // when the recorder saw it
	Batch ares.Batch    `json:"batch"`
}

// Fault is one fault injected into the system under test.
type Fault struct {
	Kind   string        `json:"kind"` // such as agent-kill; the tables count by kind
	Target string        `json:"target"`
	Detail string        `json:"detail,omitempty"`
	At     time.Duration `json:"at"`
	Until  time.Duration `json:"until,omitempty"` // when it was undone; 0 if there is nothing to undo
	// If Excuses is set, attempts may overlap on the target node while the
	// fault lasts. They may also overlap for a short time afterwards.
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
	Detail  string // for findings: the detected process or device; for start: the devices
}

// Verb is the kind of event that a process reports in a line.
type Verb string

// These are the events that processes report. The last three events are
// violations that a process detects. A process detects these violations with
// file locks. The kernel releases a lock when the process that holds it dies.
const (
	Started  Verb = "start"
	Beat     Verb = "beat"
	Termed   Verb = "term" // SIGTERM was received
	Ended    Verb = "end"
	Overlap  Verb = "overlap"  // a process of another attempt is running
	Twice    Verb = "twice"    // another process of the same attempt and rank is running
	Oversold Verb = "oversold" // another process holds one of the devices
)
