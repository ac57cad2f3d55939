package engine_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestAcrossProcesses checks that the same events lead to the same plans, byte for byte, in another process. In
// another process, maps have a different iteration order.
func TestAcrossProcesses(t *testing.T) {
	if os.Getenv("ARES_TEST_CHILD") != "" {
		printPlans(t)
		return
	}
	var printed [2][]byte
	for i := range printed {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAcrossProcesses$", "-test.v", "-rapid.seed=11", "-rapid.checks=60", "-rapid.steps=40")
		cmd.Env = append(os.Environ(), "ARES_TEST_CHILD=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		printed[i] = regexp.MustCompile(`plans \d+ \w+`).Find(out)
	}
	if printed[0] == nil || !bytes.Equal(printed[0], printed[1]) {
		t.Fatalf("two processes printed %q and %q", printed[0], printed[1])
	}
	t.Logf("%s", printed[0])
}

// printPlans prints how many plans were made in random histories, and a digest of these plans.
func printPlans(t *testing.T) {
	h, n := sha256.New(), 0
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(rapid.StateMachineActions(m))
		if _, err := m.w.DecideUntilStable(); err != nil {
			t.Fatal(err)
		}
		for _, p := range m.w.Plans() {
			fmt.Fprintf(h, "%#v\n", p)
			n++
		}
	})
	fmt.Printf("plans %d %x\n", n, h.Sum(nil))
}

// TestNodeOrderDoesNotMatter checks that the choice between equally good nodes does not depend on the order in
// which the nodes joined.
func TestNodeOrderDoesNotMatter(t *testing.T) {
	small, large := nodeOf("b", 2), nodeOf("d", 4)
	var chosen []string
	for _, nodes := range [][]*ares.Node{{small, large}, {large, small}} {
		w := enginetest.NewCluster()
		for _, n := range nodes {
			w.AddNode(*n)
		}
		w.Submit("j", ares.Spec{})
		plan, err := w.Decide()
		if err != nil || len(plan.Place) != 1 {
			t.Fatalf("%v, %v", plan, err)
		}
		chosen = append(chosen, plan.Place[0].Seats[0].Node)
	}
	if chosen[0] != chosen[1] {
		t.Errorf("the job is placed on %s or %s", chosen[0], chosen[1])
	}
}
