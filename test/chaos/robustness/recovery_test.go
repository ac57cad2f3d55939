package robustness_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/recorder"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// These values describe the losses that nodeLosses measures.
const (
	quick       = 12 * time.Second // session TTL and lost_after for a quick recovery
	gangRanks   = 2
	rankDevices = 3 // two ranks do not fit on one node
)

var (
	recoveryNodes = rounds.Sized(12, 3) // with four devices each
	lossRounds    = rounds.Sized(5, 1)
	lossesAtOnce  = rounds.Sized(4, 1) // the other nodes have room for every gang
)

// The type `recoveries` holds the times of the losses, each measured from the
// failure of the node.
type recoveries struct {
	ended  []time.Duration // the node's session ended in the store
	voided []time.Duration // the job's ranks were taken back from the node
	placed []time.Duration // the next attempt was placed
	total  []time.Duration // the process of the attempt's last rank has started
}

func (r *recoveries) print(b *testing.B, setting string, limit time.Duration) {
	b.Helper()
	rows := [][]string{{"from the loss until", "median, s", "worst, s"}}
	for _, row := range []struct {
		what string
		of   []time.Duration
	}{
		{"the node's session has ended", r.ended},
		{"its ranks are taken back", r.voided},
		{"the gang is placed again", r.placed},
		{"the gang runs again: the last rank's process has started", r.total},
	} {
		slices.Sort(row.of)
		rows = append(rows, []string{row.what, fmt.Sprintf("%.1f", row.of[len(row.of)/2].Seconds()), fmt.Sprintf("%.1f", row.of[len(row.of)-1].Seconds())})
	}
	table(b, fmt.Sprintf("%d losses of a node, %s", len(r.total), setting), rows)
	if worst := slices.Max(r.total); worst >= limit && !rounds.Tiny() {
		b.Errorf("%s: the worst recovery took %s, the limit is %s", setting, worst, limit)
	}
}

// `shorten` restarts the servers and the agents with another session TTL.
func (f *fleet) shorten(b *testing.B, ttl time.Duration) {
	b.Helper()
	f.patience.session = ttl
	for i, s := range f.servers {
		f.configure(i)
		s.Stop(syscall.SIGTERM, 20*time.Second)
		s.Start()
		c := f.client(i, 5*time.Second)
		live.Await(b, time.Minute, "the server to be ready again", func() (bool, string) {
			err := c.Ready(b.Context())
			return err == nil, fmt.Sprint(err)
		})
		_ = c.Close()
	}
	for _, a := range f.agents { // the TTL of a session is decided when it is opened
		a.Kill()
		a.Start()
	}
	f.awaitOnline(b)
}

func (f *fleet) awaitOnline(b *testing.B) {
	b.Helper()
	c := f.anyClient(0)
	defer c.Close()
	for i, m := range f.workers {
		live.Await(b, time.Minute, m.Name+" to be online", func() (bool, string) {
			n, err := c.Node(b.Context(), m.Name)
			log := f.agents[i].Log()
			last, _, _ := strings.Cut(log[max(strings.LastIndex(log, "session open"), 0):], "\n")
			return err == nil && n.GetState() == string(ares.Online) && strings.Contains(last, "ttl="+f.patience.session.String()), fmt.Sprint(n.GetState(), err, last)
		})
	}
}

// A `victim` is a gang and the node that it loses.
type victim struct {
	job  string
	file string // that its processes write
	node int    // index of the worker
	lost time.Duration
}

// nodeLosses makes nodes fail, and measures the time until the gangs that ran
// there run again. Gangs with the lost_after 0 have the default.
func nodeLosses(b *testing.B, f *fleet, rec *recorder.Recorder, record *trace.Writer, name string, lostAfter time.Duration) *recoveries {
	b.Helper()
	r := rand.New(rand.NewPCG(17, uint64(lostAfter)))
	c := f.anyClient(0)
	defer c.Close()
	out := &recoveries{}
	for round := range lossRounds {
		victims := f.submitGangs(b, c, record, fmt.Sprintf("%s-%d", name, round), lostAfter)
		var failing sync.WaitGroup
		for _, v := range victims {
			moment := 2*time.Second + time.Duration(r.Int64N(int64(f.patience.session/8)))
			failing.Go(func() {
				pause.For(b.Context(), moment)
				v.lost = trace.Now()
				f.workers[v.node].Unplug()
				f.crash(v.node)
			})
		}
		failing.Wait()
		for _, v := range victims {
			last := time.Duration(0)
			for _, w := range f.awaitRanks(b, v, 2) {
				last = max(last, w.At)
			}
			out.add(rec, v, f.workers[v.node].Name, last)
		}
		for _, v := range victims {
			if _, err := c.Cancel(b.Context(), v.job); err != nil {
				b.Fatal(err)
			}
			f.workers[v.node].Plug()
			f.agents[v.node].Start()
		}
		f.awaitOnline(b)
		awaitNoSeats(b, c, victims)
	}
	return out
}

// `add` adds the times of one loss.
func (r *recoveries) add(rec *recorder.Recorder, v *victim, node string, last time.Duration) {
	since := func(at time.Duration) time.Duration { return (at - v.lost).Round(time.Millisecond) }
	r.ended = append(r.ended, since(rec.Step(func(s recorder.LossStep) bool { return s.Node == node && s.At > v.lost })))
	r.voided = append(r.voided, since(rec.Step(func(s recorder.LossStep) bool { return string(s.Job) == v.job && !s.Placed })))
	r.placed = append(r.placed, since(rec.Step(func(s recorder.LossStep) bool { return string(s.Job) == v.job && s.Placed && s.Attempt == 2 })))
	r.total = append(r.total, since(last))
}

// submitGangs starts gangs and chooses the node that each of them will lose. No
// other gang runs on that node.
func (f *fleet) submitGangs(b *testing.B, c *client.Client, record *trace.Writer, name string, lostAfter time.Duration) []*victim {
	b.Helper()
	var out []*victim
	for k := range lossesAtOnce {
		answer, err := c.Submit(b.Context(), &apipb.JobSpec{
			RequestId: fmt.Sprintf("%s-%d", name, k), Name: name, GpuCount: rankDevices, Members: gangRanks, LostAfterSeconds: int32(lostAfter / time.Second),
			Command: []string{live.Witness.Path(b), "-to", filepath.Join(record.Dir, trace.JobsDir), "-for", "10m"},
		})
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, &victim{job: answer.GetJobId(), file: filepath.Join(record.Dir, trace.JobsDir, answer.GetJobId()+".trace"), node: -1})
	}
	gangsOn := map[string]int{}
	on := make([][]string, len(out))
	for k, v := range out {
		for _, w := range f.awaitRanks(b, v, 1) {
			if !slices.Contains(on[k], w.Node) {
				on[k] = append(on[k], w.Node)
				gangsOn[w.Node]++
			}
		}
	}
	for k, v := range out {
		i := slices.IndexFunc(on[k], func(node string) bool { return gangsOn[node] == 1 })
		if i < 0 {
			b.Fatalf("gang %d runs on %v, where other gangs run too: %v", k, on[k], gangsOn)
		}
		v.node = slices.IndexFunc(f.workers, func(m *machines.Machine) bool { return m.Name == on[k][i] })
	}
	return out
}

// awaitRanks waits until the processes of all ranks of an attempt have started.
func (f *fleet) awaitRanks(b *testing.B, v *victim, attempt int) []trace.Witness {
	b.Helper()
	var started []trace.Witness
	live.Await(b, 2*time.Minute, fmt.Sprintf("attempt %d to start", attempt), func() (bool, string) {
		data, _ := os.ReadFile(v.file) // the file may not exist yet
		started = nil
		for _, w := range trace.ParseWitnesses(string(data)) {
			if w.Verb == trace.Started && w.Attempt == attempt {
				started = append(started, w)
			}
		}
		return len(started) == gangRanks, fmt.Sprint(v.file, " ", len(started))
	})
	return started
}

// awaitNoSeats waits until cancelled jobs have ended.
func awaitNoSeats(b *testing.B, c *client.Client, victims []*victim) {
	b.Helper()
	for _, v := range victims {
		live.Await(b, time.Minute, v.job+" to end", func() (bool, string) {
			j, err := c.Job(b.Context(), v.job)
			return err == nil && ares.Phase(j.GetState()).Final(), fmt.Sprint(j.GetState(), err)
		})
	}
}
