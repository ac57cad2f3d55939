package engine

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/queue"
	"github.com/ares-scheduler/ares/engine/topology"
)

// Cluster is the ledger of nodes and devices: what each has, what is taken of it,
// and the indexes that find a node for a request.
type Cluster struct {
	cfg *Config

	nodesByID             map[string]*node
	nodes                 []*node // by place, then ID, as of the last layout
	firstByName           []*node // the first of them by ID
	layout                int     // counts the times nodes got other positions
	topology              *ares.Topology
	atlas                 *topology.Locator
	domains               *topology.Tree
	nodeTypes             nodeTypes
	capacityChanges       changeLog     // nodes that have other things left than before
	lastCapacityChange    []int         // by position: the last of its shifts
	freeCPUMem            []freeCPUMem  // by position
	summaries             []nodeSummary // by position
	blockMaxes            []blockMax    // of each 64 nodes
	traitChanges          changeLog     // nodes that became another kind of node
	roomChanges           changeLog     // nodes that may have more room than before
	unschedulableRequests []*request    // of shapes that found no place
	capacity              queue.Resources
	models                []int       // that some node has, by name, as the order numbers them
	preferredScratch      set         // scratch of welcome
	largest               largestNode // of any node
	changeCount           int         // counts the changes of nodes
	dirtyNodes            []*node     // changed since the index was last brought up to date
	layoutStale           bool        // nodes came, went or moved since then
	capacityStale         bool        // what the fleet has changed since then
	// modelIndex is the number of a device model in the queues: quotas and
	// devices must number models alike.
	modelIndex   func(model string) int
	modelNames   []string // by that number; "" for models that no node had
	requestCount int      // counts those that were ever made
}

func newCluster(cfg *Config, modelIndex func(string) int) *Cluster {
	c := &Cluster{
		cfg: cfg, nodesByID: map[string]*node{}, nodeTypes: nodeTypes{byKey: map[string]*nodeType{}},
		topology: &ares.Topology{}, layoutStale: true, modelIndex: modelIndex,
	}
	c.atlas = topology.NewLocator(c.topology)
	return c
}
