package main

import (
	"context"
	"errors"
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
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
	"github.com/ares-scheduler/ares/test/overlay"
)

const patience = cluster.Patience

// With these options, clients try each call a single time, so that a test sees
// the first failure.
var once = client.Options{Attempts: 1}

// TestDriven builds the ares binary and controls the server's failpoints. The
// test sets failpoints of a running server over HTTP, and failpoints of a
// starting server through the environment.
func TestDriven(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir)
	knob := "http://" + live.FreeAddr(t)
	c := cluster.Start(t, cluster.Binary(program), cluster.Servers(1), cluster.Env("GOFAIL_HTTP="+strings.TrimPrefix(knob, "http://")))
	s, calls := c.Servers[0], c.ClientWith(once)
	submit := func(request string) (string, error) {
		a, err := calls.Submit(t.Context(), &apipb.JobSpec{TenantId: "default", RequestId: request, Command: []string{"true"}})
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
	state := s.Exit(patience)
	if ws, ok := state.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("panic ended the server by %s, not by SIGKILL", state)
	}
	s.Start("GOFAIL_FAILPOINTS=storeBeforeCreateJobs=1*return(\"from the start\")")
	s.AwaitReady()
	calls = c.ClientWith(once)
	check("env", "", ares.Unavailable)
	check("killed", "duplicate", "")
}

// TestSupervisorsToo checks that failpoints in the agent's environment also
// apply to the supervisors. The test also checks that a wall clock that is one
// hour slow changes only displayed times.
func TestSupervisorsToo(t *testing.T) {
	dir := t.TempDir()
	program := build(t, dir)
	calls := cluster.Start(t, cluster.Binary(program), cluster.Servers(1), cluster.Agents(1),
		cluster.Env("GOFAIL_FAILPOINTS=supervisorBeforeExec=panic", shiftEnv+"=-3600")).ClientWith(once)
	a, err := calls.Submit(t.Context(), &apipb.JobSpec{Command: []string{"true"}, ExecutionMode: string(ares.AtMostOnce)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j, err := calls.Wait(ctx, a.GetJobId())
	if err != nil || j.GetState() != string(ares.Lost) || !strings.Contains(j.GetReason(), "the supervisor died at once") {
		t.Errorf("the job is %s: %s, %v", j.GetState(), j.GetReason(), err)
	}
	if behind := time.Since(j.GetCreatedAt().AsTime()); behind < time.Hour || behind > time.Hour+2*patience {
		t.Errorf("the server's clock is %s behind, want an hour", behind)
	}
}

// `build` builds the program with failpoints. Only the first build on a machine
// takes long.
func build(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(dir, "ares")
	if err := run(t.Context(), []string{"-root", "../../..", "-o", program}); err != nil {
		t.Fatal(err)
	}
	return program
}

// This function sets or removes the action (term) of a failpoint.
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

// `clock` is a program that prints two numbers in nanoseconds. One is the
// wall-clock time, and the other is how long a short timer took.
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

// TestTheWallClockCanBeWrong shifts the wall clock by an amount in the
// environment. The shift must be visible in the wall-clock time, but timers and
// deadlines must still fire on time.
func TestTheWallClockCanBeWrong(t *testing.T) {
	dir := t.TempDir()
	o, err := overlay.New("../../..", filepath.Join(dir, "src"))
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

// `rates` is a program that prints five times in nanoseconds. A timer of 60 ms runs between two readings of the machine's own clock,
// and the time that the process has measured lies between the shorter and the longer difference of such readings.
const rates = `package main

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

func machine() int64 {
	var ts syscall.Timespec
	const monotonic = 1
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

func main() {
	before := machine()
	start := time.Now()
	began := machine()
	<-time.After(60 * time.Millisecond)
	ended := machine()
	since, wall := time.Since(start), time.Now().UnixNano()-start.UnixNano()
	after := machine()
	fmt.Println(ended-began, after-before, int64(since), wall, int64(time.Until(start)))
}
`

// TestTheClocksCanHaveAWrongRate lets a process's clocks run fast or slow. Durations and the wall clock must show that, and a timer must
// take as long as the process thinks.
func TestTheClocksCanHaveAWrongRate(t *testing.T) {
	dir := t.TempDir()
	o, err := overlay.New("../../..", filepath.Join(dir, "src"))
	if err != nil {
		t.Fatal(err)
	}
	source, program := filepath.Join(dir, "rates.go"), filepath.Join(dir, "rates")
	if err = errors.Join(os.WriteFile(source, []byte(rates), 0o600), shiftWallClock(o)); err != nil {
		t.Fatal(err)
	}
	if _, err = o.Go(t.Context(), []string{"CGO_ENABLED=0"}, "build", "-trimpath", "-o", program, source); err != nil {
		t.Fatal(err)
	}
	for text, rate := range map[string]float64{"": 1, "1000": 1, "800": 0.8, "1200": 1.2} {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), rateEnv+"="+text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var shorter, longer, since, wall, until float64
		if _, err := fmt.Sscan(string(out), &shorter, &longer, &since, &wall, &until); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		const rounding = 1e4
		for what, took := range map[string]float64{"since": since, "the wall clock": wall} {
			if took < rate*shorter-rounding || took > rate*longer+rounding {
				t.Errorf("at the rate %q, %s measured %.0f ns of %.0f to %.0f", text, what, took, shorter, longer)
			}
		}
		if longer < 60e6/rate || -until < since {
			t.Errorf("at the rate %q, a timer of 60 ms took %.0f ns, and until is %.0f after %.0f", text, longer, until, since)
		}
	}
}
