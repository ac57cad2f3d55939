package check

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// The type `line` is one printed line of a job's history.
type line struct {
	at   time.Duration
	text string
}

// Story prints everything that the record contains about a job. The output is
// in order of time, with one line per event. The output includes the clients'
// calls, the states in the store, and the lines of the job's processes. It
// also includes the faults in that time.
func Story(r *trace.Run, job string, w io.Writer) {
	lines := slices.Concat(callLines(r, job), storeLines(r, job), witnessLines(r.Witnesses[job]))
	if len(lines) == 0 {
		fmt.Fprintf(w, "%s: the record knows nothing of it\n", job)
		return
	}
	from, to := time.Duration(math.MaxInt64), time.Duration(0)
	for _, l := range lines {
		from, to = min(from, l.at), max(to, l.at)
	}
	lines = append(lines, faultLines(r, from, to)...)
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	fmt.Fprintf(w, "%s\n", job)
	for _, l := range lines {
		fmt.Fprintf(w, "%10.3f %s\n", (l.at - r.Meta.Start).Seconds(), l.text)
	}
}

func callLines(r *trace.Run, job string) []line {
	var out []line
	listed := map[string]string{} // last listing by server; most lists repeat it
	for _, c := range r.Calls {
		if c.Op == trace.List {
			if text := listedAs(&c, job); text != "" && text != listed[c.Server] {
				listed[c.Server] = text
				out = append(out, line{c.Start, fmt.Sprintf("call  c%d %s list +%s r%d: %s", c.Client, c.Server, seconds(c.End-c.Start), c.Revision, text)})
			}
			continue
		}
		if c.Job != job {
			continue
		}
		text := fmt.Sprintf("call  c%d %s %s +%s %s", c.Client, c.Server, c.Op, seconds(c.End-c.Start), c.Outcome)
		for _, part := range []struct {
			set  bool
			text string
		}{
			{c.Body != "", " body " + c.Body},
			{c.Duplicate, " duplicate"},
			{c.Phase != "", " " + string(c.Phase)},
			{c.Attempt != 0, fmt.Sprintf(" a%d", c.Attempt)},
			{c.Stop != "", " stop=" + c.Stop},
			{c.Revision != 0, fmt.Sprintf(" r%d", c.Revision)},
			{c.Code != "", " " + c.Code},
			{c.Error != "", " (" + c.Error + ")"},
		} {
			if part.set {
				text += part.text
			}
		}
		out = append(out, line{c.Start, text})
	}
	return out
}

func listedAs(c *trace.Call, job string) string {
	for _, l := range c.Listed {
		if l.Job == job {
			return fmt.Sprintf("%s r%d", l.Phase, l.Revision)
		}
	}
	return ""
}

func storeLines(r *trace.Run, job string) []line {
	var out []line
	for i := range r.Store {
		e := &r.Store[i]
		head := fmt.Sprintf("store r%d ", e.Batch.Revision)
		if e.Batch.Reset {
			head += "snapshot "
		}
		for k := range e.Batch.Events {
			switch ev := &e.Batch.Events[k]; {
			case ev.Job != nil && string(ev.Job.ID) == job:
				out = append(out, line{e.At, head + fmt.Sprintf("accepted at r%d for %s, %d×%d GPUs %d/1000", ev.Job.Revision, ev.Job.Tenant, max(ev.Job.Members, 1), ev.Job.GPUs, ev.Job.GPUMilli)})
			case ev.Run != nil && string(ev.Run.Job) == job:
				out = append(out, line{e.At, head + runText(&ev.Run.Run)})
			case ev.Gone.Kind == ares.KindJob && ev.Gone.ID == job:
				out = append(out, line{e.At, head + "archived"})
			}
		}
	}
	return out
}

func runText(r *ares.Run) string {
	text := string(r.Phase)
	if r.Stop != nil {
		text += " stop=" + string(r.Stop.Why)
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if i < len(r.Attempts)-1 && a.Free() {
			continue // it ended long before
		}
		text += fmt.Sprintf(" | a%d f%d %s", a.Number, a.Fence, a.Outcome)
		for k := range a.Seats {
			h := &a.Seats[k]
			text += fmt.Sprintf(" %d@%s:%s", h.Rank, h.Node, h.State)
			for _, sh := range h.Shares {
				text += fmt.Sprintf(",%d", sh.Index)
			}
			if h.Result != nil {
				text += "=" + string(h.Result.Outcome)
			}
		}
	}
	return text
}

// witnessLines merges consecutive heartbeats of one process into one line.
func witnessLines(all []trace.Witness) []line {
	var out []line
	beats := map[int]int{} // index of the current line of beats, by pid
	count := map[int]int{}
	for _, w := range all {
		text := fmt.Sprintf("job   a%d f%d rank %d on %s pid %d: %s", w.Attempt, w.Fence, w.Rank, w.Node, w.Pid, w.Verb)
		if i, going := beats[w.Pid]; going && w.Verb == trace.Beat {
			count[w.Pid]++
			out[i].text = fmt.Sprintf("%s ×%d, the last %s later", text, count[w.Pid], seconds(w.At-out[i].at))
			continue
		}
		delete(beats, w.Pid)
		if w.Verb == trace.Beat {
			beats[w.Pid], count[w.Pid] = len(out), 1
		}
		if w.Detail != "" && w.Detail != "-" {
			text += " " + w.Detail
		}
		out = append(out, line{w.At, text})
	}
	return out
}

func faultLines(r *trace.Run, from, to time.Duration) []line {
	var out []line
	for _, f := range r.Faults {
		if f.At > to || max(f.At, f.Until)+Margin < from {
			continue
		}
		text := strings.TrimSpace(fmt.Sprintf("FAULT %s %s %s", f.Kind, f.Target, f.Detail))
		if f.Until > f.At {
			text += " for " + seconds(f.Until-f.At)
		}
		if f.Excuses {
			text += " (excuses)"
		}
		out = append(out, line{f.At, text})
	}
	return out
}
