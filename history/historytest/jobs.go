package historytest

import (
	"fmt"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
)

// Noon is the time at which all test jobs are accepted.
var Noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

var names atomic.Int64

func name() string { return fmt.Sprintf("t%d", names.Add(1)) }

// Kinds returns the model and the region of a test device. The device is named after its model and
// region, as in "h100@eu".
func Kinds(_, device string) history.Kind {
	for i := range device {
		if device[i] == '@' {
			return history.Kind{Model: device[:i], Region: device[i+1:]}
		}
	}
	return history.Kind{}
}

// Made describes a job for a test.
type Made struct {
	ID       string // any text, from which the job's ID is derived
	Revision int64  // revision at which the job was accepted; its run's revision is greater
	Tenant   string
	Queue    string
	User     string
	Name     string
	Phase    ares.Phase
	At       time.Time // time of acceptance; the job is placed a minute later
	Runs     time.Duration
	GPUs     int
	Device   string // such as h100@eu
	Edit     func(*ares.Job, *ares.Run)
}

// ID returns the ID of a test job. Tests refer to the job by the given name.
func ID(name string) ares.JobID { return ares.NewJobID("tests", name) }

// Finished returns the finished job that m describes.
func (m Made) Finished() history.Finished {
	fill(&m.Tenant, "team")
	fill(&m.Queue, ares.DefaultQueue)
	fill(&m.User, "token:ann")
	fill(&m.Phase, ares.Succeeded)
	fill(&m.At, Noon)
	fill(&m.Runs, time.Hour)
	fill(&m.GPUs, 1)
	fill(&m.Device, "h100@eu")
	fill(&m.Revision, 100)
	fill(&m.Name, m.ID)
	spec := ares.Spec{RequestID: m.ID, Name: m.Name, Tenant: m.Tenant, Queue: m.Queue, GPUs: m.GPUs, Command: []string{"train"}}
	j := &ares.Job{Spec: spec.WithDefaults(), ID: ID(m.ID), Digest: ares.DigestOf(spec), AcceptedAt: m.At, Revision: m.Revision, Owner: m.User}
	placed := m.At.Add(time.Minute)
	end := placed.Add(m.Runs)
	seat := ares.SeatStatus{Seat: ares.Seat{Node: "n1", NUMA: -1}, State: ares.SeatReleased, Result: &ares.RankResult{Outcome: ares.OutcomeSucceeded, StartedAt: placed, EndedAt: end}}
	for i := range m.GPUs {
		seat.Shares = append(seat.Shares, ares.Share{Device: fmt.Sprintf("%s#%d", m.Device, i), Index: i, Milli: 1000})
	}
	r := &ares.Run{
		Phase: m.Phase, Placed: 1, Reason: "ended", FinishedAt: end, Revision: m.Revision + 10,
		Attempts: []ares.Attempt{{
			Number: 1, Fence: ares.Fence(m.Revision + 1), Seats: []ares.SeatStatus{seat}, PlacedAt: placed, StartedAt: placed, EndedAt: end, Outcome: ares.OutcomeSucceeded,
		}},
		Transitions: []ares.Transition{{At: m.At, Phase: ares.Pending, Message: "accepted"}, {At: placed, Phase: ares.Running, Attempt: 1, Message: "placed"}, {At: end, Phase: m.Phase, Attempt: 1, Message: "ended"}},
	}
	if m.Edit != nil {
		m.Edit(j, r)
	}
	return history.Finished{Job: j, Run: r, Kinds: kindsOf}
}

// kindsOf is a variant of Kinds for devices whose name ends with a number.
func kindsOf(node, device string) history.Kind {
	for i := range device {
		if device[i] == '#' {
			return Kinds(node, device[:i])
		}
	}
	return Kinds(node, device)
}

func fill[T comparable](v *T, with T) {
	var zero T
	if *v == zero {
		*v = with
	}
}
