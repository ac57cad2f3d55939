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

// gzipMagic begins a recording; the lines of an archive begin with a brace.
var gzipMagic = []byte{0x1f, 0x8b}

// AssumedRuntime is how long a job runs of which nobody knows.
const AssumedRuntime = time.Hour

// historyReader collects what became of the jobs of a server.
type historyReader struct {
	trace     *Trace
	state     *engine.State // of a recording; an archive has only what ended
	jobs      map[ares.JobID]*jobHistory
	nodes     map[string]*ares.Node // that were there at some time
	seenUntil time.Time             // of what was seen
}

// jobHistory is one job with the last that is known of it.
type jobHistory struct {
	job  *ares.Job
	run  ares.Run
	line int
}

// readHistory reads the past of a server as a trace: a recording, with its fleet,
// or the lines of an archive.
//
// A job arrives when it was accepted, or when the last of those had ended that
// it was to come after. It runs as long as its attempts ran together. One whose
// end was not seen runs as long as is predicted from runs like it, else as its
// limit allows, else for AssumedRuntime, but no shorter than it has.
// Elements of arrays are jobs of their own, and those that are yet to be made come
// with their array. Jobs that ended without having run, and elements that nobody
// will make, are nothing to place.
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

// readArchive reads the lines that a server has written of finished jobs.
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
				p.jobs[l.Job.ID] = &jobHistory{job: &l.Job, run: l.Run, line: line} // a crash may have repeated it
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

// arrivals makes the jobs of the trace.
func (p *historyReader) arrivals() {
	all := slices.SortedFunc(maps.Values(p.jobs), func(a, b *jobHistory) int { // as they were accepted
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
		for i := l.run.Next; i < l.job.Array.Count; i++ { // those before are jobs of their own
			p.arrive(&jobHistory{job: l.job.Element(i), run: ares.NewRun(l.job.AcceptedAt), line: l.line})
		}
	}
	slices.SortStableFunc(p.trace.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
}

// arrive makes one of them, unless it ended without having run.
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
	p.trace.Arrivals = append(p.trace.Arrivals, Arrival{At: p.eligible(l).Sub(time.Unix(0, 0)), Runs: runs, Spec: spec, Line: l.line, ID: string(l.job.ID)})
}

// eligible is when a job could have begun at the earliest.
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

// runtime is how long a job runs, 0 when it ended without having run, and whether
// its end was seen.
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

// fleet is what the recording knows of machines and tenants: every machine that
// it speaks of, and the shares as they were last.
func (p *historyReader) fleet() *Fleet {
	f := &Fleet{Topology: p.state.Topology()}
	for _, id := range slices.Sorted(maps.Keys(p.nodes)) {
		n := *p.nodes[id]
		n.Unfit, n.Devices = "", slices.Clone(n.Devices)
		for i := range n.Devices {
			n.Devices[i].Celsius = 0 // it went with the load of then
		}
		f.nodes = append(f.nodes, &n)
	}
	f.tenants = slices.Collect(p.state.Tenants())
	f.queues = slices.Collect(p.state.Queues())
	return f
}
