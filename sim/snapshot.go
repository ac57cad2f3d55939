package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// Snapshot is the state of a server at one time. A Snapshot contains every record and the
// configuration.
type Snapshot struct {
	Server string
	Taken  time.Time
	Config config.Config
	Batch  ares.Batch // with Reset set
}

// ReadSnapshot reads a recording to its end and returns the final state of the server.
func ReadSnapshot(from io.Reader) (*Snapshot, error) {
	in, err := recording.NewReader(from)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Server: in.Header.Server, Taken: in.Header.Began, Config: in.Header.Config}
	state := engine.NewWith(s.Config)
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch {
		case f.Batch != nil:
			state.Apply(*f.Batch)
			s.at(f.Batch.At)
		default:
			s.at(f.Decision.Now)
		}
	}
	if state.Revision() == 0 {
		return nil, ares.Errorf(ares.Invalid, "the recording ends before its first snapshot is complete")
	}
	s.Batch = state.Snapshot()
	return s, nil
}

func (s *Snapshot) at(t time.Time) {
	if t.After(s.Taken) {
		s.Taken = t
	}
}

// Revision returns the store revision of the snapshot.
func (s *Snapshot) Revision() int64 { return s.Batch.Revision }

// Nodes returns the sorted names of the known machines.
func (s *Snapshot) Nodes() []string {
	var names []string
	for i := range s.Batch.Events {
		if n := s.Batch.Events[i].Node; n != nil {
			names = append(names, n.ID)
		}
	}
	slices.Sort(names)
	return names
}

// Like is the method that creates healthy machines with the same location and devices
// as an existing node. If no node has the given name, the method returns nil.
func (s *Snapshot) Like(node string, count int) []*ares.Node {
	for i := range s.Batch.Events {
		if n := s.Batch.Events[i].Node; n != nil && n.ID == node {
			return NewNodes(n, node, count)
		}
	}
	return nil
}

// NewNodes makes copies of a machine, with their own names and device IDs.
func NewNodes(like *ares.Node, name string, count int) []*ares.Node {
	out := make([]*ares.Node, count)
	for i := range out {
		n := *like
		n.ID = fmt.Sprintf("%s-new-%d", name, i+1)
		n.Devices = slices.Clone(like.Devices)
		n.Unfit, n.Revision = "", 0
		for k := range n.Devices {
			d := &n.Devices[k]
			d.ID = fmt.Sprintf("%s/%d", n.ID, k)
			d.Healthy, d.Reason, d.Celsius = true, "", 0
			if at := slices.IndexFunc(like.Devices, func(p ares.Device) bool { return p.ID == d.Parent }); d.Parent != "" && at >= 0 {
				d.Parent = fmt.Sprintf("%s/%d", n.ID, at)
			}
		}
		out[i] = &n
	}
	return out
}
