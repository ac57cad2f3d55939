package federation_test

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

	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

var (
	seed   = flag.Uint64("seed", 1, "of the faults and the jobs")
	length = flag.Duration("length", 5*time.Minute, "how long faults are made")
	only   = flag.String("only", "", "the kinds of faults to make, comma-separated, or none; all by default")
	keep   = flag.String("keep", "", "directory in which the record of each run is kept, whether it fails or not")
)

// The constant `injectors` is the maximum number of simultaneous faults.
const injectors = 2

// settleWithin is how long after the last fault every job must have ended.
const settleWithin = 5 * time.Minute

// TestFederationBySeed is one run of the suite. The seed determines which faults are injected.
func TestFederationBySeed(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "record")
	if *keep != "" {
		home = filepath.Join(*keep, fmt.Sprintf("seed-%d", *seed))
	}
	if err := os.RemoveAll(home); err != nil {
		t.Fatal(err)
	}
	defer preserve(t, home)
	f := newFleet(t, dir, home, *seed)
	defer f.end()

	watching, stopWatching := context.WithCancel(t.Context())
	defer stopWatching()
	var background sync.WaitGroup
	for _, s := range f.all() {
		background.Go(func() { s.rec.Run(watching) })
	}
	background.Go(func() { f.recordLoans(watching) })

	submitting, stopSubmitting := context.WithTimeout(t.Context(), *length)
	defer stopSubmitting()
	var work sync.WaitGroup
	for _, c := range f.newCrowds() {
		work.Go(func() { c.Run(submitting) })
	}
	chosen := inject.Select(t, faults, *only)
	for k := range uint64(injectors) {
		i := &inject.Injector{Rand: rand.New(rand.NewPCG(*seed, k)), Ctx: submitting}
		work.Go(func() { inject.Run(i, chosen, &tempter{i, f}, f.noteFault) })
	}
	work.Wait()
	f.heal()
	f.settle()
	stopWatching()
	background.Wait()
	f.finish()
	if err := f.note(); err != nil {
		t.Fatal(err)
	}
	judge(t, f)
}

// noteFault adds a fault to the record of every store, because each is judged alone.
func (f *fleet) noteFault(made trace.Fault) {
	f.t.Logf("%7.1fs %s of %s %s, undone at %.1fs", (made.At - f.meta.Start).Seconds(), made.Kind, made.Target, made.Detail, max(0, (made.Until-f.meta.Start).Seconds()))
	for _, s := range f.all() {
		if err := s.record.Fault(made); err != nil {
			f.t.Error(err)
		}
	}
}

// The method `note` writes what is known about the whole federation.
func (f *fleet) note() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return verdict.WriteMeta(f.home, f.meta)
}

// The method `heal` notes that no more faults are made, and lets an administrator uncordon every cluster: a restored hub may have
// forgotten that a drain had ended. The record of a lost cluster never gets to its end.
func (f *fleet) heal() {
	f.meta.Healed = trace.Now()
	for _, s := range f.all() {
		if !f.isGone(s) {
			s.meta.Healed = f.meta.Healed
		}
		s.note()
	}
	for _, m := range f.members {
		if !f.isGone(m) {
			f.awaitReady(m)
		}
	}
}

func (f *fleet) finish() {
	f.meta.End = trace.Now()
	for _, s := range f.all() {
		s.meta.End = f.meta.End
		s.note()
	}
}

func (f *fleet) isGone(s *site) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone[s.name]
}

// The method `settle` waits until every job has ended and every device is free.
func (f *fleet) settle() {
	f.t.Helper()
	deadline := time.Now().Add(settleWithin)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		left := ""
		for _, s := range f.all() {
			if job, n := s.rec.Unsettled(); n > 0 && !f.isGone(s) {
				left += fmt.Sprintf("\n%s: %d jobs have not ended or hold devices; one of them: %s", s.name, n, job)
			}
		}
		if left == "" {
			f.t.Logf("every job had ended %.1f s after the last fault", (trace.Now() - f.meta.Healed).Seconds())
			return
		}
		if time.Now().After(deadline) {
			f.t.Errorf("%s after the last fault:%s", settleWithin, left)
			return
		}
		<-tick.C
	}
}

// The function `judge` checks the run's record, and looks for crashes in the logs. It tells the story of a few jobs with violations.
func judge(t *testing.T, f *fleet) {
	t.Helper()
	run, err := verdict.Load(f.home)
	if err != nil {
		t.Fatal(err)
	}
	report := verdict.Judge(run)
	var text strings.Builder
	report.Print(&text)
	t.Log("\n" + text.String())
	told := map[string]bool{"": true}
	for _, v := range report.Violations() {
		t.Error(v)
		if !told[v.Job] && len(told) < 4 {
			told[v.Job] = true
			var story strings.Builder
			verdict.Story(run, v.Job, &story)
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
}

// The function `preserve` keeps the record and the logs of a failed run, and says how to run it again.
func preserve(t *testing.T, home string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	at := home
	if *keep == "" {
		at = filepath.Join(os.TempDir(), fmt.Sprintf("ares-federation-seed-%d", *seed))
		if err := errors.Join(os.RemoveAll(at), os.CopyFS(at, os.DirFS(home))); err != nil {
			t.Error(err)
		}
	}
	t.Errorf("seed %d failed; its record and the logs of all processes are in %s\njudge it again: go run ./test/chaos/federation/rejudge %s\nrun it again: make chaos-federation SEED=%d MINUTES=%.0f", *seed, at, at, *seed, length.Minutes())
}
