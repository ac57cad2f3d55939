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

// say is the beginning of every job's script. It lets a job bear witness: a
// line in a file of its own, with its pid and the time since boot.
const say = `say() { read up idle </proc/uptime
echo "$1 $ARES_JOB_ID $ARES_ATTEMPT $ARES_FENCING_TOKEN $ARES_RANK $$ $up" >>"$TRACE/$ARES_JOB_ID.trace"; }
say start
`

const (
	// untilReleased is a job that lives until the test lets it go, and shows
	// that it lives.
	untilReleased = `while ! [ -e "$TRACE/$NAME.go" ]; do say beat; sleep 0.2; done
`
	// stubborn is the same, and nothing but SIGKILL ends it sooner: it uses up
	// every deadline.
	stubborn = "trap '' TERM\n" + untilReleased
)

func (w *world) trace() string { return filepath.Join(w.dir, "trace") }

// job is a shell job that bears witness of its start, and of its end unless
// it is killed or its body exits.
func (w *world) job(name, body string) *apipb.JobSpec {
	return &apipb.JobSpec{
		RequestId: w.t.Name() + "/" + name, Name: name, LostAfterSeconds: lostAfter, GraceSeconds: new(int32(1)),
		Command: []string{"sh", "-c", say + body + "say end\n"}, Environment: map[string]string{"TRACE": w.trace(), "NAME": name},
	}
}

// release lets a job that waits for it go on.
func (w *world) release(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.trace(), name+".go"), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// line is what a job wrote.
type line struct {
	verb    string
	job     string
	attempt int
	fence   int64
	rank    int
	pid     int
	at      time.Duration // since boot
}

// lines reads what a job wrote, oldest first.
func (w *world) lines(id string) []line {
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
			continue // half a line: its writer was killed
		}
		l.at = time.Duration(up * float64(time.Second))
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	return out
}

// of picks lines by verb, and by attempt unless that is 0.
func of(lines []line, verb string, attempt int) []line {
	var out []line
	for _, l := range lines {
		if l.verb == verb && (attempt == 0 || l.attempt == attempt) {
			out = append(out, l)
		}
	}
	return out
}

// started waits until every rank of an attempt has borne witness of its start.
func (w *world) started(id string, attempt, ranks int) []line {
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

// judge checks a job's own file: each rank of each attempt started at most
// once, fences only grow, and no attempt showed life after a later one began.
func (w *world) judge(id string) {
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

// death tells when a process died, as the kernel reports it.
type death struct {
	t    *testing.T
	pid  int
	done chan struct{}
	wall time.Time
	boot time.Duration
}

// watch begins to wait for the death of a live process.
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

// wait returns once the process is dead.
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

// boot is the time since boot, to compare with a job's own lines.
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

// procState is the letter of a process's state, "" when it is gone.
func procState(pid int) string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// alive says whether a pid runs anything. A zombie does not.
func alive(pid int) bool {
	s := procState(pid)
	return s != "" && s != "Z" && s != "X"
}

// submit hands a job in and returns its ID.
func (w *world) submit(c *client.Client, spec *apipb.JobSpec) string {
	w.t.Helper()
	got, err := c.Submit(w.t.Context(), spec)
	if err != nil {
		w.t.Fatalf("submit %s: %v", spec.GetName(), err)
	}
	return got.GetJobId()
}

// state waits until a job is in a state.
func (w *world) state(c *client.Client, id string, want ...ares.Phase) *apipb.Job {
	w.t.Helper()
	var j *apipb.Job
	poll(w.t, patience, fmt.Sprintf("%s to be %v", id, want), func() (bool, string) {
		var err error
		j, err = c.Job(w.t.Context(), id)
		return err == nil && slices.Contains(want, ares.Phase(j.GetState())), fmt.Sprint(j.GetState(), ": ", j.GetReason(), err)
	})
	return j
}

// ends waits for a job's end, wants it in a phase, and judges its life: one
// final transition, and what the job itself wrote.
func (w *world) ends(c *client.Client, id string, want ares.Phase) *apipb.Job {
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

// fenceOf is the fence of an attempt as the API tells it.
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
func (w *world) supervisorOf(id string) int {
	w.t.Helper()
	var found []int
	for _, pid := range w.members() {
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
