package sim

import (
	"math"
	"strings"
	"testing"
)

func fake(label, trace string, seed uint64, wait float64) Labelled {
	return Labelled{label, &Report{Source: Source{Trace: TraceSource{Name: trace, SHA256: trace}, Seed: seed}, Wait: &Distribution{Mean: wait}, Placed: 5}}
}

// TestCompareByHand compares two policies whose paired runs differ by 1, 2, 3, 4 and 5. The mean of
// these differences is 3, their standard error is sqrt(2.5/5), and Student's t for 4 degrees of
// freedom is 2.776.
func TestCompareByHand(t *testing.T) {
	t.Parallel()
	var runs []Labelled
	for seed := range uint64(5) {
		runs = append(runs, fake("a", "x", seed, 100*float64(seed)), fake("b", "x", seed, 101*float64(seed)+1))
	}
	runs = append(runs, fake("b", "x", 9, 1e9)) // this run has no partner
	c, err := Compare(runs, false)
	if err != nil {
		t.Fatal(err)
	}
	d := c.Figures[0].By[1].Change
	half := 2.776 * math.Sqrt(2.5/5)
	if d.Pairs != 5 || d.Mean != 3 || *d.Low != rounded(3-half) || *d.High != rounded(3+half) || !d.Significant || d.Better || *d.Percent != 1.5 {
		t.Errorf("%+v", d)
	}
	for _, f := range c.Figures {
		if d := f.By[1].Change; f.Name == "placed" && (d.Mean != 0 || d.Significant || d.Better) {
			t.Errorf("no difference is %+v", d)
		}
	}
}

func TestOnePairIsNotSignificant(t *testing.T) {
	t.Parallel()
	c, err := Compare([]Labelled{fake("a", "x", 1, 10), fake("b", "x", 1, 5)}, false)
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Figures[0].By[1].Change; d.Pairs != 1 || d.Mean != -5 || d.Significant || !d.Better || *d.Percent != -50 || d.Low != nil || d.High != nil {
		t.Errorf("%+v", d)
	}
}

// TestMissingFiguresAreNotCompared checks that a run in which no job ended has no completion time.
// A change from 0 must not be expressed as a percentage.
func TestMissingFiguresAreNotCompared(t *testing.T) {
	t.Parallel()
	one, none := fake("a", "x", 1, 0), fake("b", "x", 2, 7)
	none.Report.Wait = nil
	c, err := Compare([]Labelled{one, fake("a", "x", 2, 0), fake("b", "x", 1, 7), none}, false)
	if err != nil {
		t.Fatal(err)
	}
	wait, done := c.Figures[0].By, c.Figures[4].By
	if d := wait[1].Change; *wait[0].Mean != 0 || wait[0].Runs != 2 || *wait[1].Mean != 7 || wait[1].Runs != 1 || d.Pairs != 1 || d.Percent != nil {
		t.Errorf("waiting %+v, %+v", wait, d)
	}
	if done[0].Mean != nil || done[1].Mean != nil || done[1].Change != nil {
		t.Errorf("completion %+v", done)
	}
}

func TestIncomparableRunsAreRejected(t *testing.T) {
	t.Parallel()
	halted, drawn, shorter := fake("b", "x", 1, 5), fake("b", "x", 1, 5), fake("b", "x", 1, 5)
	halted.Report.Source.Halted, drawn.Report.Source.Resample, shorter.Report.Source.Until = true, ResampleDays, 60
	fleet := fake("b", "x", 1, 5)
	fleet.Report.Source.Fleet.SHA256 = "f"
	for why, other := range map[string]Labelled{
		"traces differ": fake("b", "y", 1, 5), "fleets differ": fleet, "interrupted": halted, "and by days": drawn, "one ends with the last job, one after 60 s": shorter,
		"they have no common seed (their seeds are 1 and 2)": fake("b", "x", 2, 5),
		"two runs with seed 1":                               fake("a", "x", 1, 5), "have the same policy": fake("a", "x", 2, 5),
	} {
		if _, err := Compare([]Labelled{fake("a", "x", 1, 10), other}, false); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if _, err := Compare([]Labelled{fake("a", "x", 1, 10), halted}, true); err != nil {
		t.Error(err)
	}
	c, err := Compare([]Labelled{fake("a", "x", 1, 10), fake("a", "x", 2, 10), fake("b", "y", 1, 5)}, true)
	if err != nil {
		t.Fatal(err)
	}
	pairs, first, other := c.Pairs(1)
	if c.Trace != "x (x), y (y)" || c.Fleet != "" || pairs != 1 || first != 2 || other != 1 {
		t.Errorf("%s on %s, %d pairs of %d and %d", c.Trace, c.Fleet, pairs, first, other)
	}
}

func TestStudentTDecreases(t *testing.T) {
	t.Parallel()
	for n := 2; n < 2000; n++ {
		if studentT(n) > studentT(n-1) || studentT(n) < 1.96 {
			t.Fatalf("t of %d is %v", n, studentT(n))
		}
	}
}
