package top

import (
	"context"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// View is one of the lists that the screen can show.
type View int

const (
	Nodes View = iota
	Devices
	Jobs  // the caller's own jobs
	Queue // the waiting jobs of everybody whose jobs the caller may see
)

// The variable `views` describes the views in the order of their keys. The name is the value of the flag --view.
var views = [...]struct{ name, title string }{
	Nodes:   {"nodes", "nodes"},
	Devices: {"devices", "devices"},
	Jobs:    {"jobs", "my jobs"},
	Queue:   {"queue", "queue"},
}

// viewNames returns the values of the flag --view.
func viewNames() []string {
	var out []string
	for _, v := range views {
		out = append(out, v.name)
	}
	return out
}

// Snapshot is what the server answered at one time.
type Snapshot struct {
	At time.Time
	// Status has the totals of the cluster. It is nil if the caller may not read them.
	Status *apipb.GetClusterStatusResponse
	// Nodes is set for the views Nodes and Devices.
	Nodes []*apipb.Node
	// Jobs is set for the views Jobs and Queue. Invariant: len(Jobs) <= Total.
	Jobs  []*apipb.Job
	Total int
}

// Fetch reads what one view shows.
type Fetch func(context.Context, View) (Snapshot, error)

// maxJobs limits the jobs that are read each time. One more page would cost the server as much as the first.
const maxJobs = 500

// The variable `waiting` lists the states of jobs that the view Queue shows.
var waiting = []string{string(ares.Pending), string(ares.Retrying), string(ares.Preempted)}

// read reads what a view shows from a server.
func read(ctx context.Context, c *client.Client, v View) (s Snapshot, err error) {
	if s.Status, err = c.ClusterStatus(ctx); err != nil && ares.CodeOf(err) != ares.Forbidden {
		return s, err
	}
	switch v {
	case Nodes, Devices:
		list, err := c.Nodes(ctx)
		s.Nodes = list.GetNodes()
		return s, err
	default:
		req := &apipb.ListJobsRequest{PageSize: maxJobs, User: "me"}
		if v == Queue {
			req.User, req.State = "", waiting
		}
		list, err := c.Jobs(ctx, req)
		s.Jobs, s.Total = list.GetJobs(), max(int(list.GetTotal()), len(list.GetJobs()))
		order(v, s.Jobs)
		return s, err
	}
}
