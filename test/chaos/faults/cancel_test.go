package faults_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/cluster"
)

func TestCancelledJobThatIgnoresSIGTERMKeepsItsDevicesUntilItIsDead(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	online(t, c, "node-a")
	deaf := w.job("deaf", stubborn)
	deaf.GpuCount, deaf.GraceSeconds = 4, new(int32(3))
	id := w.submit(c, deaf)
	first := w.started(id, 1, 1)[0]
	d := watch(t, first.pid)
	w.state(c, id, ares.Running)
	all, one := w.job("all", ""), w.job("one", "")
	all.GpuCount, one.GpuCount = 4, 1
	waiting := []string{w.submit(c, all), w.submit(c, one)}

	asked := time.Now()
	if _, err := c.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	poll(t, patience, "the process to die", func() (bool, string) {
		for _, other := range waiting {
			j, err := c.Job(t.Context(), other)
			if err != nil {
				t.Fatal(err)
			}
			if cluster.Alive(first.pid) && ares.Phase(j.GetState()) != ares.Pending {
				t.Fatalf("%s is %s while the cancelled process lives", j.GetName(), j.GetState())
			}
		}
		j, err := c.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if cluster.Alive(first.pid) && (ares.Phase(j.GetState()) != ares.Running || j.GetStop().GetWhy() != string(ares.StopCancel)) {
			t.Fatalf("the job is %s (stop: %v) while its process lives", j.GetState(), j.GetStop())
		}
		return d.dead(), j.GetState()
	})
	if took := d.wall.Sub(asked); took < 3*time.Second {
		t.Errorf("it was killed after %s, before its grace of 3 s was over", took)
	}
	w.ends(c, id, ares.Cancelled)
	for _, other := range waiting {
		w.ends(c, other, ares.Succeeded)
		after(t, w.started(other, 1, 1), d)
	}
}

func TestMaxRuntimeEndsAnAttempt(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	long := w.job("long", stubborn)
	long.MaxRuntimeMinutes = 1
	id := w.submit(c, long)
	first := w.started(id, 1, 1)[0]
	d := watch(t, first.pid)
	j := w.ends(c, id, ares.Failed)
	d.wait()
	if lived := d.boot - first.at; lived < 59*time.Second {
		t.Errorf("it lived %s, want a minute", lived)
	}
	if j.GetResult().GetOutcome() != string(ares.OutcomeTimeout) || len(of(w.lines(id), "start", 0)) != 1 {
		t.Error(fmt.Sprint("want one start and a timeout: ", j.GetResult(), w.lines(id)))
	}
}
