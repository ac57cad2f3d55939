package forecast

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

var dawn = time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)

// fleetOf returns the Scores of a cluster. Each node of the cluster has the given number of
// successful attempts.
func fleetOf(nodes, each int) *Scores {
	s := NewScores()
	for n := range nodes {
		for i := range each {
			s.Observe(&End{Node: fmt.Sprintf("n%d", n), At: dawn, Family: uint64(i + 1), Timed: true, Gang: true})
		}
	}
	return s
}

func scoreOf(t *testing.T, s *Scores, node string, now time.Time) ares.NodeScore {
	t.Helper()
	for _, r := range s.Compute(now) {
		if r.Node == node {
			return r
		}
	}
	return ares.NodeScore{Node: node, Score: ares.FullScore}
}

func TestFixedPoint(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, time.Second, time.Hour, 11 * time.Hour, HalfLife, 30 * time.Hour, 5 * HalfLife} {
		want := math.Exp2(-d.Hours() / HalfLife.Hours())
		if got := float64(decayFactor(d)) / one; math.Abs(got-want) > 2e-5 {
			t.Errorf("after %s %v is left, want %v", d, got, want)
		}
	}
	for _, ratio := range []float64{1, 1.5, 2, 3, 7.5, 20, 0.5, 0.3, 0.01} {
		want := 1000 * max(-3, min(3, math.Log2(ratio)))
		if got := binaryLog(time.Duration(ratio*float64(time.Hour)), time.Hour); math.Abs(float64(got)-want) > 3 {
			t.Errorf("the logarithm of %v is %d, want %v", ratio, got, want)
		}
	}
	for _, log := range []int64{0, 1000, -1000, 585, -2000, 4500} {
		want := 1000 * math.Exp2(float64(log)/1000)
		if got := powerOfTwo(log); math.Abs(float64(got)-want) > 2+want/1000 {
			t.Errorf("2 to the %d thousandths is %d, want %v", log, got, want)
		}
	}
	if decayed(-1000, one/2) != -500 || decayed(1, one/2) != 1 || decayed(math.MaxInt64, one) != math.MaxInt64 {
		t.Error("what is faded is rounded, and nothing overflows")
	}
}

// TestLossesLowerTheScore checks that each lost attempt lowers the score. The effect must be smaller if many attempts
// succeeded, and must fade over time until nothing is left.
func TestLossesLowerTheScore(t *testing.T) {
	t.Parallel()
	s := fleetOf(4, 10)
	last := ares.FullScore
	for range 5 {
		s.Observe(&End{Node: "n0", At: dawn, Outcome: OutcomeFaulted})
		s.Observe(&End{Node: "new", At: dawn, Outcome: OutcomeFaulted})
		busy, idle := scoreOf(t, s, "n0", dawn), scoreOf(t, s, "new", dawn)
		if busy.Score >= last || idle.Score >= busy.Score {
			t.Fatalf("scores are %d after %d, and %d for who had nothing else", busy.Score, last, idle.Score)
		}
		last = busy.Score
	}
	if r := scoreOf(t, s, "n0", dawn); r.Why != "it ended 5 of 15 attempts" {
		t.Errorf("why: %q", r.Why)
	}
	if r := scoreOf(t, s, "n1", dawn); r.Score != ares.FullScore || r.Why != "" {
		t.Errorf("a node without losses has %d: %s", r.Score, r.Why)
	}
	for day := 1; day <= 10; day++ {
		r := scoreOf(t, s, "n0", dawn.Add(time.Duration(day)*HalfLife))
		if r.Score <= last && r.Score < ares.FullScore {
			t.Errorf("on day %d it is %d after %d", day, r.Score, last)
		}
		last = r.Score
	}
	if len(s.nodes) != 0 {
		t.Errorf("after ten days %d nodes are remembered", len(s.nodes))
	}
}

// TestJobFailures checks that jobs that fail by themselves lower no score: neither one broken job that is repeated, nor
// many different jobs that fail on one node only. It also checks that a broken job does not hide the failures that the
// node caused.
func TestJobFailures(t *testing.T) {
	t.Parallel()
	s := fleetOf(4, 10)
	for range 50 {
		s.Observe(&End{Node: "n0", At: dawn, Family: 99, Outcome: OutcomeFailed})
	}
	if r := scoreOf(t, s, "n0", dawn); r.Score != ares.FullScore || r.Own != oneSample {
		t.Errorf("one job that fails costs its node: %+v", r)
	}
	for i := range 6 {
		s.Observe(&End{Node: "n0", At: dawn, Family: uint64(100 + i), Outcome: OutcomeFailed})
	}
	if r := scoreOf(t, s, "n0", dawn); r.Score != ares.FullScore || r.Why != "" || r.Own != 7*oneSample {
		t.Errorf("seven jobs failed: %+v", r)
	}
	s.Observe(&End{Node: "n0", At: dawn, Outcome: OutcomeFaulted})
	before := scoreOf(t, s, "n0", dawn)
	for range 50 {
		s.Observe(&End{Node: "n0", At: dawn, Family: 99, Outcome: OutcomeFailed})
	}
	if r := scoreOf(t, s, "n0", dawn); before.Score == ares.FullScore || r.Score != before.Score {
		t.Errorf("a broken job changed the score from %d to %d", before.Score, r.Score)
	}
}

// TestSlowNodes checks that runs of twice the predicted length lower a node's score. The score must
// not fall if runs on all nodes, or on all nodes of its kind, are just as slow.
func TestSlowNodes(t *testing.T) {
	t.Parallel()
	s := fleetOf(4, 10)
	for range 20 {
		s.Observe(&End{Node: "slow", At: dawn, Timed: true, Log: 1000})
	}
	r := scoreOf(t, s, "slow", dawn)
	if r.Slowdown != 2000 || r.Score < 550 || r.Score > 650 || !strings.Contains(r.Why, "runs take 2.00 times as long as elsewhere (20 runs)") {
		t.Errorf("twice as slow: %+v", r)
	}
	for n := range 4 {
		for range 30 {
			s.Observe(&End{Node: fmt.Sprintf("n%d", n), At: dawn, Timed: true, Log: 1000})
		}
	}
	if r := scoreOf(t, s, "slow", dawn); r.Score < 850 {
		t.Errorf("the predictions are what is wrong: %+v", r)
	}
	old := fleetOf(4, 10)
	for _, n := range []string{"old0", "old1"} {
		old.SetKind(n, "an older model")
		for range 20 {
			old.Observe(&End{Node: n, At: dawn, Timed: true, Log: 1000})
		}
	}
	if r := scoreOf(t, old, "old0", dawn); r.Score != ares.FullScore {
		t.Errorf("all of its kind are as slow: %+v", r)
	}
}

func gangOf(ranks ...ares.RankResult) *ares.Attempt {
	a := &ares.Attempt{Number: 1, StartedAt: dawn, EndedAt: dawn.Add(2 * time.Hour), Outcome: ares.OutcomeSucceeded}
	for i, r := range ranks {
		a.Seats = append(a.Seats, ares.SeatStatus{Seat: ares.Seat{Node: string(rune('a' + i)), Rank: i}, State: ares.SeatReleased, Result: new(r)})
	}
	return a
}

func rank(after, took time.Duration, o ares.Outcome) ares.RankResult {
	return ares.RankResult{Outcome: o, StartedAt: dawn.Add(after), EndedAt: dawn.Add(after + took)}
}

func noSkew(string) time.Duration { return 0 }

// TestStragglers checks that stragglers are found by the runtimes of the ranks and by their start times.
func TestStragglers(t *testing.T) {
	t.Parallel()
	ok := rank(0, time.Hour, ares.OutcomeSucceeded)
	longer := rank(0, 70*time.Minute, ares.OutcomeSucceeded)
	later := rank(time.Minute, time.Hour, ares.OutcomeSucceeded)
	job := &ares.Job{Spec: ares.Spec{Tenant: "ml", Name: "x"}}
	for name, c := range map[string]struct {
		attempt *ares.Attempt
		ahead   time.Duration // how far the clock of the second node is ahead
		gang    bool
		last    []string
	}{
		"alike":         {gangOf(ok, ok, ok, ok), 0, true, nil},
		"one is slow":   {gangOf(ok, longer, ok, ok), 0, true, []string{"b"}},
		"one is late":   {gangOf(ok, later, ok, ok), 0, true, []string{"b"}},
		"a fast clock":  {gangOf(ok, later, ok, ok), time.Minute, true, nil},
		"two of them":   {gangOf(ok, longer), 0, false, nil},
		"most are slow": {gangOf(longer, longer, longer, ok), 0, true, nil},
		"not told":      {gangOf(ok, ok, ares.RankResult{Outcome: ares.OutcomeSucceeded}), 0, false, nil},
	} {
		ends := EndsOfAttempt(job, c.attempt, time.Hour, func(n string) time.Duration {
			if n == "b" {
				return c.ahead
			}
			return 0
		})
		var last []string
		for _, e := range ends {
			if e.Gang != c.gang || e.Timed {
				t.Errorf("%s: %+v", name, e)
			}
			if e.Last {
				last = append(last, e.Node)
			}
		}
		if !slices.Equal(last, c.last) || len(ends) != len(c.attempt.Seats) {
			t.Errorf("%s: waited for %v, want %v", name, last, c.last)
		}
	}
	s := fleetOf(4, 10)
	for range 10 {
		s.Observe(&End{Node: "n0", At: dawn, Gang: true, Last: true})
	}
	if r := scoreOf(t, s, "n0", dawn); r.Score > 850 || r.Why != "10 of 20 gangs waited for it" {
		t.Errorf("a straggler: %+v", r)
	}
}

// TestEndsOfAttempt checks which ends of attempts are counted, and for which nodes.
func TestEndsOfAttempt(t *testing.T) {
	t.Parallel()
	job := &ares.Job{Spec: ares.Spec{Tenant: "ml", Name: "x"}}
	lost, restored := ares.RankResult{Outcome: ares.OutcomeLost, Reason: "node a was lost"}, ares.Run{}
	restored.Phase, restored.Attempts = ares.Running, []ares.Attempt{{Number: 1, Seats: []ares.SeatStatus{{Seat: ares.Seat{Node: "a"}, State: ares.SeatClaimed}}}}
	if _, err := restored.Restore(job, dawn); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		attempt *ares.Attempt
		want    map[string]NodeOutcome
	}{
		"lost":           {gangOf(lost, rank(0, 0, ares.OutcomeStopped)), map[string]NodeOutcome{"a": OutcomeFaulted}},
		"its own":        {gangOf(rank(0, 1, ares.OutcomeFailed), rank(0, 0, ares.OutcomeStopped)), map[string]NodeOutcome{"a": OutcomeFailed}},
		"not started":    {gangOf(rank(0, 0, ares.OutcomeSpawnError)), map[string]NodeOutcome{"a": OutcomeFailed}},
		"at its limit":   {gangOf(rank(0, 1, ares.OutcomeTimeout)), map[string]NodeOutcome{"a": OutcomeWell}},
		"preempted":      {gangOf(rank(0, 1, ares.OutcomeStopped)), map[string]NodeOutcome{}},
		"after a backup": {&restored.Attempts[0], map[string]NodeOutcome{}},
	} {
		got := map[string]NodeOutcome{}
		for _, e := range EndsOfAttempt(job, c.attempt, 0, noSkew) {
			got[e.Node] = e.Outcome
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	one := gangOf(rank(0, time.Hour, ares.OutcomeSucceeded))
	if e := EndsOfAttempt(job, one, time.Hour, noSkew); !e[0].Timed || e[0].Log < 990 || e[0].Log > 1010 {
		t.Errorf("two hours instead of one: %+v", e)
	}
}

// TestScoresContinue compares restored scores with scores that were never saved. Both must give the same results.
// All scores must stay within their bounds.
func TestScoresContinue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		whole, parted := NewScores(), NewScores()
		now := dawn
		for range rapid.IntRange(1, 60).Draw(t, "ends") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
			e := End{
				Node: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"), At: now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "late")) * time.Minute),
				Family: uint64(rapid.IntRange(1, 12).Draw(t, "family")), Outcome: NodeOutcome(rapid.IntRange(0, 2).Draw(t, "how")),
				Timed: rapid.Bool().Draw(t, "timed"), Log: int64(rapid.IntRange(-3000, 3000).Draw(t, "log")),
				Gang: rapid.Bool().Draw(t, "gang"), Last: rapid.Bool().Draw(t, "last"),
			}
			whole.Observe(&e)
			parted.Observe(&e)
			for _, r := range whole.Compute(now) {
				if r.Score < 0 || r.Score > ares.FullScore || r.Samples < r.Failures+r.Own-60 || r.Gangs < r.Stragglers-60 { // each score is rounded separately
					t.Fatalf("%+v", r)
				}
				if (r.Score == ares.FullScore) != (r.Why == "") && r.Score < ares.FullScore-1 {
					t.Fatalf("%d for %q", r.Score, r.Why)
				}
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				next := NewScores()
				for _, st := range parted.nodes {
					next.Restore(st.sums)
				}
				parted = next
			}
		}
		if a, b := whole.Compute(now), parted.Compute(now); !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v\n%+v", a, b)
		}
	})
}
