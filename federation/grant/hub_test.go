package grant_test

import (
	"reflect"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/grant"
)

// hub returns a hub with one job that is bound to cluster "a", incarnation "1", with epoch 7.
func hub(edit ...func(*grant.Job)) *grant.Hub {
	j := grant.Job{Epoch: 7, Cluster: "a", Incarnation: "1"}
	for _, e := range edit {
		e(&j)
	}
	return &grant.Hub{
		Clusters: map[string]grant.Cluster{"a": {Incarnation: "1"}, "b": {Incarnation: "1"}},
		Jobs:     map[ares.JobID]grant.Job{"x": j},
	}
}

func once(j *grant.Job)      { j.Once = true }
func cancelled(j *grant.Job) { j.Cancel = true }
func offered(j *grant.Job)   { j.Cluster, j.Incarnation = "", "" }
func waiting(j *grant.Job)   { offered(j); j.Epoch = 0 }

func listed(epoch int64, state grant.State) []grant.Listed {
	return []grant.Listed{{Job: "x", Epoch: epoch, State: state}}
}

var x7 = []grant.Ref{{Job: "x", Epoch: 7}}

func TestReconcile(t *testing.T) {
	for _, c := range []struct {
		name        string
		hub         *grant.Hub
		incarnation string
		list        []grant.Listed
		do          grant.Do
		exclude     bool
		bound, drop []grant.Ref
		copied      ares.JobID
	}{
		{name: "held by the same incarnation", hub: hub(), incarnation: "1", list: listed(7, grant.Held)},
		{name: "claimed and not answered", hub: hub(), incarnation: "1", list: listed(7, grant.Claimed), bound: x7},
		{name: "ended and not acknowledged", hub: hub(), incarnation: "1", list: listed(7, grant.Final), bound: x7},
		{name: "returned and not acknowledged", hub: hub(), incarnation: "1", list: listed(7, grant.Returned), bound: x7},
		{name: "a claim that the store does not know", hub: hub(), incarnation: "1", copied: "x"},
		{name: "an older epoch of the same job", hub: hub(), incarnation: "1", list: listed(5, grant.Returned), copied: "x"},
		{name: "restored and held", hub: hub(), incarnation: "2", list: listed(7, grant.Held), do: grant.Rebind},
		{name: "restored and ended", hub: hub(), incarnation: "2", list: listed(7, grant.Final), do: grant.Commit},
		{name: "restored and returned", hub: hub(), incarnation: "2", list: listed(7, grant.Returned), do: grant.Wait},
		{name: "restored and taken", hub: hub(), incarnation: "2", list: listed(7, grant.Taken), do: grant.Wait, exclude: true},
		{name: "restored before the claim was answered", hub: hub(), incarnation: "2", list: listed(7, grant.Claimed), do: grant.Wait},
		{name: "restored and unknown", hub: hub(), incarnation: "2", do: grant.Wait},
		{name: "restored and unknown, at_most_once", hub: hub(once), incarnation: "2", do: grant.Lose},
		{name: "restored and unknown, cancelled", hub: hub(cancelled), incarnation: "2", do: grant.Cancel},
		{
			name: "restored, with an older epoch", hub: hub(), incarnation: "2", list: listed(5, grant.Held), do: grant.Wait,
			drop: []grant.Ref{{Job: "x", Epoch: 5}},
		},
		{name: "held, but only offered now", hub: hub(offered), incarnation: "1", list: listed(7, grant.Held), drop: x7},
		{name: "held, but waiting now", hub: hub(waiting), incarnation: "1", list: listed(7, grant.Held), drop: x7},
		{name: "a tombstone of a job that waits again", hub: hub(waiting), incarnation: "1", list: listed(7, grant.Returned)},
	} {
		got := c.hub.Reconcile(&grant.Hello{Cluster: "a", Incarnation: c.incarnation, Grants: c.list})
		do, exclude := grant.Do(""), false
		if len(got.Changes) == 1 {
			do, exclude = got.Changes[0].Do, got.Changes[0].Exclude
			if got.Changes[0].Old != 7 {
				t.Errorf("%s: the change compares epoch %d", c.name, got.Changes[0].Old)
			}
		}
		if len(got.Changes) > 1 || do != c.do || exclude != c.exclude || !reflect.DeepEqual(got.Bound, c.bound) || !reflect.DeepEqual(got.Drop, c.drop) || got.Copied != c.copied || got.Dead {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

// TestReconcileTheDead checks that a cluster that was declared dead gets nothing until it has a new incarnation.
func TestReconcileTheDead(t *testing.T) {
	h := hub(waiting)
	h.Clusters["a"] = grant.Cluster{Incarnation: "1", Dead: true}
	if got := h.Reconcile(&grant.Hello{Cluster: "a", Incarnation: "1", Grants: listed(7, grant.Held)}); !got.Dead || len(got.Changes)+len(got.Bound)+len(got.Drop) > 0 {
		t.Errorf("%+v", got)
	}
	if got := h.Reconcile(&grant.Hello{Cluster: "a", Incarnation: "2"}); got.Dead {
		t.Errorf("a new incarnation: %+v", got)
	}
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name    string
		hub     *grant.Hub
		a, b    []grant.Listed
		do      grant.Do // "" for no change
		cluster string
		epoch   int64
		exclude bool
	}{
		{name: "as in the backup", hub: hub(), a: listed(7, grant.Held)},
		{name: "nobody has it", hub: hub(), do: grant.Wait},
		{name: "nobody has it, at_most_once", hub: hub(once), do: grant.Lose},
		{name: "nobody has it, cancelled", hub: hub(cancelled), do: grant.Cancel},
		{name: "an open offer lapses", hub: hub(offered), do: grant.Wait},
		{name: "a waiting job waits", hub: hub(waiting)},
		{name: "a waiting at_most_once job may have run", hub: hub(waiting, once), do: grant.Lose},
		{name: "given to the other cluster since", hub: hub(), a: listed(7, grant.Returned), b: listed(9, grant.Held), do: grant.Rebind, cluster: "b", epoch: 9},
		{name: "the older epoch is still there", hub: hub(), a: listed(7, grant.Held), b: listed(9, grant.Held), do: grant.Rebind, cluster: "b", epoch: 9},
		{name: "ended since", hub: hub(waiting), b: listed(9, grant.Final), do: grant.Commit, cluster: "b", epoch: 9},
		{name: "returned since", hub: hub(), a: listed(7, grant.Held), b: listed(9, grant.Returned), do: grant.Wait, cluster: "b"},
		{name: "taken since", hub: hub(waiting), b: listed(9, grant.Taken), do: grant.Wait, cluster: "b", exclude: true},
		{name: "a claim counts for nothing", hub: hub(waiting), b: listed(9, grant.Claimed)},
	} {
		got := c.hub.Resolve([]grant.Hello{{Cluster: "a", Incarnation: "1", Grants: c.a}, {Cluster: "b", Incarnation: "1", Grants: c.b}})
		var change grant.Change
		if len(got) == 1 {
			change = got[0]
		}
		if len(got) > 1 || change.Do != c.do || change.Cluster != c.cluster || change.Epoch != c.epoch || change.Exclude != c.exclude {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}

func TestAccepts(t *testing.T) {
	m := grant.Member{Incarnation: "1", Hub: "h2"}
	for _, c := range []struct {
		bound grant.Bound
		floor int64
		want  bool
	}{
		{grant.Bound{Epoch: 7, Incarnation: "1", Hub: "h2"}, 0, true},
		{grant.Bound{Epoch: 7, Incarnation: "1", Hub: "h2"}, 6, true},
		{grant.Bound{Epoch: 7, Incarnation: "1", Hub: "h2"}, 7, false},
		{grant.Bound{Epoch: 7, Incarnation: "0", Hub: "h2"}, 0, false},
		{grant.Bound{Epoch: 7, Incarnation: "1", Hub: "h1"}, 0, false},
	} {
		if got := m.Accepts(c.bound, c.floor); got != c.want {
			t.Errorf("%+v above %d: %v", c.bound, c.floor, got)
		}
	}
}
