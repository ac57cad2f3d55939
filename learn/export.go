package learn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// MaxExportBytes is the largest size of an export. A ConfigMap of Kubernetes has at most 1 MiB, also when the export's
// quotation marks are escaped in it.
const MaxExportBytes = 512 << 10

// These constants divide the size of an export.
const (
	maxNodesBytes = 192 << 10 // for scores of nodes: about 1,500 nodes with failures
	frameBytes    = 1 << 10   // for everything but nodes and runtimes
)

// exportVersion is the version of the format of exports.
const exportVersion = 1

// The type `export` is the form of an export in JSON.
type export struct {
	Version  int            `json:"version"`
	Until    time.Time      `json:"until"`    // end of the latest run in Runtimes
	Runtimes []byte         `json:"runtimes"` // in the format of forecast.Forecaster.Save
	Nodes    []exportedNode `json:"nodes"`
}

// exportedNode has the counts of an ares.NodeScore. The score itself is computed from them.
type exportedNode struct {
	Node       string    `json:"node"`
	At         time.Time `json:"at"`
	Until      time.Time `json:"until"`
	Samples    int64     `json:"samples"`
	Failures   int64     `json:"failures,omitzero"`
	Own        int64     `json:"own,omitzero"`
	Timed      int64     `json:"timed,omitzero"`
	Logs       int64     `json:"logs,omitzero"`
	Stragglers int64     `json:"stragglers,omitzero"`
	Gangs      int64     `json:"gangs,omitzero"`
	Families   []uint64  `json:"families,omitzero"`
}

// Export returns what the Learner has learned until `now` as JSON, of at most MaxExportBytes. If not all of it fits, the
// nodes with the highest scores are left out, and the jobs that have had no run for the longest time.
func (l *Learner) Export(now time.Time) ([]byte, error) {
	out := export{Version: exportVersion, Until: l.runtimes.latest.UTC()}
	nodes, size := l.exportNodes(now)
	out.Nodes = nodes
	out.Runtimes = l.runtimes.SaveWithin((MaxExportBytes - frameBytes - size) / 4 * 3) // JSON has four characters for three bytes
	data, err := json.Marshal(out)
	switch {
	case err != nil:
		return nil, fmt.Errorf("export what was learned: %w", err)
	case len(data) > MaxExportBytes:
		return nil, fmt.Errorf("export what was learned: it has %d bytes, and the limit is %d", len(data), MaxExportBytes)
	}
	return data, nil
}

// exportNodes returns the records of the nodes with the lowest scores, sorted by name, and their size in JSON.
func (l *Learner) exportNodes(now time.Time) (out []exportedNode, size int) {
	all := l.nodes.Current(now)
	slices.SortStableFunc(all, func(a, b ares.NodeScore) int {
		return cmp.Or(cmp.Compare(a.Score, b.Score), cmp.Compare(b.Samples, a.Samples))
	})
	for i := range all {
		r := &all[i]
		n := exportedNode{
			r.Node, r.At.UTC(), r.Until.UTC(), r.Samples, r.Failures, r.Own, r.Timed, r.Logs, r.Stragglers, r.Gangs, r.Families,
		}
		text, err := json.Marshal(n)
		if err != nil {
			continue // a time beyond the year 9999
		}
		if size+len(text)+1 > maxNodesBytes {
			break
		}
		out, size = append(out, n), size+len(text)+1
	}
	slices.SortFunc(out, func(a, b exportedNode) int { return cmp.Compare(a.Node, b.Node) })
	return out, size
}

// These constants limit the values in an export, so that damaged data cannot cause an overflow.
const (
	maxCount    = 1 << 40
	maxFamilies = 64
)

// Import continues from what an earlier Learner exported. Call it before the first call of Follow. Times after `now` count as
// `now`, because otherwise nothing new would be learned until then. If the data cannot be read, Import changes nothing.
func (l *Learner) Import(data []byte, now time.Time) error {
	const remedy = "delete it, and Ares learns anew"
	if len(data) > MaxExportBytes {
		return fmt.Errorf("import what was learned: it has %d bytes, and the limit is %d: %s", len(data), MaxExportBytes, remedy)
	}
	var in export
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("import what was learned: %w: %s", err, remedy)
	}
	if in.Version != exportVersion {
		return fmt.Errorf("import what was learned: it has version %d, and this version of Ares reads version %d: %s", in.Version, exportVersion, remedy)
	}
	nodes := make([]ares.NodeScore, 0, len(in.Nodes))
	for i := range in.Nodes {
		r, err := in.Nodes[i].record(now)
		if err != nil {
			return fmt.Errorf("import what was learned: %w: %s", err, remedy)
		}
		nodes = append(nodes, r)
	}
	if err := l.runtimes.Restore(in.Runtimes, earlier(in.Until, now)); err != nil {
		return fmt.Errorf("import what was learned: %w: %s", err, remedy)
	}
	l.nodes.carried = nodes
	return nil
}

// The method `record` returns the record of a node, or an error if the record is not possible.
func (n *exportedNode) record(now time.Time) (ares.NodeScore, error) {
	for _, v := range []int64{n.Samples, n.Failures, n.Own, n.Timed, n.Stragglers, n.Gangs} {
		if v < 0 || v > maxCount {
			return ares.NodeScore{}, fmt.Errorf("node %q has the count %d, which is not between 0 and %d", ares.Clip(n.Node), v, maxCount)
		}
	}
	if n.Node == "" || n.Logs < -maxCount || n.Logs > maxCount || len(n.Families) > maxFamilies {
		return ares.NodeScore{}, fmt.Errorf("the record of node %q is damaged", ares.Clip(n.Node))
	}
	return ares.NodeScore{
		Node: n.Node, At: earlier(n.At, now), Until: earlier(n.Until, now), Samples: n.Samples, Failures: n.Failures, Own: n.Own,
		Timed: n.Timed, Logs: n.Logs, Stragglers: n.Stragglers, Gangs: n.Gangs, Families: n.Families,
	}, nil
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}
