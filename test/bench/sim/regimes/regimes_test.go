package regimes

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// BenchmarkRegimes replays the judged regimes and prints whether the promises about the default policy hold.
func BenchmarkRegimes(b *testing.B) {
	some, err := selected(cmp.Or(os.Getenv("ARES_REGIMES"), "judge"))
	if err != nil {
		b.Fatal(err)
	}
	seeds, err := strconv.Atoi(cmp.Or(os.Getenv("ARES_REGIMES_SEEDS"), "10"))
	if err != nil || seeds < 1 {
		b.Fatalf("ARES_REGIMES_SEEDS must be a number of at least 1: %v", err)
	}
	policy, err := policyOf(cmp.Or(os.Getenv("ARES_REGIMES_POLICY"), "ares"))
	if err != nil {
		b.Fatal(err)
	}
	if rounds.Tiny() {
		some, seeds = tiny(some), 1
	}
	for range b.N {
		began, before := time.Now(), rounds.CPU()
		if err := judge(os.Stdout, some, seeds, policy); err != nil {
			b.Fatal(err)
		}
		fmt.Printf("took %.0f s on %d processors, %.0f s of processor time\n", time.Since(began).Seconds(), runtime.GOMAXPROCS(0), (rounds.CPU() - before).Seconds())
	}
}

// judge replays the regimes and prints their figures and the verdict.
func judge(to io.Writer, some []sim.Regime, seeds int, policy sim.Policy) error {
	all := replayAll(some, seeds, policy)
	for _, r := range all {
		r.done.Wait()
		if r.err != nil {
			return r.err
		}
	}
	of := fmt.Sprintf("policy %s, %d regimes, %d seeds", policy.Name, len(some), seeds)
	return errors.Join(
		rounds.Table(to, of+": mean completion and other figures, divided by those of FIFO + backfill", plainRows(all)),
		rounds.Table(to, of+": the same when every job allows preemption", preemptRows(all)),
		rounds.Table(to, of+": what must hold", verdictRows(all)))
}

// The function `tiny` returns the first regime with few jobs.
func tiny(some []sim.Regime) []sim.Regime {
	some = some[:1]
	some[0].Jobs = 150
	return some
}

// The function `selected` returns the regimes that ARES_REGIMES names.
func selected(which string) ([]sim.Regime, error) {
	switch all := sim.Regimes(); which {
	case "all":
		return all, nil
	case "tune", "judge":
		return slices.DeleteFunc(all, func(r sim.Regime) bool { return r.Judged != (which == "judge") }), nil
	}
	r, err := sim.RegimeNamed(which)
	return []sim.Regime{r}, err
}

// policyOf returns a built-in policy, or the policy of a file.
func policyOf(name string) (sim.Policy, error) {
	file, err := os.Open(name)
	if err != nil {
		return sim.PolicyNamed(name)
	}
	defer func() { _ = file.Close() }() // it was only read
	return sim.ReadPolicy(file)
}

// A regime with few jobs is replayed and judged, so that the benchmark cannot rot.
func TestRegimes(t *testing.T) {
	t.Parallel()
	some, err := selected("judge")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := policyOf("ares")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := judge(&out, tiny(some), 1, policy); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{some[0].Name, "mean completion: no interval", "p99 of the bounded slowdown", "median gain over the learnable", "with preemption", "preemptions: at most"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out.String())
		}
	}
}

// A ratio that is above 1 on all seeds is worse, and one that is above and below is not.
func TestPaired(t *testing.T) {
	t.Parallel()
	base := []float64{1, 2, 3, 4, 5}
	for want, figures := range map[bool][]float64{
		true:  {1.1, 2.2, 3.3, 4.5, 5.5},
		false: {1.1, 1.8, 3.3, 3.9, 5.1},
	} {
		if i := paired(figures, base); i.above() != want {
			t.Errorf("%v ÷ %v is %s: above 1 is %v", figures, base, i, i.above())
		}
	}
	if i := paired(base, base); i.above() || i.mean != 1 {
		t.Errorf("equal figures have the ratio %s", i)
	}
}
