package verdict_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// The type `made` is a record that a test makes by hand. East and west are two clusters with a node each.
type made struct {
	*verdict.Run

	revision int64
}

func newRecord() *made {
	m := &made{Run: &verdict.Run{
		Meta: verdict.Meta{Quotas: map[string]int{"blue": 4}, Nodes: map[string]string{"east-n1": "east", "west-n1": "west"}},
		Hub:  &trace.Run{Meta: trace.Meta{Hub: true}}, Clusters: map[string]*trace.Run{"east": {}, "west": {}}, Witnesses: map[string][]trace.Witness{},
	}}
	for _, name := range []string{"east", "west"} {
		m.happens(0, verdict.Joined, name, false)
	}
	m.store(m.Hub, ares.Event{Job: m.job("job", 0, nil)}, ares.Event{Job: m.job("other", 0, nil)})
	return m
}

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func (m *made) happens(seconds float64, what verdict.What, cluster string, alive bool) {
	m.Meta.Events = append(m.Meta.Events, verdict.Event{At: at(seconds), What: what, Cluster: cluster, Alive: alive})
}

func (m *made) store(r *trace.Run, events ...ares.Event) {
	m.revision++
	r.Store = append(r.Store, trace.Entry{Batch: ares.Batch{Revision: m.revision, Reset: len(r.Store) == 0, Events: events}})
}

// The method `job` returns the record of a job of tenant blue. With an epoch, a hub has granted it.
func (m *made) job(id ares.JobID, epoch int64, edit func(*ares.Spec)) *ares.Job {
	j := &ares.Job{ID: id, Spec: ares.Spec{Tenant: "blue", GPUs: 1}.WithDefaults()}
	if epoch > 0 {
		j.Origin = &ares.Origin{Hub: "hub", Epoch: epoch}
	}
	if edit != nil {
		edit(&j.Spec)
	}
	return j
}

// The method `grant` stores in a cluster that the hub has granted it a job.
func (m *made) grant(cluster string, id ares.JobID, epoch int64) {
	m.store(m.Clusters[cluster], ares.Event{Job: m.job(id, epoch, nil)})
}

// The method `giveBack` stores that a cluster has returned a job.
func (m *made) giveBack(cluster string, id ares.JobID) {
	m.store(m.Clusters[cluster], ares.Event{Run: &ares.RunEvent{Job: id, Run: ares.Run{Phase: ares.Returned}}})
}

// The method `runs` writes the lines of a process with some devices, such as "0,1".
func (m *made) runs(cluster, id string, epoch, attempt int64, from, to float64, devices string) {
	w := trace.Witness{Verb: trace.Started, Attempt: int(attempt), Fence: epoch<<16 + attempt, Node: cluster + "-n1", At: at(from), Detail: devices}
	m.Witnesses[id] = append(m.Witnesses[id], w)
	w.Verb, w.At, w.Detail = trace.Ended, at(to), "-"
	m.Witnesses[id] = append(m.Witnesses[id], w)
}

// The function `moved` returns a good record: a job fails in east, is returned, and succeeds in west.
func moved() *made {
	m := newRecord()
	m.grant("east", "job", 10)
	m.runs("east", "job", 10, 1, 1, 2, "0,1")
	m.runs("east", "job", 10, 2, 3, 4, "0,1")
	m.giveBack("east", "job")
	m.grant("west", "job", 20)
	m.runs("west", "job", 20, 1, 5, 6, "0,1")
	return m
}

// The function `taken` returns a record in which east was declared dead while the job ran there, and west started it.
func taken(alive bool) *made {
	m := newRecord()
	m.grant("east", "job", 10)
	m.happens(4, verdict.Dead, "east", alive)
	m.grant("west", "job", 20)
	m.runs("west", "job", 20, 1, 5, 6, "0,1")
	return m
}

// TestOverlapLines checks who judges a process that has found another one of its job alive: the oracle of all clusters if the job ran in
// another cluster at that time, and otherwise the one of the cluster itself.
func TestOverlapLines(t *testing.T) {
	t.Parallel()
	for cluster, foundInside := range map[string]bool{"east": false, "west": true} {
		m := taken(true)
		m.runs(cluster, "job", 10, 1, 1, 5.5, "0,1")
		m.Witnesses["job"] = append(m.Witnesses["job"], trace.Witness{
			Verb: trace.Overlap, Attempt: 1, Fence: 20<<16 + 1, Node: "west-n1", At: at(5), Detail: "attempt:1,rank:0",
		})
		r := verdict.Judge(m.Run)
		got := slices.ContainsFunc(r.Violations(), func(v check.Violation) bool { return strings.Contains(v.Text, "found another attempt alive") })
		if got != foundInside || !foundInside && len(r.Excused) != 1 {
			t.Errorf("the older process is in %s: its own oracle found it %t; %d are excused", cluster, got, len(r.Excused))
		}
	}
}

// TestVerdict judges good and bad records of all clusters together.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		record  func() *made
		oracle  check.Oracle // "" if the record is good
		words   string
		excused int
	}{
		{"a job moves", moved, "", "", 0},
		{"it comes back to the first cluster", func() *made {
			m := moved()
			m.giveBack("west", "job")
			m.runs("east", "job", 30, 1, 7, 8, "0")
			return m
		}, "", "", 0},
		{"nothing has ended the first grant", func() *made {
			m := moved()
			m.Clusters["east"].Store = m.Clusters["east"].Store[:1]
			return m
		}, verdict.OneCluster, "nothing has ended the first grant", 0},
		{"another grant was returned", func() *made {
			m := moved()
			m.Clusters["east"].Store[0].Batch.Events[0].Job.Origin.Epoch = 9
			return m
		}, verdict.OneCluster, "nothing has ended the first grant", 0},
		{"two clusters with one grant", func() *made {
			m := newRecord()
			m.runs("east", "job", 10, 1, 1, 2, "0")
			m.runs("west", "job", 10, 2, 3, 4, "0")
			return m
		}, verdict.OneCluster, "both started it under the grant 10", 0},
		{"two clusters at the same time", func() *made {
			m := moved()
			m.runs("west", "job", 20, 2, 3.5, 4.5, "0")
			return m
		}, verdict.OneCluster, "it ran in cluster east until 4.000s (grant 10), and in cluster west from 3.500s on", 0},
		{"an at_most_once job moves", func() *made {
			m := moved()
			m.Hub.Store[0].Batch.Events[0].Job.Mode = ares.AtMostOnce
			return m
		}, verdict.OneCluster, "at_most_once", 0},
		{"a restore of the cluster forgot the start", func() *made {
			m := moved()
			m.Clusters["east"].Store = m.Clusters["east"].Store[:1]
			m.happens(4.5, verdict.Restored, "east", true)
			return m
		}, "", "", 0},
		{"a restore of the hub forgot the grant", func() *made {
			m := moved()
			m.Clusters["east"].Store = m.Clusters["east"].Store[:1]
			m.happens(4.5, verdict.Restored, verdict.Hub, true)
			return m
		}, "", "", 0},
		{"a restore of a third cluster", func() *made {
			m := moved()
			m.Clusters["east"].Store = m.Clusters["east"].Store[:1]
			m.happens(4.5, verdict.Restored, "west", true)
			return m
		}, verdict.OneCluster, "nothing has ended the first grant", 0},
		{"a fenced job moves", func() *made {
			m := moved()
			m.Clusters["east"].Store = m.Clusters["east"].Store[:1]
			m.Hub.Store[0].Batch.Events[0].Job.EditPlacement().OnPartition = ares.PartitionFence
			return m
		}, "", "", 0},
		{"a fenced job overlaps", func() *made {
			m := moved()
			m.Hub.Store[0].Batch.Events[0].Job.EditPlacement().OnPartition = ares.PartitionFence
			m.runs("east", "job", 10, 2, 3, 5.5, "0,1")
			return m
		}, verdict.OneCluster, "it ran in cluster east until", 0},
		{"a dead cluster", func() *made {
			m := taken(false)
			m.runs("east", "job", 10, 1, 1, 4, "0,1")
			return m
		}, "", "", 0},
		{"a dead cluster that runs the job", func() *made {
			m := taken(false)
			m.runs("east", "job", 10, 1, 1, 5.5, "0,1")
			return m
		}, verdict.OneCluster, "it ran in cluster east", 0},
		{"a living cluster that was declared dead", func() *made {
			m := taken(true)
			m.runs("east", "job", 10, 1, 1, 5.5, "0,1")
			return m
		}, "", "", 1},
		{"it starts the job late", func() *made {
			m := taken(true)
			m.runs("east", "job", 10, 1, 7, 8, "0,1")
			return m
		}, "", "", 2}, // overlap and token
		{"a token that shrinks", func() *made {
			m := moved()
			m.runs("east", "job", 9, 1, 7, 8, "0")
			return m
		}, verdict.TokensGrow, "started with the token 589825 after one in cluster west with 1310721", 0},
		{"a token of a cluster's own job that shrinks", func() *made {
			m := newRecord()
			m.grant("east", "local", 0)
			m.runs("east", "local", 0, 7, 1, 2, "0")
			m.runs("east", "local", 0, 6, 3, 4, "0")
			return m
		}, verdict.TokensGrow, "started with the token 6", 0},
		{"loans up to the limit", func() *made { return lends(3, 1) }, "", "", 0},
		{"loans above the limit", func() *made { return lends(3, 2) }, verdict.WithinLoans, "has a limit of 4 GPUs, and 5 are lent at revision 7", 0},
		{"loans of a hub that asks its clusters", func() *made {
			m := lends(3, 2)
			m.Loans[0].Asking = true
			return m
		}, "", "", 0},
		{"a cluster that comes back brings its use", func() *made {
			m := lends(4, 0)
			m.happens(0.5, verdict.Dead, "west", true)
			m.lend(2, 4, 2)
			m.lend(3, 4, 1)
			return m
		}, "", "", 0},
		{"a cluster that came back gets too much", func() *made {
			m := lends(3, 0)
			m.happens(0.5, verdict.Dead, "west", true)
			m.lend(2, 3, 1)
			m.lend(3, 4, 2)
			return m
		}, verdict.WithinLoans, "and 5 are lent", 0},
		{"a negative loan", func() *made { return lends(-1, 2) }, verdict.WithinLoans, "is -1", 0},
		{"use up to the limit", func() *made { return uses("0,1,2", "0", 1) }, "", "", 0},
		{"use above the limit", func() *made { return uses("0,1,2", "0,1", 1) }, verdict.WithinLoans, "has a limit of 4 GPUs, and uses 5", 0},
		{"one after the other", func() *made { return uses("0,1,2", "0,1", 3) }, "", "", 0},
		{"a cluster that left", func() *made {
			m := uses("0,1,2", "0,1", 1)
			m.happens(0.5, verdict.Left, "west", true)
			return m
		}, "", "", 0},
		{"a cluster that leaves later", func() *made {
			m := uses("0,1,2", "0,1", 1)
			m.happens(2.5, verdict.Left, "west", true)
			return m
		}, verdict.WithinLoans, "uses 5", 0},
		{"a job that runs when its cluster joins", func() *made {
			m := uses("0,1,2", "0,1", 1)
			m.happens(0.5, verdict.Left, "west", true)
			m.happens(1.5, verdict.Joined, "west", true)
			return m
		}, "", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := verdict.Judge(c.record().Run)
			if len(r.Excused) != c.excused {
				t.Errorf("%d are excused, want %d: %v", len(r.Excused), c.excused, r.Excused)
			}
			if c.oracle == "" {
				for _, v := range r.Federation {
					t.Error(v)
				}
				return
			}
			for _, v := range r.Federation {
				if v.Oracle == c.oracle && strings.Contains(v.Text, c.words) {
					return
				}
			}
			t.Errorf("no violation of %s with %q; found %v", c.oracle, c.words, r.Federation)
		})
	}
}

// The function `lends` returns a record in which the hub has lent something to two clusters.
func lends(east, west int) *made {
	m := newRecord()
	m.Loans = []verdict.Loans{{At: at(1), Revision: 7, Loans: []verdict.Loan{{Tenant: "blue", Cluster: "east", GPUs: east}, {Tenant: "blue", Cluster: "west", GPUs: west}}}}
	return m
}

// The method `lend` adds a later state of the loans.
func (m *made) lend(seconds float64, east, west int) {
	m.Loans = append(m.Loans, verdict.Loans{At: at(seconds), Revision: 7 + int64(seconds), Loans: []verdict.Loan{{Tenant: "blue", Cluster: "east", GPUs: east}, {Tenant: "blue", Cluster: "west", GPUs: west}}})
}

// The function `uses` returns a record in which a job runs in each cluster, in west a while after east.
func uses(east, west string, later float64) *made {
	m := newRecord()
	m.runs("east", "job", 10, 1, 0.1, 2, east)
	m.runs("west", "other", 11, 1, later, later+2, west)
	return m
}

func TestTotals(t *testing.T) {
	t.Parallel()
	r := verdict.Judge(moved().Run)
	if n := r.Totals; n.Granted != 1 || n.Moved != 1 || n.Grants != 2 || n.Lines != 6 || n.Most["blue"] != 2 {
		t.Errorf("miscounted: %+v", n)
	}
	var out strings.Builder
	r.Print(&out)
	if !strings.Contains(out.String(), "1 jobs of the hub were started under 2 grants, 1 of them in several clusters") {
		t.Errorf("printed:\n%s", &out)
	}
}

// TestSplit gives each cluster the lines of its own nodes, with the fence of the attempt instead of the token.
func TestSplit(t *testing.T) {
	t.Parallel()
	m := moved()
	m.store(m.Clusters["west"], ares.Event{Run: &ares.RunEvent{Job: "job", Run: ares.Run{Phase: ares.Running, Attempts: []ares.Attempt{{Number: 1, Fence: 77}}}}})
	m.Witnesses["job"] = append(m.Witnesses["job"], trace.Witness{Verb: trace.Beat, Node: "nowhere"})
	r := verdict.Judge(m.Run)
	east, west := m.Clusters["east"].Witnesses["job"], m.Clusters["west"].Witnesses["job"]
	if len(east) != 4 || len(west) != 2 || west[0].Fence != 77 || east[0].Fence != 10<<16+1 {
		t.Errorf("east has %v, west has %v", east, west)
	}
	if len(r.Federation) != 1 || r.Federation[0].Oracle != check.CleanRecord {
		t.Errorf("got %v", r.Federation)
	}
}

// TestLoad writes a record and reads it back.
func TestLoad(t *testing.T) {
	t.Parallel()
	dir, m := t.TempDir(), lends(1, 2)
	if _, err := verdict.Load(dir); err == nil {
		t.Error("a directory without a record was loaded")
	}
	if err := verdict.WriteMeta(dir, m.Meta); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{verdict.Hub, "east"} {
		w, err := trace.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err = w.Meta(trace.Meta{Hub: name == verdict.Hub}); err != nil {
			t.Fatal(err)
		}
		if err = w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	loans, err := verdict.CreateLoans(dir)
	if err == nil {
		err = loans.Write(m.Loans[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	if err = loans.Close(); err != nil {
		t.Fatal(err)
	}
	line := trace.Witness{Verb: trace.Started, Attempt: 1, Fence: 5, Node: "east-n1", At: at(1), Detail: "0"}
	if err = os.Mkdir(filepath.Join(dir, trace.JobsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(filepath.Join(dir, trace.JobsDir, "job.trace"), []byte(line.Line()), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := verdict.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Hub.Meta.Hub || len(got.Clusters) != 1 || len(got.Loans) != 1 || len(got.Loans[0].Loans) != 2 || got.Witnesses["job"][0] != line || got.Meta.Quotas["blue"] != 4 {
		t.Errorf("got %+v", got)
	}
}
