package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/live"
	"github.com/ares-scheduler/ares/test/overlay"
)

const patience = 90 * time.Second

// TestDriven builds the program and drives a server of it in both ways: by HTTP
// while it runs, and by the environment from its start.
func TestDriven(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir)
	knob := "http://" + live.FreeAddr(t)
	data := filepath.Join(dir, "data")
	s := start(t, []string{"GOFAIL_HTTP=" + strings.TrimPrefix(knob, "http://")}, program, "server", "--data-dir", data)
	submit := func(request string) (string, error) {
		a, err := s.client.Submit(t.Context(), &apipb.JobSpec{TenantId: "default", RequestId: request, Command: []string{"true"}})
		return a.GetStatus(), err
	}
	check := func(request, want string, wantErr ares.Code) {
		t.Helper()
		got, err := submit(request)
		if got != want || ares.CodeOf(err) != wantErr {
			t.Fatalf("submit %s: %q, %v; want %q, %q", request, got, err, want, wantErr)
		}
	}
	set(t, http.MethodPut, knob+"/storeBeforeCreateJobs", `return("as if it never left")`)
	check("refused", "", ares.Unavailable)
	set(t, http.MethodDelete, knob+"/storeBeforeCreateJobs", "")
	check("refused", "submitted", "")

	set(t, http.MethodPut, knob+"/storeAfterCreateJobs", `1*return("as if the answer was lost")`)
	check("unknown", "", ares.Unavailable)
	check("unknown", "duplicate", "")

	set(t, http.MethodPut, knob+"/storeAfterAny", `return("any transaction will do")`)
	check("any", "", ares.Unavailable)
	set(t, http.MethodDelete, knob+"/storeAfterAny", "")

	set(t, http.MethodPut, knob+"/storeAfterCreateJobs", "panic")
	check("killed", "", ares.Unavailable)
	state := s.wait(t)
	if ws, ok := state.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("panic ended the server by %s, not by SIGKILL", state)
	}
	s = start(t, []string{"GOFAIL_FAILPOINTS=storeBeforeCreateJobs=1*return(\"from the start\")"}, program, "server", "--data-dir", data)
	check("env", "", ares.Unavailable)
	check("killed", "duplicate", "")
}

// TestSupervisorsToo: what the agent's environment says reaches the supervisors,
// and a wall clock an hour behind is what people see and nothing else heeds.
func TestSupervisorsToo(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir)
	env := []string{"GOFAIL_FAILPOINTS=supervisorBeforeExec=panic", shiftEnv + "=-3600"}
	s := start(t, env, program, "up", "--mock", "v100-4", "--node", "n", "--data-dir", filepath.Join(dir, "data"))
	a, err := s.client.Submit(t.Context(), &apipb.JobSpec{Command: []string{"true"}, ExecutionMode: string(ares.AtMostOnce)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := s.client.Wait(ctx, a.GetJobId())
	if err != nil || j.GetState() != string(ares.Lost) || !strings.Contains(j.GetReason(), "the supervisor died at once") {
		t.Errorf("the job is %s: %s, %v", j.GetState(), j.GetReason(), err)
	}
	if behind := time.Since(j.GetCreatedAt().AsTime()); behind < time.Hour || behind > time.Hour+2*patience {
		t.Errorf("the server's clock is %s behind, want an hour", behind)
	}
}

// build makes the program. Only the first build of a machine takes long.
func build(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "ares")
	if err := run(t.Context(), []string{"-root", "../..", "-o", program}); err != nil {
		t.Fatal(err)
	}
	return program
}

// running is a process of the failpoint build, with a server in it.
type running struct {
	cmd    *exec.Cmd
	ended  chan struct{}
	client *client.Client
}

// start runs the program until it is ready. args ends with the data directory.
func start(t *testing.T, env []string, program string, args ...string) *running {
	t.Helper()
	data := args[len(args)-1]
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{ended: make(chan struct{})}
	r.cmd = exec.Command(program, append(args, "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--metrics-addr", "127.0.0.1:0")...)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = append(os.Environ(), env...), log, log
	_ = os.Remove(filepath.Join(data, server.EndpointsFile)) // of one that was killed
	if err = r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.cmd.Wait(); close(r.ended) }() // how it ended is in its state
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // gone already is as good
		<-r.ended
		if said, readErr := os.ReadFile(log.Name()); t.Failed() && readErr == nil {
			t.Logf("%s", said)
		}
		log.Close()
	})
	var at server.Endpoints
	poll(t, "the server to tell its endpoints", func() bool {
		content, readErr := os.ReadFile(filepath.Join(data, server.EndpointsFile))
		return readErr == nil && json.Unmarshal(content, &at) == nil && at.GRPC != ""
	})
	r.client, err = client.New(client.Options{
		Addresses: []string{at.GRPC}, TokenFile: filepath.Join(data, server.AdminTokenFile), Attempts: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.client.Close() })
	poll(t, "the server to be ready", func() bool {
		resp, err := get(t.Context(), "http://"+at.HTTP+"/api/v1/ready")
		return err == nil && resp == http.StatusOK
	})
	return r
}

func (r *running) wait(t *testing.T) *os.ProcessState {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		t.Fatal("the server lives on")
	}
	return r.cmd.ProcessState
}

func get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// set sends a term to a failpoint, or takes it away.
func set(t *testing.T, method, url, term string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(term))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s: %s", method, url, resp.Status)
	}
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// clock tells its wall time and how long a short timer took, in nanoseconds.
const clock = `package main

import (
	"context"
	"fmt"
	"time"
)

func main() {
	start := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), start.Add(30*time.Millisecond))
	defer cancel()
	<-ctx.Done()
	<-time.After(30 * time.Millisecond)
	fmt.Println(start.UnixNano(), int64(time.Since(start)), int64(time.Now().Sub(start)))
}
`

// TestTheWallClockCanBeWrong: it is off by what the environment says, and
// nothing else is: timers and deadlines come when they should.
func TestTheWallClockCanBeWrong(t *testing.T) {
	dir := t.TempDir()
	o, err := overlay.New("../..", filepath.Join(dir, "src"))
	if err != nil {
		t.Fatal(err)
	}
	source, program := filepath.Join(dir, "clock.go"), filepath.Join(dir, "clock")
	if err := os.WriteFile(source, []byte(clock), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := shiftWallClock(o); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Go(t.Context(), []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-o", program, source); err != nil {
		t.Fatal(err)
	}
	for text, shift := range map[string]time.Duration{"": 0, "0": 0, "3600": time.Hour, "-3600": -time.Hour, "+86400": 24 * time.Hour} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), shiftEnv+"="+text)
		before := time.Now().Add(shift)
		out, err := cmd.Output()
		after := time.Now().Add(shift)
		if err != nil {
			t.Fatal(err)
		}
		var wall int64
		var since, sub time.Duration
		if _, err := fmt.Sscan(string(out), &wall, &since, &sub); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if got := time.Unix(0, wall); got.Before(before) || got.After(after) {
			t.Errorf("shifted by %q it is %s, which is not between %s and %s", text, got, before, after)
		}
		for _, took := range []time.Duration{since, sub} {
			if took < 60*time.Millisecond || took > after.Sub(before) {
				t.Errorf("shifted by %q two timers of 30 ms took %s", text, took)
			}
		}
	}
}
