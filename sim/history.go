package sim

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
)

// gzipMagic contains the first two bytes of a recording. An archive file starts with a brace and not with these
// bytes.
var gzipMagic = []byte{0x1f, 0x8b}

// AssumedRuntime is the assumed runtime of a job that has no known end, no prediction and no time
// limit.
const AssumedRuntime = time.Hour

// historyReader collects the jobs of a server from a recording or an archive.
type historyReader struct {
	trace     *Trace
	state     *engine.State // state of a recording; an archive has only ended jobs
	jobs      map[ares.JobID]*jobHistory
	nodes     map[string]*ares.Node // all nodes that ever existed
	seenUntil time.Time             // time of the last event
}

// jobHistory is one job with its latest run.
type jobHistory struct {
	job  *ares.Job
	run  ares.Run
	line int
}

// readHistory reads the history of a server as a trace. The input is either a recording, which also
// contains the nodes, or an archive file.
//
// In the trace, a job arrives at the time when it was accepted. If it had `after` dependencies that ended
// later, it arrives when the last of them ended. A job's runtime in the trace is the total runtime of all its
// attempts. If the end of a job is not known, its runtime is predicted from similar runs. If a job has no
// prediction, its runtime is its time limit or, without a limit, AssumedRuntime. The predicted runtime is never
// shorter than the time for which the job has already run. Array elements are separate jobs. An element that
// does not exist yet arrives at the same time as its array. Jobs that ended without running, and elements that
// will never be created, are left out.
func readHistory(from io.Reader) (*Trace, error) {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(from, sum), 1<<16)
	p := &historyReader{trace: &Trace{Format: "ares"}, jobs: map[ares.JobID]*jobHistory{}, nodes: map[string]*ares.Node{}}
	head, err := in.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	if slices.Equal(head, gzipMagic) {
		err = p.readRecording(in)
	} else {
		err = p.readArchive(in)
	}
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(io.Discard, in); err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	p.trace.Digest = hex.EncodeToString(sum.Sum(nil))
	p.arrivals()
	return p.trace, nil
}

// readRecording reads a recording.
func (p *historyReader) readRecording(from io.Reader) error {
	in, err := recording.NewReader(from)
	if err != nil {
		return err
	}
	p.state = engine.NewWith(in.Header.Config)
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			p.trace.Fleet = p.fleet()
			return nil
		}
		if err != nil {
			return err
		}
		if f.Batch == nil {
			continue
		}
		if p.seenUntil.Before(f.Batch.At) {
			p.seenUntil = f.Batch.At
		}
		p.state.Apply(*f.Batch)
		for i := range f.Batch.Events {
			p.apply(&f.Batch.Events[i])
		}
	}
}

func (p *historyReader) apply(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		if p.jobs[ev.Job.ID] == nil {
			p.jobs[ev.Job.ID] = &jobHistory{job: ev.Job, run: ares.NewRun(ev.Job.AcceptedAt), line: len(p.jobs) + 1}
		}
	case ev.Run != nil:
		if l := p.jobs[ev.Run.Job]; l != nil {
			l.run = ev.Run.Run
		}
	case ev.Node != nil:
		p.nodes[ev.Node.ID] = ev.Node
	}
}

// readArchive reads the lines of an archive of finished jobs.
func (p *historyReader) readArchive(in *bufio.Reader) error {
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if len(text) > 1 {
			var l struct {
				Job ares.Job
				Run ares.Run
			}
			if bad := json.Unmarshal(text, &l); bad != nil {
				p.trace.addProblem(line, "not a line of an archive: "+bad.Error())
			} else if !ares.ValidJobID(string(l.Job.ID)) || !l.Run.Phase.Final() {
				p.trace.addProblem(line, "not a finished job")
			} else {
				p.jobs[l.Job.ID] = &jobHistory{job: &l.Job, run: l.Run, line: line} // a line may be repeated after a crash
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the trace: %w", err)
		}
	}
}

// This method adds all jobs to the trace, in the order of their arrival.
func (p *historyReader) arrivals() {
	all := slices.SortedFunc(maps.Values(p.jobs), func(a, b *jobHistory) int { // by acceptance
		return cmp.Or(cmp.Compare(a.job.Revision, b.job.Revision), cmp.Compare(a.job.ID, b.job.ID))
	})
	for _, l := range all {
		if !l.job.IsArray() {
			p.arrive(l)
			continue
		}
		if l.run.Phase.Final() || l.run.Stop != nil {
			continue
		}
		for i := l.run.Next; i < l.job.Array.Count; i++ { // earlier elements are jobs of their own
			p.arrive(&jobHistory{job: l.job.Element(i), run: ares.NewRun(l.job.AcceptedAt), line: l.line})
		}
	}
	slices.SortStableFunc(p.trace.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
}

// This method adds one job to the trace, unless the job ended without running.
func (p *historyReader) arrive(l *jobHistory) {
	runs, seen := p.runtime(l)
	if seen && runs == 0 {
		return
	}
	if !seen {
		p.trace.Unended++
	}
	spec := l.job.Spec
	spec.After = nil
	p.trace.Arrivals = append(p.trace.Arrivals, Arrival{At: p.eligible(l).Sub(time.Unix(0, 0)), Runs: runs, Spec: spec, Line: l.line, ID: string(l.job.ID), Owner: l.job.Owner})
}

// This method returns the earliest time at which a job could have started.
func (p *historyReader) eligible(l *jobHistory) time.Time {
	at := l.job.AcceptedAt
	after := l.job.After
	if array := p.jobs[l.job.ArrayOf]; array != nil {
		after = array.job.After
	}
	for _, id := range after {
		if before := p.jobs[ares.JobID(id)]; before != nil && before.run.FinishedAt.After(at) {
			at = before.run.FinishedAt
		}
	}
	return at
}

// This method returns how long a job runs and whether its end is known. The runtime is 0 if the job ended
// without running.
func (p *historyReader) runtime(l *jobHistory) (runs time.Duration, seen bool) {
	runs = l.run.RanFor(p.seenUntil)
	if l.run.Phase.Final() {
		return runs, true
	}
	done := l.run.Done(l.job, p.seenUntil)
	total, basis := expectedRuntime(p.state, l.job, AssumedRuntime, done)
	if basis == ByAssumption {
		p.trace.Assumed++
	}
	return max(runs, runs-done+total), false
}

// This method returns every machine that the recording mentions, and the latest tenant and queue records.
func (p *historyReader) fleet() *Fleet {
	f := &Fleet{Topology: p.state.Topology()}
	for _, id := range slices.Sorted(maps.Keys(p.nodes)) {
		n := *p.nodes[id]
		n.Unfit, n.Devices = "", slices.Clone(n.Devices)
		for i := range n.Devices {
			n.Devices[i].Celsius = 0 // the temperature depended on the load at that time
		}
		f.nodes = append(f.nodes, &n)
	}
	f.tenants = slices.Collect(p.state.Tenants())
	f.queues = slices.Collect(p.state.Queues())
	return f
}
