package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

const (
	memoryBatch = 1000

	// settleFor is the longest time that the benchmark waits until a server has
	// predicted the runtimes of all jobs and has copied them to its database.
	settleFor = 4 * time.Minute
)

// memoryJobs is the number of pending jobs.
var memoryJobs = rounds.Sized(100_000, memoryBatch)

// memoryStores are the two ways to run a store. The name after the benchmark's name selects one of them, such as
// -test.bench=Memory/embedded.
var memoryStores = []struct {
	name    string
	options []cluster.Option
}{
	{"embedded", []cluster.Option{cluster.Servers(1)}},
	{"etcd", []cluster.Option{cluster.Etcd(1), cluster.Servers(1)}},
}

// BenchmarkMemory measures how much memory 100,000 pending jobs take, in a server
// with an embedded store, and in a server beside etcd. It measures the memory after
// the submission, after a restart, and when the server has become idle.
func BenchmarkMemory(b *testing.B) {
	for _, store := range memoryStores {
		b.Run(store.name, func(b *testing.B) {
			rows := measureMemory(b, store.name, memoryJobs, rounds.Sized(settleFor, 0), store.options...)
			table(b, fmt.Sprintf("Memory of %d pending jobs, submitted over REST in batches of %d", memoryJobs, memoryBatch), append([][]string{memoryHeader}, rows...))
		})
	}
}

// TestMemoryMeasurement runs BenchmarkMemory with few jobs.
func TestMemoryMeasurement(t *testing.T) {
	rows := measureMemory(t, "embedded", 2*memoryBatch, 0, cluster.Servers(1))
	if len(rows) != 5 || len(rows[0]) != len(memoryHeader) {
		t.Errorf("rows: %q", rows)
	}
}

// "private" is the memory that only the server has, and "files" the pages of files that are mapped into it.
var memoryHeader = []string{"store", "when", "jobs", "server", "private", "files", "Go heap", "peak", "etcd", "ready after"}

// maxRestart is the longest time that the benchmark waits for a server that restarts. On a busy machine, a server may
// take minutes to load its state.
const maxRestart = 10 * time.Minute

// measureMemory starts a server without nodes, submits the jobs, and restarts the
// server. It returns the rows of the table.
func measureMemory(t testing.TB, store string, jobs int, settle time.Duration, options ...cluster.Option) [][]string {
	c := cluster.Start(t, options...)
	s := c.Servers[0]
	row := func(when string, ready time.Duration) []string {
		rss, peak := s.Memory()
		files := mappedFiles(s.Pid())
		etcd := "–"
		if len(c.Etcd) > 0 {
			used, _ := c.Etcd[0].Memory()
			etcd = megabytes(used)
		}
		took := "–"
		if ready > 0 {
			took = short(ready)
		}
		return []string{store, when, fmt.Sprint(s.Metric("ares_queue_depth")), megabytes(rss), megabytes(rss - files), megabytes(files),
			megabytes(int64(s.Metric("go_memstats_heap_alloc_bytes"))), megabytes(peak), etcd, took}
	}
	rows := [][]string{row("empty", 0)}
	submitPending(t, "http://"+s.At.HTTP, s.File(server.AdminTokenFile), jobs)
	rows = append(rows, row("submitted", 0))
	awaitIdle(t, s, settle)
	rows = append(rows, row("idle", 0))
	s.Stop(syscall.SIGTERM, maxRestart)
	begin := time.Now()
	s.Start()
	live.Await(t, maxRestart, "the jobs", func() (bool, string) {
		select {
		case <-s.Ended():
			t.Fatalf("the server ended: %s", s.Log())
		default:
		}
		n := s.Metric("ares_queue_depth")
		return n >= float64(jobs), fmt.Sprint(n)
	})
	ready := time.Since(begin)
	s.AwaitReady()
	rows = append(rows, row("restarted", ready))
	awaitIdle(t, s, settle)
	return append(rows, row("idle", 0))
}

// awaitIdle waits until a server allocates little memory, but not longer than the
// given time. Then it waits until the server has had time to return memory to the
// system.
func awaitIdle(t testing.TB, s *cluster.Server, atMost time.Duration) {
	const look, idleRate = 10 * time.Second, 2 << 20
	allocated := s.Metric("go_memstats_alloc_bytes_total")
	for end := time.Now().Add(atMost); time.Now().Before(end); {
		pause.For(t.Context(), look)
		now := s.Metric("go_memstats_alloc_bytes_total")
		if allocated > 0 && now > 0 && (now-allocated)/look.Seconds() < idleRate { // 0 if a busy server did not answer in time
			pause.For(t.Context(), 2*look)
			return
		}
		allocated = now
	}
}

// submitPending submits jobs that no node can run, in batches over REST. Every one
// of them must be accepted.
func submitPending(t testing.TB, url, token string, jobs int) {
	for first := 0; first < jobs; first += memoryBatch {
		body := struct {
			Jobs []ares.Spec `json:"jobs"`
		}{make([]ares.Spec, min(memoryBatch, jobs-first))}
		for k := range body.Jobs {
			body.Jobs[k] = spec("pending", first+k)
		}
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		// A busy store may not answer in time. A repeated request returns the same jobs.
		live.Await(t, maxRestart, "a batch of jobs", func() (bool, string) { return submitBatch(t, url, token, data, len(body.Jobs)) })
	}
}

// submitBatch submits one batch. It reports whether all of its jobs were accepted.
func submitBatch(t testing.TB, url, token string, data []byte, jobs int) (bool, string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/jobs:batch", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err.Error()
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	var answer struct {
		Results []struct {
			Job string `json:"job_id"`
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	accepted := 0
	for _, r := range answer.Results {
		if r.Job != "" {
			accepted++
		}
	}
	return accepted == jobs, fmt.Sprintf("%d of %d jobs accepted: %s %.300s %v", accepted, jobs, resp.Status, text, err)
}

// maxBytesPerJob is the limit of TestHeapPerJob. With 5,000 jobs, about half of the
// measured 4,400 bytes are parts of the server that do not grow with the jobs.
const maxBytesPerJob = 7000

// TestHeapPerJob checks that a pending job does not take much more of the heap than
// it needs. The server, the embedded store and the scheduler are in this process.
// With ARES_HEAP_PROFILE=FILE, the test writes a profile of the heap, and with
// ARES_HEAP_JOBS=N it submits N jobs.
func TestHeapPerJob(t *testing.T) {
	jobs := 5000
	if n, err := strconv.Atoi(os.Getenv("ARES_HEAP_JOBS")); err == nil {
		jobs = n
	}
	dir := t.TempDir()
	for _, when := range []string{"submitted", "restarted"} {
		cfg := server.Default()
		cfg.DataDir = dir
		cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
		before := heapBytes()
		s, err := server.Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		token, err := os.ReadFile(filepath.Join(dir, server.AdminTokenFile))
		if err != nil {
			t.Fatal(err)
		}
		if when == "submitted" {
			before = heapBytes() // an empty server is not counted
			submitPending(t, "http://"+s.Endpoints.HTTP, strings.TrimSpace(string(token)), jobs)
		}
		perJob := int(heapBytes()-before) / jobs
		t.Logf("%s: %d bytes of heap per job", when, perJob)
		if perJob > maxBytesPerJob {
			t.Errorf("%s: a pending job takes %d bytes of the heap, more than %d: find the cause with ARES_HEAP_PROFILE", when, perJob, maxBytesPerJob)
		}
		if file := os.Getenv("ARES_HEAP_PROFILE"); file != "" {
			writeHeapProfile(t, file+"."+when)
		}
		s.Close()
	}
}

// heapBytes collects garbage and returns the size of the live objects.
func heapBytes() int64 {
	runtime.GC()
	runtime.GC() // the first collection empties sync.Pools, the second frees what was in them
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func writeHeapProfile(t testing.TB, name string) {
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.Lookup("heap").WriteTo(f, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// mappedFiles returns the part of a process's resident memory that is mapped from
// files. The system can drop this part at any time: it is the program, and the
// pages of the embedded store's file that were read. The store's pages are counted
// here even if the file lies on a file system in memory.
func mappedFiles(pid int) int64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // empty if the process has ended
	sum := int64(0)
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && (f[0] == "RssFile:" || f[0] == "RssShmem:") {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			sum += kb << 10
		}
	}
	return sum
}

func megabytes(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/(1<<20)) }
