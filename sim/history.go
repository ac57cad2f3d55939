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

// past collects what became of the jobs of a server.
type past struct {
	trace *Trace
	state *engine.State // of a recording; an archive has only what ended
	known map[ares.JobID]*life
	nodes map[string]*ares.Node // that were there at some time
	ends  time.Time             // of what was seen
}

// life is one job with the last that is known of it.
type life struct {
	job  *ares.Job
	run  ares.Run
	line int
}

// readPast reads the past of a server as a trace: a recording, with its fleet,
// or the lines of an archive.
//
// A job arrives when it was accepted, or when the last of those had ended that
// it was to come after. It runs as long as its attempts ran together. One whose
// end was not seen runs as long as is predicted from runs like it, else as its
// limit allows, else for AssumedRuntime, but no shorter than it has.
// Elements of arrays are jobs of their own, and those that are yet to be made come
// with their array. Jobs that ended without having run, and elements that nobody
// will make, are nothing to place.
func readPast(from io.Reader) (*Trace, error) {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(from, sum), 1<<16)
	p := &past{trace: &Trace{Format: "ares"}, known: map[ares.JobID]*life{}, nodes: map[string]*ares.Node{}}
	head, err := in.Peek(len(gzipMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	if slices.Equal(head, gzipMagic) {
		err = p.recorded(in)
	} else {
		err = p.archived(in)
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

// recorded reads a recording.
func (p *past) recorded(from io.Reader) error {
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
		if p.ends.Before(f.Batch.At) {
			p.ends = f.Batch.At
		}
		p.state.Apply(*f.Batch)
		for i := range f.Batch.Events {
			p.hear(&f.Batch.Events[i])
		}
	}
}

func (p *past) hear(ev *ares.Event) {
	switch {
	case ev.Job != nil:
		if p.known[ev.Job.ID] == nil {
			p.known[ev.Job.ID] = &life{job: ev.Job, run: ares.NewRun(ev.Job.AcceptedAt), line: len(p.known) + 1}
		}
	case ev.Run != nil:
		if l := p.known[ev.Run.Job]; l != nil {
			l.run = ev.Run.Run
		}
	case ev.Node != nil:
		p.nodes[ev.Node.ID] = ev.Node
	}
}

// archived reads the lines that a server has written of finished jobs.
func (p *past) archived(in *bufio.Reader) error {
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if len(text) > 1 {
			var l struct {
				Job ares.Job
				Run ares.Run
			}
			if bad := json.Unmarshal(text, &l); bad != nil {
				p.trace.bad(line, "not a line of an archive: "+bad.Error())
			} else if !ares.ValidJobID(string(l.Job.ID)) || !l.Run.Phase.Final() {
				p.trace.bad(line, "not a finished job")
			} else {
				p.known[l.Job.ID] = &life{job: &l.Job, run: l.Run, line: line} // a crash may have repeated it
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
func (p *past) arrivals() {
	all := slices.SortedFunc(maps.Values(p.known), func(a, b *life) int { // as they were accepted
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
			p.arrive(&life{job: l.job.Element(i), run: ares.NewRun(l.job.AcceptedAt), line: l.line})
		}
	}
	slices.SortStableFunc(p.trace.Arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
}

// arrive makes one of them, unless it ended without having run.
func (p *past) arrive(l *life) {
	runs, seen := p.ran(l)
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
func (p *past) eligible(l *life) time.Time {
	at := l.job.AcceptedAt
	after := l.job.After
	if array := p.known[l.job.ArrayOf]; array != nil {
		after = array.job.After
	}
	for _, id := range after {
		if before := p.known[ares.JobID(id)]; before != nil && before.run.FinishedAt.After(at) {
			at = before.run.FinishedAt
		}
	}
	return at
}

// ran is how long a job runs, 0 when it ended without having run, and whether
// its end was seen.
func (p *past) ran(l *life) (runs time.Duration, seen bool) {
	runs = l.run.RanFor(p.ends)
	if l.run.Phase.Final() {
		return runs, true
	}
	done := l.run.Done(l.job, p.ends)
	total, basis := lasts(p.state, l.job, AssumedRuntime, done)
	if basis == ByAssumption {
		p.trace.Assumed++
	}
	return max(runs, runs-done+total), false
}

// fleet is what the recording knows of machines and tenants: every machine that
// it speaks of, and the shares as they were last.
func (p *past) fleet() *Fleet {
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
