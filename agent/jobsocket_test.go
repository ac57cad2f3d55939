package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// TestJobServerMethods checks what a process of a job can call.
func TestJobServerMethods(t *testing.T) {
	t.Parallel()
	var got []string
	for name, service := range (&Agent{}).newJobServer().GetServiceInfo() {
		for _, m := range service.Methods {
			got = append(got, name+"/"+m.Name)
		}
	}
	slices.Sort(got)
	if want := []string{"ares.v1.AgentService/ListRanks", "ares.v1.SessionService/RunSession"}; !slices.Equal(got, want) {
		t.Errorf("a job can call %q, want %q", got, want)
	}
}

// TestSessionLimits fills each limit. The commands of a job leave those of users, and of the job's other ranks.
func TestSessionLimits(t *testing.T) {
	t.Parallel()
	a := &Agent{sessions: map[sessionKind]int{}}
	a.cfg.Node = "node-1"
	first, second := run.Key{Job: "job", Fence: 1}.String(), run.Key{Job: "job", Fence: 1, Rank: 1}.String()
	var leave []func()
	enter := func(k sessionKind) error {
		f, err := a.enterSession(k)
		if err == nil {
			leave = append(leave, f)
		}
		return err
	}
	for k, want := range map[sessionKind]string{
		{first, byJob}:     "rank 0 has 4 commands of ares rank exec that run in it, which is the limit",
		{first, byCaller}:  "rank 0 has 128 commands of ares rank exec that it has begun, which is the limit",
		{"job", byUser}:    "job job has 8 commands of sessions on node node-1, which is the limit",
		{"job", byForward}: "job job has 64 connections of ares forward on node node-1, which is the limit",
	} {
		for n := range sessionLimits[k.from].each {
			if err := enter(k); err != nil {
				t.Fatalf("session %d of %v: %v", n, k, err)
			}
		}
		if err := enter(k); ares.CodeOf(err) != ares.LimitReached || !strings.Contains(err.Error(), want) {
			t.Errorf("one more of %v: %v, want %q", k, err, want)
		}
	}
	for n := maxRankExecs; n < maxRankCommands; n++ {
		if err := enter(sessionKind{second + strings.Repeat("x", n/maxRankExecs), byJob}); err != nil {
			t.Fatalf("command %d of the node: %v", n, err)
		}
	}
	if err := enter(sessionKind{second, byJob}); ares.CodeOf(err) != ares.Exhausted || !strings.Contains(err.Error(), "node node-1 has 48 commands") {
		t.Errorf("one more command of the node: %v", err)
	}
	for _, f := range leave {
		f()
	}
	if used := slices.DeleteFunc(slices.Collect(maps.Values(a.sessions)), func(n int) bool { return n == 0 }); len(used) > 0 {
		t.Errorf("sessions are counted that have ended: %v", a.sessions)
	}
}
