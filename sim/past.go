package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
)

// recordingFormat is the kind of trace that a server's recording is.
const recordingFormat = "ares"

// past is the jobs of a recording, each with how long it ran.
type past struct {
	jobs map[ares.JobID]*pastJob
}

type pastJob struct {
	job   *ares.Job
	ended bool
	ran   time.Duration // of all attempts, while every rank of them ran
}

// readPast makes a trace of a recording: a user's own past. An element of an
// array is a job that comes when its array came. Jobs that had not ended are
// left out, since nobody knows how long they run, and told as bad rows; those
// that ended without ever running are nothing to place. A job's place in the
// store, its revision, stands for its line.
func readPast(from io.Reader) (*Trace, error) {
	sum := sha256.New()
	from = io.TeeReader(from, sum)
	in, err := recording.NewReader(from)
	if err != nil {
		return nil, err
	}
	p := past{jobs: map[ares.JobID]*pastJob{}}
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if f.Batch != nil {
			p.saw(f.Batch)
		}
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	t := p.trace()
	t.Digest = hex.EncodeToString(sum.Sum(nil))
	return t, nil
}

func (p *past) saw(b *ares.Batch) {
	for i := range b.Events {
		ev := &b.Events[i]
		if ev.Job != nil && p.jobs[ev.Job.ID] == nil {
			p.jobs[ev.Job.ID] = &pastJob{job: ev.Job}
		}
		if ev.Run == nil || p.jobs[ev.Run.Job] == nil {
			continue
		}
		if run := &ev.Run.Run; run.Phase.Final() {
			j := p.jobs[ev.Run.Job]
			j.ended, j.ran = true, run.RanFor(run.FinishedAt)
		}
	}
}

func (p *past) trace() *Trace {
	t := &Trace{Format: recordingFormat}
	after := false
	all := slices.SortedFunc(maps.Values(p.jobs), func(a, b *pastJob) int {
		return cmp.Or(cmp.Compare(a.job.Revision, b.job.Revision), cmp.Compare(a.job.ID, b.job.ID))
	})
	for _, j := range all {
		spec, came := j.job.Spec, j.job.AcceptedAt
		if spec.Array.Count > 0 && j.job.ArrayOf == "" {
			continue // its elements are the jobs
		}
		if of := p.jobs[j.job.ArrayOf]; of != nil {
			came = of.job.AcceptedAt
		}
		if !j.ended {
			t.bad(int(j.job.Revision), fmt.Sprintf("%s had not ended: how long it runs is not known", j.job.ID))
			continue
		}
		if j.ran <= 0 {
			continue
		}
		after = after || len(spec.After) > 0
		spec.After, spec.Array = nil, ares.Array{} // the names of others mean nothing here
		t.Arrivals = append(t.Arrivals, Arrival{At: came.Sub(time.Unix(0, 0)), Runs: j.ran, Spec: spec, Line: int(j.job.Revision)})
	}
	if after {
		t.Ignored = append(t.Ignored, "after")
	}
	slices.SortStableFunc(t.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return t
}

// Fleet is the machines, tenants and queues of a snapshot, all of the machines
// well and free.
func (s *Snapshot) Fleet() *Fleet {
	f := &Fleet{}
	for i := range s.Batch.Events {
		switch ev := &s.Batch.Events[i]; {
		case ev.Node != nil:
			n := *ev.Node
			n.Unfit, n.Devices = "", slices.Clone(n.Devices)
			for k := range n.Devices {
				n.Devices[k].Healthy, n.Devices[k].Reason, n.Devices[k].Celsius = true, "", 0
			}
			f.nodes = append(f.nodes, &n)
		case ev.Tenant != nil:
			f.tenants = append(f.tenants, ev.Tenant)
		case ev.Queue != nil:
			f.queues = append(f.queues, ev.Queue)
		case ev.Topology != nil:
			f.Topology = ev.Topology
		}
	}
	slices.SortFunc(f.nodes, func(a, b *ares.Node) int { return cmp.Compare(a.ID, b.ID) })
	return f
}

// ReadRecordedFleet is the fleet that a recording ends with.
func ReadRecordedFleet(from io.Reader) (*Fleet, error) {
	sum := sha256.New()
	from = io.TeeReader(from, sum)
	s, err := ReadSnapshot(from)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, from); err != nil {
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	f := s.Fleet()
	if len(f.nodes) == 0 {
		return nil, ares.Errorf(ares.Invalid, "the recording has no nodes")
	}
	f.Digest = hex.EncodeToString(sum.Sum(nil))
	return f, nil
}
