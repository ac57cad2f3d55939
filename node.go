package ares

import (
	"strings"
	"time"
)

// Device is one accelerator of a node, or a slice of one.
type Device struct {
	ID       string // the vendor's UUID; on a mock node it is generated
	Index    int    // its number in CUDA_VISIBLE_DEVICES
	Type     string // gpu, tpu, fpga or custom
	Model    string
	MemoryMB int
	NUMA     int
	Parent   string // of a MIG slice
	Profile  string // of a MIG slice
	Healthy  bool
	Reason   string // why it is not healthy
	Celsius  int    // its last reported temperature, 0 when unknown
}

// Node is a machine that runs jobs.
type Node struct {
	ID       string
	Address  string // where the other ranks of a gang reach it
	Devices  []Device
	Links    [][]string // Links[i][j] is the link between devices i and j: NV4, PIX, SYS, …
	CPUs     int
	CPUMilli int // thousandths of a core in addition to CPUs
	MemoryMB int
	Labels   map[string]string
	NUMA     []NUMANode // empty when the machine does not report it
	Taints   []Taint
	Mock     bool   // its devices are simulated
	Contains bool   // it has a writable cgroup2, so that the end of processes can be verified
	Unfit    string // why no job can be started there now, "" when jobs can
	// Isolation describes how the node isolates jobs from each other: by users, mounts and limits.
	Isolation string
	// TrustedOnly is true when jobs run as the agent's own user. Such a job can read the agent's files and, beside a server,
	// the administrator's token. Therefore only jobs with Job.Trusted are placed there.
	TrustedOnly bool
	// Images is true if the node runs jobs with an image. Otherwise NoImages says why it does not. Records of nodes of earlier versions
	// have neither.
	Images   bool
	NoImages string
	// ContainerRoot is true if the node runs jobs with an image as root of a user namespace. Otherwise NoContainerRoot says why it does not,
	// unless NoImages does. Records of nodes of earlier versions have neither.
	ContainerRoot   bool
	NoContainerRoot string
	// OwnNetwork is true if jobs can have a network of their own, so that jobs with NetworkNone may run there. Records of nodes of earlier
	// versions of Ares have false, so they get no such jobs.
	OwnNetwork bool
	// Attachable is true if users can write to jobs there, so that jobs with stdin or tty may run there. Records of nodes of earlier
	// versions of Ares have false.
	Attachable bool
	// SessionTTL is how long the node's session lasts after its last renewal. The session's TTL is stored with the node,
	// because servers may be configured differently. SessionTTL is negative when a revocation ended the session.
	SessionTTL time.Duration
	// SessionCut is true when the node's last session was revoked. It is false when the session
	// ended because the node was silent.
	SessionCut bool
	// JobsOutliveSession is true for a node on which nothing ends the jobs when its session ends; see SelfFencing. It is
	// false in the records of agents of all versions.
	JobsOutliveSession bool

	ClockAhead time.Duration // the node's clock minus the server's, when its session began
	Version    string
	Revision   int64 // revision of its record; a new session rewrites it
}

// SelfFencing reports whether the node itself ends its jobs when its session ends, as an Ares agent does. Only on such a
// node does time prove that a job has ended: the Reaper voids the seats there when lost_after has passed. On other nodes
// a seat is held until its end is reported, or until an administrator removes the node.
func (n *Node) SelfFencing() bool { return !n.JobsOutliveSession }

// NUMANode is a group of a machine's CPUs with their local memory.
type NUMANode struct {
	ID       int
	CPUs     int
	CPUMilli int // thousandths of a core in addition to CPUs
	MemoryMB int
}

// Taint keeps jobs off a node unless they tolerate it.
type Taint struct {
	Key    string
	Value  string
	Effect Effect
}

// ParseTaint reads "key=value:NoSchedule", "key:PreferNoSchedule", "key=value" or "key". A taint without an effect
// gets the effect NoSchedule.
func ParseTaint(s string) (Taint, error) {
	text, effect, given := strings.Cut(s, ":")
	key, value, _ := strings.Cut(text, "=")
	t := Taint{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Effect: NoSchedule}
	if given {
		t.Effect = Effect(strings.TrimSpace(effect))
	}
	return t, t.Check()
}

// Check returns an error for a taint that is not valid.
func (t Taint) Check() error {
	if t.Key == "" || t.Key == "*" || strings.ContainsAny(t.Key, " \t=:") || strings.Contains(t.Value, ":") ||
		t.Effect != NoSchedule && t.Effect != PreferNoSchedule {
		return Errorf(Invalid, "%q is not a taint: write \"key=value:NoSchedule\" or \"key=value:PreferNoSchedule\"", Clip(t.String()))
	}
	if len(t.Key) > MaxNameBytes || len(t.Value) > MaxNameBytes {
		return Errorf(Invalid, "taint %q: key and value have at most %d bytes each", Clip(t.String()), MaxNameBytes)
	}
	return nil
}

func (t Taint) String() string {
	s := t.Key
	if t.Value != "" {
		s += "=" + t.Value
	}
	return s + ":" + string(t.Effect)
}

// MaxTaints and MaxNUMANodes limit the number of taints and NUMA nodes of a node.
const (
	MaxTaints    = 32
	MaxNUMANodes = 256
)

// Effect says how a taint affects a job that does not tolerate it.
type Effect string

// These are the effects of a taint.
const (
	NoSchedule       Effect = "NoSchedule"       // the job is not placed there
	PreferNoSchedule Effect = "PreferNoSchedule" // the job is placed there only when it fits nowhere else
)

// Session is the proof that a node's agent is connected.
type Session struct {
	Node     string
	Instance string // nonce of the agent; another instance is rejected
	Server   string // the address of the server that serves it
	Revision int64  // revision at which it was opened; a claim compares it
}

// NodeState is the availability of a node.
type NodeState string

// These are the states of a node.
const (
	Online   NodeState = "online"   // it has a session
	Suspect  NodeState = "suspect"  // its session ended; its jobs may still be alive. A node that does not fence itself stays suspect
	Offline  NodeState = "offline"  // its session ended so long ago that no job with the default lost_after can still be alive
	Cordoned NodeState = "cordoned" // online, but no new job is placed on it
)

// Cordon keeps new jobs off a node.
type Cordon struct {
	Node  string
	By    string
	Why   string
	Since time.Time
	// If Drain is set, the jobs on the node are also stopped, so that they restart on other nodes. A drain lets a running at_most_once
	// job finish. If Force is set, a running at_most_once job is stopped too and ends as lost.
	Drain    bool
	Force    bool
	Revision int64 // revision of its record; the drainer compares it
}
