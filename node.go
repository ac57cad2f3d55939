package ares

import (
	"strings"
	"time"
)

// Device is one accelerator of a node, or a slice of one.
type Device struct {
	ID       string // the vendor's UUID, or a made-up one on a mock machine
	Index    int    // what CUDA_VISIBLE_DEVICES calls it
	Type     string // gpu, tpu, fpga or custom
	Model    string
	MemoryMB int
	NUMA     int
	Parent   string // of a MIG slice
	Profile  string // of a MIG slice
	Healthy  bool
	Reason   string // why it is not healthy
	Celsius  int    // its temperature when last told, 0 when it is not known
}

// Node is a machine that runs seats.
type Node struct {
	ID       string
	Address  string // where other ranks of a gang reach it
	Devices  []Device
	Links    [][]string // Links[i][j] is how device i reaches j: NV4, PIX, SYS, …
	CPUs     int
	MemoryMB int
	Labels   map[string]string
	NUMA     []NUMANode // empty when the machine does not say
	Taints   []Taint
	Mock     bool   // its devices are simulated
	Contains bool   // it has a writable cgroup2, so that death can be verified
	Unfit    string // why nothing can be started there now, "" when it can
	// Isolation says in words how jobs are set apart there: users, mounts, limits.
	Isolation string
	// SessionTTL is how long its session outlives its last renewal. It is kept
	// with the node, because servers may come to differ in it. Below 0 where the
	// session was cut.
	SessionTTL time.Duration
	// SessionCut says that its last session was ended by a revocation: the node had
	// not been silent then.
	SessionCut bool
	ClockAhead time.Duration // of the server's, when its session began
	Version    string
	Revision   int64 // of its record; a new session rewrites it
}

// NUMANode is a part of a machine: CPUs with the memory next to them.
type NUMANode struct {
	ID       int
	CPUs     int
	MemoryMB int
}

// Taint keeps jobs off a node that do not tolerate it.
type Taint struct {
	Key    string
	Value  string
	Effect Effect
}

// ParseTaint reads "key=value:NoSchedule", "key:PreferNoSchedule" or, with the
// effect NoSchedule, "key=value" and "key".
func ParseTaint(s string) (Taint, error) {
	text, effect, given := strings.Cut(s, ":")
	key, value, _ := strings.Cut(text, "=")
	t := Taint{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), Effect: NoSchedule}
	if given {
		t.Effect = Effect(strings.TrimSpace(effect))
	}
	return t, t.Check()
}

// Check reports what is wrong with a taint.
func (t Taint) Check() error {
	if t.Key == "" || t.Key == "*" || strings.ContainsAny(t.Key, " \t=:") || strings.Contains(t.Value, ":") ||
		t.Effect != NoSchedule && t.Effect != PreferNoSchedule {
		return Errorf(Invalid, "%q is not a taint: write \"key=value:NoSchedule\" or \"key=value:PreferNoSchedule\"", clip(t.String()))
	}
	if len(t.Key) > MaxNameBytes || len(t.Value) > MaxNameBytes {
		return Errorf(Invalid, "taint %q: key and value have at most %d bytes each", clip(t.String()), MaxNameBytes)
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

// MaxTaints bounds the taints of a node, and MaxNUMANodes its parts.
const (
	MaxTaints    = 32
	MaxNUMANodes = 256
)

// Effect says what a taint does to a job that does not tolerate it.
type Effect string

// The effects.
const (
	NoSchedule       Effect = "NoSchedule"       // it is not placed there
	PreferNoSchedule Effect = "PreferNoSchedule" // it is placed there only when it fits nowhere else
)

// Session is a node's proof of being there.
type Session struct {
	Node     string
	Instance string // nonce of the agent; another instance is refused
	Server   string // the address of the server that serves it
	Revision int64  // at which it was opened; a claim compares it
}

// NodeState says what may be expected of a node.
type NodeState string

// The states of a node.
const (
	Online   NodeState = "online"   // it has a session
	Suspect  NodeState = "suspect"  // its session ended; its jobs may still live
	Offline  NodeState = "offline"  // its session ended longer ago than a job of the default patience lives
	Cordoned NodeState = "cordoned" // online, but nothing new is placed on it
)

// Cordon keeps new work off a node.
type Cordon struct {
	Node  string
	By    string
	Why   string
	Since time.Time
	// Drain also moves what runs there to other nodes. An at_most_once job that
	// runs is left to its end, unless Force is set: then it ends as lost.
	Drain    bool
	Force    bool
	Revision int64 // of its record; who acts on a drain compares it
}
