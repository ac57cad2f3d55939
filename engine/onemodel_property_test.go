package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestOneModelPerGang places gangs on clusters with several GPU models, one after the other. For each gang, an oracle
// counts the members that fit, from the records alone. The engine must place exactly that number of members: on one
// model, unless the job allows several models or names them. After each decision, the law "models" checks the devices
// of all placements.
func TestOneModelPerGang(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := enginetest.NewCluster()
		for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
			n := *nodeOf(fmt.Sprintf("n%d", i), rapid.IntRange(1, 4).Draw(t, "gpus"))
			n.Labels = map[string]string{"leaf": pick(t, "leaf", "l0", "l1")}
			model := pick(t, "model", "A100", "H100", "L40S")
			for k := range n.Devices {
				if once(t, 6, "another model") {
					model = pick(t, "model", "A100", "H100", "L40S")
				}
				n.Devices[k].Model = model
			}
			w.AddNode(n)
		}
		for i := range 8 {
			id, spec := ares.JobID(fmt.Sprintf("j%d", i)), drawModelGang(t)
			want := membersThatFit(w, &spec)
			w.Submit(id, spec)
			if _, err := w.DecideUntilStable(); err != nil {
				t.Fatal(err)
			}
			run, _ := w.State.Run(id)
			got := 0
			if run.Current() != nil {
				got = len(run.Current().Seats)
			}
			if got != want {
				t.Fatalf("%+v: %d members were placed, %d fit", spec, got, want)
			}
			if got == 0 { // the next gang is the only one that waits
				w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindRun, ID: string(id)}}, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}})
			}
			if once(t, 3, "over") {
				endGang(w, ares.JobID(fmt.Sprintf("j%d", rapid.IntRange(0, i).Draw(t, "which"))))
			}
		}
	})
}

// drawModelGang returns a random gang.
func drawModelGang(t *rapid.T) ares.Spec {
	s := ares.Spec{
		Members: rapid.IntRange(2, 5).Draw(t, "members"), AllowMixedModels: once(t, 4, "mixed"),
		GPUModel: pick(t, "names", "", "", "", "h100", "h100|l40s"),
	}
	if s.MinMembers = s.Members; once(t, 3, "elastic") {
		s.MinMembers = rapid.IntRange(1, s.Members).Draw(t, "least")
	}
	if s.GPUMilli = pick(t, "share", 0, 0, 300, 500); s.GPUMilli == 0 {
		s.GPUs = rapid.IntRange(1, 2).Draw(t, "gpus of a member")
	}
	s.EditPlacement().RequiredLevel = pick(t, "required", "", "", "leaf", "node")
	s.EditPlacement().Strategy = pick(t, "strategy", "", "consolidated", "distributed")
	return s
}

// membersThatFit returns the largest number of members of a gang that fit, or 0 if it is below the gang's minimum.
func membersThatFit(w *enginetest.Cluster, s *ares.Spec) int {
	taken := map[string]int{} // by device
	for _, run := range w.State.Jobs() {
		if run == nil {
			continue
		}
		for _, a := range run.Attempts {
			for _, h := range a.Seats {
				for _, sh := range h.Shares {
					if !h.State.Free() {
						taken[sh.Device] += sh.Milli
					}
				}
			}
		}
	}
	allowed := [][]string{{"A100"}, {"H100"}, {"L40S"}} // sets of models that the gang may use together
	switch {
	case s.GPUModel != "":
		allowed = [][]string{strings.Split(strings.ToUpper(s.GPUModel), "|")}
	case s.AllowMixedModels:
		allowed = [][]string{{"A100", "H100", "L40S"}}
	}
	most := 0
	for _, models := range allowed {
		byDomain := map[string]int{}
		for n := range w.State.Nodes() {
			whole, shares := 0, 0
			for _, d := range n.Node.Devices {
				if free := 1000 - taken[d.ID]; strings.Contains(strings.Join(models, " "), d.Model) {
					whole += free / 1000
					shares += free / max(s.GPUMilli, 1)
				}
			}
			domain := map[string]string{"leaf": n.Node.Labels["leaf"], "node": n.Node.ID}[s.Placement().RequiredLevel]
			if s.GPUMilli > 0 {
				byDomain[domain] += shares
			} else {
				byDomain[domain] += whole / s.GPUs
			}
		}
		for _, members := range byDomain {
			most = max(most, min(members, s.Members))
		}
	}
	if most < s.MinMembers {
		return 0
	}
	return most
}
