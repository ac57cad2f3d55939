package faults_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// Every job's script begins with the text in the constant `say`. The text
// defines a shell function that appends a line to the job's own file. The line
// contains the process ID and the time since boot.
const say = `say() { read up idle </proc/uptime
echo "$1 $ARES_JOB_ID $ARES_ATTEMPT $ARES_FENCING_TOKEN $ARES_RANK $$ $up" >>"$TRACE/$ARES_JOB_ID.trace"; }
say start
`

const (
	// untilReleased is the script of a job that runs until the test releases
	// it. The script regularly writes that it is alive.
	untilReleased = `while ! [ -e "$TRACE/$NAME.go" ]; do say beat; sleep 0.2; done
`
	// The constant `stubborn` is like untilReleased, but ignores SIGTERM. A
	// stop request ends such a job only at the last deadline, with SIGKILL.
	stubborn = "trap '' TERM\n" + untilReleased
)

func (w *testCluster) trace() string { return filepath.Join(w.Dir, "trace") }

// This method returns a shell job that records its start. At the end of its
// script, the job also records its end.
func (w *testCluster) job(name, body string) *apipb.JobSpec {
	return &apipb.JobSpec{
		RequestId: w.t.Name() + "/" + name, Name: name, LostAfterSeconds: lostAfter, GraceSeconds: new(int32(1)),
		Command: []string{"sh", "-c", say + body + "say end\n"}, Environment: map[string]string{"TRACE": w.trace(), "NAME": name},
	}
}

// This method lets a waiting job continue.
func (w *testCluster) release(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.trace(), name+".go"), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// The type `line` is one line that a job wrote.
type line struct {
	verb    string
	job     string
	attempt int
	fence   int64
	rank    int
	pid     int
	at      time.Duration // since boot
}

// This method reads the lines that a job wrote, with the oldest first.
func (w *testCluster) lines(id string) []line {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.trace(), id+".trace"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	var out []line
	for text := range strings.Lines(string(data)) {
		var l line
		var up float64
		if _, err := fmt.Sscan(text, &l.verb, &l.job, &l.attempt, &l.fence, &l.rank, &l.pid, &up); err != nil {
			continue // incomplete line: its writer was killed
		}
		l.at = time.Duration(up * float64(time.Second))
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	return out
}

// This function returns the lines with the given verb and attempt. If the
// parameter `attempt` is 0, the function returns the lines of all attempts.
func of(lines []line, verb string, attempt int) []line {
	var out []line
	for _, l := range lines {
		if l.verb == verb && (attempt == 0 || l.attempt == attempt) {
			out = append(out, l)
		}
	}
	return out
}

// This method waits until every rank of an attempt has recorded its start.
func (w *testCluster) started(id string, attempt, ranks int) []line {
	w.t.Helper()
	var got []line
	poll(w.t, patience, fmt.Sprintf("attempt %d of %s to start", attempt, id), func() (bool, string) {
		got = of(w.lines(id), "start", attempt)
		return len(got) >= ranks, fmt.Sprint(w.lines(id))
	})
	if len(got) != ranks {
		w.t.Fatalf("attempt %d of %s was started %d times for %d ranks: %v", attempt, id, len(got), ranks, got)
	}
	return got
}

// This method checks the lines that a job wrote. Each rank of each attempt must
// start at most once, and fences must only increase. No attempt may be active
// after a later one has started.
func (w *testCluster) judge(id string) {
	w.t.Helper()
	type rank struct{ attempt, rank int }
	starts, fences, first := map[rank]int{}, map[int]int64{}, map[int]time.Duration{}
	all := w.lines(id)
	for _, l := range of(all, "start", 0) {
		starts[rank{l.attempt, l.rank}]++
		if n := starts[rank{l.attempt, l.rank}]; n > 1 {
			w.t.Errorf("%s: rank %d of attempt %d was started %d times", id, l.rank, l.attempt, n)
		}
		if f, seen := fences[l.attempt]; seen && f != l.fence {
			w.t.Errorf("%s: attempt %d has fences %d and %d", id, l.attempt, f, l.fence)
		}
		fences[l.attempt] = l.fence
		if _, seen := first[l.attempt]; !seen {
			first[l.attempt] = l.at
		}
	}
	last := map[int]line{}
	for _, l := range all {
		last[l.attempt] = l
	}
	for n, at := range first {
		for _, l := range last {
			if n > l.attempt && l.at > at {
				w.t.Errorf("%s: attempt %d wrote %q at %s, after attempt %d had begun at %s", id, l.attempt, l.verb, l.at, n, at)
			}
			if n > l.attempt && fences[n] <= l.fence {
				w.t.Errorf("%s: attempt %d has fence %d, not above %d of attempt %d", id, n, fences[n], l.fence, l.attempt)
			}
		}
	}
}

// A `death` records when a process died, as the kernel reports it.
type death struct {
	t    *testing.T
	pid  int
	done chan struct{}
	wall time.Time
	boot time.Duration
}

// This function starts to observe a running process, in order to record when it
// dies.
func watch(t *testing.T, pid int) *death {
	t.Helper()
	const pidfdOpen = 434
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		t.Fatalf("watch pid %d: %v", pid, errno)
	}
	d := &death{t: t, pid: pid, done: make(chan struct{})}
	go func() {
		defer syscall.Close(int(fd))
		for {
			set := struct {
				fd      int32
				events  int16
				revents int16
			}{int32(fd), 1, 0} // POLLIN: it has ended
			n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&set)), 1, 0, 0, 0, 0)
			if errno == syscall.EINTR || errno == 0 && n == 0 {
				continue
			}
			d.wall, d.boot = time.Now(), boot()
			close(d.done)
			return
		}
	}()
	return d
}

// This method returns once the process is dead.
func (d *death) wait() {
	d.t.Helper()
	select {
	case <-d.done:
	case <-time.After(patience):
		d.t.Fatalf("pid %d does not die", d.pid)
	}
}

func (d *death) dead() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// This function returns the time since boot, which is comparable with the times
// that jobs write.
func boot() time.Duration {
	data, err := os.ReadFile("/proc/uptime")
	if err != nil {
		panic(err)
	}
	up, _, _ := strings.Cut(string(data), " ")
	s, err := strconv.ParseFloat(up, 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(s * float64(time.Second))
}

func (w *testCluster) submit(c *client.Client, spec *apipb.JobSpec) string {
	w.t.Helper()
	got, err := c.Submit(w.t.Context(), spec)
	if err != nil {
		w.t.Fatalf("submit %s: %v", spec.GetName(), err)
	}
	return got.GetJobId()
}

// This method waits until a job is in one of the given phases.
func (w *testCluster) state(c *client.Client, id string, want ...ares.Phase) *apipb.Job {
	w.t.Helper()
	var j *apipb.Job
	poll(w.t, patience, fmt.Sprintf("%s to be %v", id, want), func() (bool, string) {
		var err error
		j, err = c.Job(w.t.Context(), id)
		return err == nil && slices.Contains(want, ares.Phase(j.GetState())), fmt.Sprint(j.GetState(), ": ", j.GetReason(), err)
	})
	return j
}

// This method waits until a job has ended. The method checks that the job has
// the expected phase, and that it had exactly one final transition. The method
// also checks the lines that the job itself wrote.
func (w *testCluster) ends(c *client.Client, id string, want ares.Phase) *apipb.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*patience)
	defer cancel()
	j, err := c.Wait(ctx, id)
	if err != nil {
		now, _ := c.Job(w.t.Context(), id)
		w.t.Fatalf("wait for %s: %v; it is %s: %s; %v", id, err, now.GetState(), now.GetReason(), now.GetAttempts())
	}
	if ares.Phase(j.GetState()) != want {
		w.t.Errorf("%s (%s) ended %s, want %s: %s", id, j.GetName(), j.GetState(), want, j.GetReason())
	}
	w.judge(id)
	events, err := c.Events(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	final := 0
	for _, e := range events.GetEvents() {
		if ares.Phase(e.GetState()).Final() {
			final++
		}
	}
	if last := events.GetEvents()[len(events.GetEvents())-1]; final != 1 || last.GetState() != j.GetState() {
		w.t.Errorf("%s has %d final transitions, the last step is %s: %v", id, final, last.GetState(), events.GetEvents())
	}
	return j
}

// fenceOf returns the fence of an attempt as the API reports it.
func fenceOf(t *testing.T, j *apipb.Job, attempt int) int64 {
	t.Helper()
	for _, a := range j.GetAttempts() {
		if int(a.GetNumber()) == attempt {
			f, err := strconv.ParseInt(a.GetFence(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
	t.Fatalf("%s has no attempt %d: %v", j.GetJobId(), attempt, j.GetAttempts())
	return 0
}

// supervisorOf finds the supervisor process of a job's seat.
func (w *testCluster) supervisorOf(id string) int {
	w.t.Helper()
	var found []int
	for _, pid := range w.Members() {
		data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		argv := strings.Split(string(data), "\x00")
		if argv[0] == "ares-supervisor" && len(argv) > 1 && strings.HasPrefix(filepath.Base(argv[1]), id+".") {
			found = append(found, pid)
		}
	}
	if len(found) != 1 {
		w.t.Fatalf("%s has supervisors %v, want one", id, found)
	}
	return found[0]
}
