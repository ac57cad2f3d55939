package agent

import (
	"context"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// TestStartedProc checks that a session waits for a process that is just being started.
func TestStartedProc(t *testing.T) {
	t.Parallel()
	key := run.Key{Job: "job", Fence: 1}
	a := &Agent{seats: map[run.Key]*seat{key: {}}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.startedProc(ctx, key); ares.CodeOf(err) != ares.Conflict || !strings.Contains(err.Error(), "is still starting") {
		t.Errorf("a process that does not start: %v", err)
	}
	proc := &run.Proc{}
	go func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.seats[key].proc = proc
	}()
	if got, err := a.startedProc(t.Context(), key); err != nil || got != proc {
		t.Errorf("a process that starts: %v", err)
	}
}
