package forecast

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

func ask(tenant, user, name string, gpus int, limit time.Duration) Features {
	return Features{Tenant: tenant, User: user, Name: name, Milli: 1000 * gpus, Limit: limit}
}

func observe(f *Forecaster, a Features, took ...time.Duration) {
	for _, d := range took {
		f.Observe(Run{Features: a, Took: d, Outcome: Ended, Predicted: f.Predict(a)})
	}
}

func TestNamesWithoutNumbers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"train-resnet-042": "train-resnet", "lr0.001_run7": "lr._run", "exp 9f86d081884c7d65 a": "exp  a", "": "", "2024": "",
		"décor-1": "décor", "deadbeef": "deadbeef", "tune/3/4": "tune",
	} {
		if got := withoutNumbers(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	a := FeaturesOf(&ares.Job{Owner: "alice", Spec: ares.Spec{Tenant: "ml", Name: "t-1", Members: 2, GPUs: 4, Command: []string{"run", "--seed", "17"}, MaxRuntimeMinutes: 5}})
	b := FeaturesOf(&ares.Job{Owner: "alice", Spec: ares.Spec{Tenant: "ml", Name: "t-2", Members: 1, GPUs: 8, Command: []string{"run", "--seed", "4"}, MaxRuntimeMinutes: 5}})
	if a != b {
		t.Errorf("%+v and %+v are the same job again", a, b)
	}
}

// TestNoEstimate checks that there is no estimate without runs of the submitter, whatever other users ran. The
// values for planning remain.
func TestNoEstimate(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	check := func(when string) {
		t.Helper()
		got := f.Predict(ask("ml", "alice", "train", 8, 4*time.Hour))
		if got.P90 != 4*time.Hour || got.P50 <= 0 || got.Samples != 0 || got.Own != 0 || !strings.HasPrefix(got.Basis, "no estimate: ") || !strings.Contains(got.Basis, "limit of 4h") {
			t.Errorf("%s, with a limit of four hours: %+v", when, got)
		}
		got = f.Predict(ask("ml", "alice", "train", 8, 0))
		if got.P90 <= 0 || got.Samples != 0 || got.Own != 0 || !strings.HasPrefix(got.Basis, "no estimate: ") {
			t.Errorf("%s, without a limit: %+v", when, got)
		}
	}
	check("without any run")
	for i := range 100 {
		observe(f, ask("ml", "bob", fmt.Sprintf("n%c", 'a'+i%26), 8, 0), time.Minute)
	}
	check("after runs of another user")
	// Each of these runs takes a tenth of its time limit, so the prediction is a tenth of the new
	// job's limit.
	for i := range 30 {
		observe(f, ask("ml", "carol", fmt.Sprintf("n%c", 'a'+i), 1, 10*time.Hour), time.Hour)
	}
	if got := f.Predict(ask("ml", "carol", "new", 1, 20*time.Hour)); got.P50 != 2*time.Hour || got.Samples == 0 || got.Own != 0 {
		t.Errorf("a new job of a user whose jobs take a tenth of their limits: %+v", got)
	}
}

// TestFewOwnRuns checks that a few runs of a job are enough for a narrow forecast: on a new cluster, among other
// users' long jobs, and among long jobs of the same user.
func TestFewOwnRuns(t *testing.T) {
	t.Parallel()
	mine := ask("ml", "alice", "smoke-test", 1, 0)
	for name, prepare := range map[string]func(f *Forecaster){
		"alone": func(*Forecaster) {},
		"other users": func(f *Forecaster) {
			for i := range 200 {
				observe(f, ask("ml", "bob", fmt.Sprintf("n%c", 'a'+i%26), 1, 0), 20*time.Hour)
			}
		},
		"other jobs": func(f *Forecaster) {
			for i := range 200 {
				observe(f, ask("ml", "alice", fmt.Sprintf("n%c", 'a'+i%26), 1, 0), time.Duration(1+i%40)*time.Hour)
			}
		},
	} {
		for _, c := range []struct {
			runs      int
			took, p90 time.Duration
		}{{2, 100 * time.Millisecond, 5 * time.Second}, {5, 3 * time.Second, time.Minute}, {20, 3 * time.Second, 20 * time.Second}} {
			f := New(Config{})
			prepare(f)
			for range c.runs {
				observe(f, mine, c.took)
			}
			got := f.Predict(mine)
			if got.P50 < c.took || got.P50 > 5*c.took || got.P90 > c.p90 || got.Own != c.runs || got.Samples != c.runs {
				t.Errorf("%s: after %d runs of %s: %+v", name, c.runs, c.took, got)
			}
		}
	}
}

// TestOthersNeverMakeLate checks that the p90 is never below the p90 of the job's own runs, however short and regular
// the runs of other users are.
func TestOthersNeverMakeLate(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	for i := range 3000 {
		observe(f, ask("ml", fmt.Sprintf("u%c", 'a'+i%20), fmt.Sprintf("n%c", 'a'+i%7), 1, 0), time.Second)
	}
	mine := ask("ml", "alice", "mine", 1, 0)
	for n := 1; n <= 30; n++ {
		observe(f, mine, time.Duration(1+n*7%10)*time.Minute)
		least := time.Duration(0)
		for k := 1; k <= n; k++ {
			least = max(least, time.Duration(1+k*7%10)*time.Minute)
		}
		if n > 9 {
			least = 9 * time.Minute // of ten equally frequent runtimes up to ten minutes
		}
		if got := f.Predict(mine); got.P90 < least || got.P90 > 20*got.P50 {
			t.Errorf("after %d runs: %+v, want at least %s", n, got, least)
		}
	}
}

// TestNarrowsToTheGroup checks that the prediction follows the runtimes of the job's own runs.
func TestNarrowsToTheGroup(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	for i := range 200 {
		observe(f, ask("ml", fmt.Sprintf("u%c", 'a'+i%20), "other", 1, 0), 10*time.Hour)
	}
	mine := ask("ml", "alice", "mine", 8, 0)
	for range 44 {
		observe(f, mine, time.Minute)
	}
	many := f.Predict(mine)
	if many.P50 != time.Minute || many.P90 > 2*time.Minute || many.Samples != 32 || many.Own != 32 || many.Basis != "32 runs of alice's mine with this command on 8 GPUs" {
		t.Errorf("after forty-four runs: %+v", many)
	}
}

// TestCensoredRuns compares two kinds of runs. If ten runs end by themselves after an hour, the median must become
// one hour. If they are cut short after an hour instead, the median must not become shorter.
func TestCensoredRuns(t *testing.T) {
	t.Parallel()
	a := ask("ml", "alice", "train", 1, 0)
	base := New(Config{})
	observe(base, a, 30*time.Minute, 2*time.Hour, 2*time.Hour, 2*time.Hour, 4*time.Hour)
	ended, cut := clone(t, base), clone(t, base)
	for range 10 {
		ended.Observe(Run{Features: a, Took: time.Hour, Outcome: Ended})
		cut.Observe(Run{Features: a, Took: time.Hour, Outcome: Cut})
	}
	if e, c, b := ended.Predict(a), cut.Predict(a), base.Predict(a); e.P50 != time.Hour || c.P50 < b.P50 {
		t.Errorf("ended %s, cut %s, without %s", e.P50, c.P50, b.P50)
	}
	// A job ends at its time limit. With a longer time limit the job would have continued.
	short, long := ask("ml", "bob", "run", 1, time.Hour), ask("ml", "bob", "run", 1, 10*time.Hour)
	f := New(Config{})
	for range 20 {
		f.Observe(Run{Features: short, Took: time.Hour + time.Second, Outcome: Limited})
	}
	if p := f.Predict(short); p.P50 != time.Hour || p.P90 != time.Hour {
		t.Errorf("always at its limit: %+v", p)
	}
	if p := f.Predict(long); p.P50 <= time.Hour {
		t.Errorf("with a longer limit: %+v", p)
	}
}

// TestMostRunsWereCut checks that cancelled runs alone give no estimate: a median would be the guess for jobs without a
// time limit. One run that ended by itself and was longer than the cancelled ones is enough.
func TestMostRunsWereCut(t *testing.T) {
	t.Parallel()
	a, f := ask("ml", "alice", "true", 1, 0), New(Config{})
	for range 5 {
		f.Observe(Run{Features: a, Took: 2 * time.Second, Outcome: Cut})
	}
	p := f.Predict(a)
	if p.Samples != 0 || p.Own != 0 || !strings.HasPrefix(p.Basis, "no estimate: of 5 similar runs of the same user, too many were stopped") {
		t.Errorf("after five cancelled runs: %+v", p)
	}
	if p.P50 <= 0 || p.P90 < p.P50 {
		t.Errorf("there is no assumption for planning: %+v", p)
	}
	limited := a
	limited.Limit = time.Hour
	if p := f.Predict(limited); p.Samples != 0 || p.P90 != time.Hour || !strings.HasSuffix(p.Basis, "its limit of 1h0m0s at the latest") {
		t.Errorf("with a time limit: %+v", p)
	}
	observe(f, a, 3*time.Second)
	if p := f.Predict(a); p.Samples != 6 || p.P50 < 3*time.Second || p.P50 > time.Minute {
		t.Errorf("after a run that ended: %+v", p)
	}
}

func TestDriftIsReportedAndFollowed(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	a := ask("ml", "alice", "train", 1, 0)
	for i := range 32 {
		observe(f, a, time.Hour+time.Duration(i%7)*time.Minute)
	}
	if len(f.Drifts()) != 0 {
		t.Fatalf("nothing had changed: %+v", f.Drifts())
	}
	for i := range 8 {
		observe(f, a, 3*time.Hour+time.Duration(i%7)*time.Minute)
	}
	drifts := f.Drifts()
	if len(drifts) != 1 || drifts[0].Of != "alice's train with this command on 1 GPU" || drifts[0].Before.Round(time.Hour) != time.Hour || drifts[0].After.Round(time.Hour) != 3*time.Hour || drifts[0].Runs < 36 {
		t.Fatalf("runs became three times as long: %+v", drifts)
	}
	if p := f.Predict(a); p.P50 < 3*time.Hour || p.Samples > 9 {
		t.Errorf("the runs before the change still count: %+v", p)
	}
}

// TestCalibrated stores only four runs per group, which are too few to estimate a p90. Nevertheless
// about 90 % of each tenant's runs must end within the predicted p90.
func TestCalibrated(t *testing.T) {
	t.Parallel()
	f := New(Config{Window: 4}) // too few runs for a p90
	state := uint64(1)
	random := func() float64 {
		state = state*6364136223846793005 + 1442695040888963407
		return float64(state>>11) / (1 << 53)
	}
	covered, runs := map[string]int{}, 4000
	for i := range 2 * runs {
		tenant := []string{"even", "wild"}[i%2]
		a := ask(tenant, "u", "n", 1, 0)
		took := time.Duration(float64(time.Minute) * (1 + random()))
		if tenant == "wild" {
			took = time.Duration(float64(time.Minute) / (random() + 1e-4))
		}
		p := f.Predict(a)
		if took <= p.P90 {
			covered[tenant]++
		}
		f.Observe(Run{Features: a, Took: took, Outcome: Ended, Predicted: p})
	}
	for tenant, n := range covered {
		if part := float64(n) / float64(runs); part < 0.88 || part > 0.92 {
			t.Errorf("tenant %s: %.3f are covered", tenant, part)
		}
	}
	if told, n := f.Accuracy(); told < 2*runs-4 || n > covered["even"]+covered["wild"] || n < covered["even"]+covered["wild"]-4 {
		t.Errorf("accuracy says %d of %d", n, told)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	f := New(Config{Groups: 50, Window: 5})
	for i := range 2000 {
		observe(f, ask(fmt.Sprintf("t%d", i%40), fmt.Sprintf("u%d", i), "n", i%9, time.Hour), time.Minute)
	}
	if n := len(f.groups.byKey); n != 50 {
		t.Errorf("%d groups are kept", n)
	}
	n := 0
	for g := f.groups.oldest; g != nil; g = g.newer {
		n++
		if len(g.runs) > 5 {
			t.Errorf("a group of %d runs", len(g.runs))
		}
	}
	if n != 50 {
		t.Errorf("%d groups are in the list", n)
	}
	full := New(Config{})
	for i := range 10_000 {
		a := ask(fmt.Sprintf("t%d", i%600), fmt.Sprintf("u%d", i%700), fmt.Sprintf("n%d", i%90), i%9, 100*time.Hour)
		observe(full, a, 90*time.Hour)
	}
	if size := len(full.Save()); size > 800_000 {
		t.Errorf("a full memory takes %d bytes", size)
	}
}

// TestSaveWithin checks that a saved forecaster fits into a limit. The groups with the latest runs are kept.
func TestSaveWithin(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	last := ask("last", "u", "n", 1, 0)
	for i := range 2000 {
		observe(f, ask(fmt.Sprintf("t%d", i), "u", "n", 1, 0), time.Duration(i)*time.Minute)
	}
	observe(f, last, time.Hour)
	for range maxDrifts {
		f.addDrift(Drift{Of: strings.Repeat("x", 1000)})
	}
	whole := f.Save()
	for _, limit := range []int{0, MinSaveBytes, 3 * MinSaveBytes, len(whole) - 1, len(whole) + 16} {
		saved := f.SaveWithin(limit)
		g, err := Restore(Config{}, saved)
		if err != nil || len(saved) > max(limit, MinSaveBytes) {
			t.Fatalf("limit %d: %d bytes, %v", limit, len(saved), err)
		}
		if p := g.Predict(last); p.Own != 1 {
			t.Errorf("limit %d: the latest run is not saved: %+v", limit, p)
		}
		if n := len(g.groups.byKey); n < 100 || limit > len(whole) && n != len(f.groups.byKey) {
			t.Errorf("limit %d: %d groups of %d are saved", limit, n, len(f.groups.byKey))
		}
	}
	if !bytes.Equal(f.SaveWithin(len(whole)+16), whole) {
		t.Error("a limit that is large enough changes what is saved")
	}
}

// TestLaws checks four properties for random histories. The median is at most the p90. Both are at
// most the time limit. Predicting does not change the forecaster. A restored forecaster behaves
// like the original.
func TestLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Groups: rapid.IntRange(1, 60).Draw(t, "groups"), Window: rapid.IntRange(1, 40).Draw(t, "window")}
		asks := rapid.Custom(func(t *rapid.T) Features {
			return ask(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tenant"), rapid.SampledFrom([]string{"", "u", "v"}).Draw(t, "user"),
				rapid.SampledFrom([]string{"", "n", "m"}).Draw(t, "name"), rapid.IntRange(0, 2).Draw(t, "gpus"),
				time.Duration(rapid.IntRange(0, 3).Draw(t, "limit"))*time.Hour)
		})
		runs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Run {
			return Run{
				Features: asks.Draw(t, "ask"), Took: time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "took")),
				Outcome: rapid.SampledFrom([]Outcome{Ended, Ended, Limited, Cut}).Draw(t, "outcome"),
				Predicted: Forecast{
					P50: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "p50")), P90: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "p90")),
					Samples: rapid.IntRange(0, 3).Draw(t, "samples"), Own: rapid.IntRange(0, 40).Draw(t, "own"),
				},
				Overdue: rapid.Bool().Draw(t, "overdue"),
			}
		}), 0, 120).Draw(t, "runs")
		half := rapid.IntRange(0, len(runs)).Draw(t, "half")
		f, twin := New(cfg), New(cfg)
		for i, r := range runs {
			if i == half {
				var err error
				if twin, err = Restore(cfg, f.Save()); err != nil {
					t.Fatal(err)
				}
			}
			f.Observe(r)
			if i >= half {
				twin.Observe(r)
			}
			p := f.Predict(r.Features)
			if p.P50 < 0 || p.P50 > p.P90 || r.Features.Limit > 0 && p.P90 > r.Features.Limit || p.Basis == "" {
				t.Fatalf("%+v: %+v", r.Features, p)
			}
		}
		if half == len(runs) {
			return
		}
		for range 5 {
			a := asks.Draw(t, "question")
			if x, y := f.Predict(a), twin.Predict(a); x != y {
				t.Fatalf("%+v: %+v, restored %+v", a, x, y)
			}
		}
		if !bytes.Equal(f.Save(), twin.Save()) {
			t.Fatal("the restored memory is another")
		}
	})
}

func TestRestoreRejectsTruncatedData(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	for i := range 40 {
		observe(f, ask("ml", "u", fmt.Sprintf("n%c", 'a'+i%3), 1, time.Hour), time.Duration(1+i/20)*time.Minute*time.Duration(1+i%3))
	}
	saved := f.Save()
	for n := range saved {
		if _, err := Restore(Config{}, saved[:n]); err == nil {
			t.Fatalf("%d of %d bytes were taken for a whole", n, len(saved))
		}
	}
	if _, err := Restore(Config{}, append(saved, 0)); err == nil {
		t.Error("a byte too many was not noticed")
	}
	if back := clone(t, f); !reflect.DeepEqual(back.Drifts(), f.Drifts()) {
		t.Error("findings are lost")
	}
}

func clone(t *testing.T, f *Forecaster) *Forecaster {
	t.Helper()
	out, err := Restore(f.cfg, f.Save())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzRestore checks that a forecaster restored from arbitrary bytes gives plausible answers.
func FuzzRestore(f *testing.F) {
	full := New(Config{})
	for i := range 60 {
		observe(full, ask("ml", "u", fmt.Sprintf("n%c", 'a'+i%3), 1, time.Hour), time.Duration(1+i/20)*time.Minute)
	}
	f.Add(full.Save())
	f.Add(New(Config{}).Save())
	f.Fuzz(func(t *testing.T, saved []byte) {
		got, err := Restore(Config{Groups: 20}, saved)
		if err != nil {
			return
		}
		for _, a := range []Features{{}, ask("ml", "u", "na", 1, time.Hour), ask("ml", "u", "na", 1, 1<<62)} {
			got.Observe(Run{Features: a, Took: 1 << 62, Outcome: Ended, Predicted: got.Predict(a)})
			if p := got.Predict(a); p.P50 < 0 || p.P50 > p.P90 || p.P90 > longest {
				t.Fatalf("%+v", p)
			}
		}
		if again, err := Restore(Config{Groups: 20}, got.Save()); err != nil || !bytes.Equal(again.Save(), got.Save()) {
			t.Fatalf("saved again: %v", err)
		}
	})
}

// TestRestoreReadsThePreviousFormat checks that a server that is updated keeps the groups of the previous version.
func TestRestoreReadsThePreviousFormat(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	a := ask("ml", "u", "n", 1, 0)
	for range 10 {
		f.Observe(Run{Features: a, Took: time.Minute, Outcome: Ended})
	}
	saved := f.Save()
	old := append([]byte{plainFormat}, saved[1:]...)
	coverages := 1 + 1 + len(f.coverages)*10 + 1 // the version, the corrections and no drift
	old = append(old[:coverages:coverages], saved[coverages+classes+8*len(f.skill.sums()):]...)
	back, err := Restore(Config{}, old)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := back.Predict(a), f.Predict(a); x != y {
		t.Errorf("%+v, before %+v", x, y)
	}
}

// TestRestoredCorrectionsAreBounded restores extreme corrections. They must not stretch predictions beyond the
// bounds of calibration.
func TestRestoredCorrectionsAreBounded(t *testing.T) {
	t.Parallel()
	f := New(Config{})
	f.coverages[0].shift = 1e6
	g, err := Restore(Config{}, f.Save())
	if err != nil || g.coverages[0].shift != maxShift {
		t.Errorf("the correction is %v, %v", g.coverages[0].shift, err)
	}
}
