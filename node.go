package ares

import "time"

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
	// SessionTTL is how long its session outlives its last renewal. It is kept
	// with the node, because servers may come to differ in it.
	SessionTTL time.Duration
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
}
