package robustness_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/recorder"
	"github.com/ares-scheduler/ares/test/chaos/robustness/check"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

var (
	seed   = flag.Uint64("seed", 1, "of the faults and the jobs")
	length = flag.Duration("length", 5*time.Minute, "how long faults are made")
	only   = flag.String("only", "", "the kinds of faults to make, comma-separated, or none; all by default")
	keep   = flag.String("keep", "", "directory in which the record of each run is kept, whether it fails or not")
)

// TestFaultsBySeed is one run of the robustness suite. The seed determines
// which faults are injected.
func TestFaultsBySeed(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "record")
	if *keep != "" {
		home = filepath.Join(*keep, fmt.Sprintf("seed-%d", *seed))
	}
	record, err := trace.Create(home)
	if err != nil {
		t.Fatal(err)
	}
	defer record.Close()
	fleet := newFleet(t, short, nodes, dir, home)
	defer fleet.end()
	meta := trace.Meta{
		Seed: *seed, Version: os.Getenv("ARES_TEST_VERSION"), StartedAt: time.Now(), Start: trace.Now(), SessionTTL: short.session, Quotas: quotas,
	}
	for _, m := range fleet.controls {
		meta.Servers = append(meta.Servers, m.Name)
	}
	for _, m := range fleet.workers {
		meta.Nodes = append(meta.Nodes, m.Name)
	}
	note(t, record, meta)

	watching, stopWatching := context.WithCancel(t.Context())
	rec := recorder.New(t, fleet.endpoints(), record)
	var background sync.WaitGroup
	background.Go(func() { rec.Run(watching) })
	createTenants(t, fleet)

	clients := newCrowd(fleet, record, rec)
	submitting, stopSubmitting := context.WithTimeout(t.Context(), *length)
	var work sync.WaitGroup
	work.Go(func() { clients.Run(submitting) })
	visitors := &visitors{fleet: fleet, record: record.Dir}
	work.Go(func() { visitors.run(submitting) })
	scene := &scene{rec: rec}
	chosen := inject.Select(t, faults, *only)
	for k := range uint64(tempters) {
		i := &inject.Injector{Rand: rand.New(rand.NewPCG(*seed, k)), Ctx: submitting}
		work.Go(func() {
			inject.Run(i, chosen, &tempter{i, fleet, scene}, func(f trace.Fault) {
				if err := record.Fault(f); err != nil {
					t.Error(err)
				}
			})
		})
	}
	work.Wait()
	stopSubmitting()
	meta.Healed, meta.Restores = trace.Now(), scene.restores
	note(t, record, meta)
	settle(t, rec)
	remembered(t, fleet)
	stopWatching()
	background.Wait()
	meta.End = trace.Now()
	note(t, record, meta)
	judge(t, fleet, home)
	visitors.judge(t)
	fleet.judgeOutput()
}

// The constant `tempters` is the maximum number of simultaneous faults.
const tempters = 3

// This function waits until every job has ended and every device is free. Once
// no more faults are injected, every job must end and free its devices.
func settle(t *testing.T, rec *recorder.Recorder) {
	t.Helper()
	const atMost = 5 * time.Minute // a job that was lost repeatedly waits up to a minute
	deadline := time.Now().Add(atMost)
	for {
		job, n := rec.Unsettled()
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s after the last fault %d jobs have not ended or hold devices; one of them: %s", atMost, n, job)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}

func note(t *testing.T, record *trace.Writer, meta trace.Meta) {
	t.Helper()
	if err := record.Meta(meta); err != nil {
		t.Fatal(err)
	}
}

func createTenants(t testing.TB, f *fleet) {
	t.Helper()
	c := f.client(0, 20*time.Second)
	defer c.Close()
	for name, gpus := range quotas {
		tenant := &apipb.Tenant{
			Id: name, Name: name, MaxGpus: new(int32(gpus)), MaxGpuMemoryMb: new(int32(1 << 30)), MaxCpuCores: new(int32(1 << 20)),
			MaxMemoryMb: new(int32(1 << 30)), MaxConcurrentJobs: new(int32(1 << 20)),
		}
		_, err := c.CreateTenant(t.Context(), tenant)
		for tries := 0; ares.CodeOf(err) == ares.Unavailable && tries < 20; tries++ { // history may still create its tables
			<-time.After(500 * time.Millisecond)
			_, err = c.CreateTenant(t.Context(), tenant)
		}
		if err != nil {
			t.Fatalf("create tenant %s: %v", name, err)
		}
	}
}

// `judge` checks the run's record, and checks that no job process reported a
// violation. If the run failed, `judge` prints the histories of a few jobs and
// saves the record.
func judge(t *testing.T, f *fleet, home string) {
	t.Helper()
	run, err := trace.Load(home)
	if err != nil {
		t.Fatal(err)
	}
	report := check.Run(run)
	var text strings.Builder
	report.Print(&text)
	t.Log("\n" + text.String())
	told := map[string]bool{}
	for _, v := range report.Violations {
		t.Error(v)
		if v.Job != "" && !told[v.Job] && len(told) < 3 {
			told[v.Job] = true
			var story strings.Builder
			check.Story(run, v.Job, &story)
			t.Log("\n" + story.String())
		}
	}
	for _, p := range f.processes() {
		data, err := os.ReadFile(p.LogFile)
		if err != nil {
			t.Error(err)
		}
		for _, bad := range []string{"panic: ", "fatal error: ", "DATA RACE"} {
			said := strings.ReplaceAll(string(data), "failpoint panic: ", "")
			if _, rest, found := strings.Cut(said, bad); found && !strings.HasPrefix(p.Name, "etcd") {
				t.Errorf("%s says %s%s", p.Name, bad, rest[:min(len(rest), 4000)])
			}
		}
	}
	if t.Failed() {
		preserve(t, home)
	}
}

// The function `preserve` copies the record of a failed run to a permanent
// directory.
func preserve(t *testing.T, home string) {
	t.Helper()
	at := home
	if *keep == "" {
		at = filepath.Join(os.TempDir(), fmt.Sprintf("ares-robustness-seed-%d", *seed))
		if err := errors.Join(os.RemoveAll(at), os.CopyFS(at, os.DirFS(home))); err != nil {
			t.Error(err)
		}
	}
	t.Errorf("seed %d failed; its record is in %s\njudge it again: go run ./test/chaos/robustness/recheck %s\nrun it again: make robustness SEEDS=%d", *seed, at, at, *seed)
}
