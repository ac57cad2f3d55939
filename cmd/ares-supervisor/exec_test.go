//go:build linux

package main

import (
	"os"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// TestBeginFork checks that no command is forked when the lease has run out (R4), or when the job is over.
func TestBeginFork(t *testing.T) {
	later := seat.Now().Add(time.Hour)
	s := fresh()
	if err := s.beginFork(later); err != nil || !s.forking {
		t.Errorf("in time: %v", err)
	}
	s = fresh()
	if err := s.beginFork(seat.Now()); err == nil || s.forking {
		t.Error("it forks after half of lost_after")
	}
	s = fresh()
	s.late.Store(true)
	if err := s.beginFork(later); err == nil || s.forking {
		t.Error("it forks after the decision to end the job")
	}
	s = fresh()
	s.closeExecs()
	if err := s.beginFork(later); err == nil || s.forking {
		t.Error("it forks after the end of the job")
	}
}

// TestEndWaitsForFork checks that a job has not ended as long as a command is being forked, because the command may not be in the cgroup yet.
func TestEndWaitsForFork(t *testing.T) {
	s := fresh()
	s.order.Cgroup = t.TempDir() // it has the file of a cgroup without processes
	if err := os.Mkdir(string(s.jobGroup()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(string(s.jobGroup())+"/cgroup.events", []byte("populated 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !s.killAll() {
		t.Fatal("a job without processes has not ended")
	}
	s.forking = true
	if s.killAll() {
		t.Error("the end of the job does not wait for a fork")
	}
}

func TestRefusesExec(t *testing.T) {
	s := fresh()
	if why := s.refusesExec(start + sec); why != "" {
		t.Error(why)
	}
	for range seat.MaxExecs {
		s.execs = append(s.execs, &execution{})
	}
	if why := s.refusesExec(start + sec); why == "" {
		t.Error("one too many")
	}
	s = fresh()
	if why := s.refusesExec(start + 10*sec); why == "" {
		t.Error("a fenced job has commands")
	}
	s = fresh()
	s.start = nil
	if why := s.refusesExec(start); why == "" {
		t.Error("a job that is starting has commands")
	}
	s = fresh()
	s.ended = true
	if why := s.refusesExec(start); why == "" {
		t.Error("a job that has ended has commands")
	}
}
