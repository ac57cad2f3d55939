package summary_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/enginetest"
	"github.com/ares-scheduler/ares/federation/summary"
)

// TestOf checks each part of the summary of a small cluster.
func TestOf(t *testing.T) {
	t.Parallel()
	w := enginetest.NewCluster()
	for i, model := range []string{"H100", "H100", "H100", "T4"} {
		n := ares.Node{ID: fmt.Sprint("n", i), CPUs: 64, MemoryMB: 1024, Labels: map[string]string{"leaf": fmt.Sprint("r", i/2), "pool": "a"}}
		for g := range 4 {
			n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprint(i, "-", g), Index: g, Type: "gpu", Model: model, MemoryMB: 80_000, Healthy: true, Celsius: 40 + i})
		}
		w.AddNode(n)
	}
	w.PutEvents(ares.Event{Cordon: &ares.Cordon{Node: "n1"}})
	w.Submit("whole", ares.Spec{GPUs: 3, CPUs: 8, GPUModel: "H100"})
	w.Submit("part", ares.Spec{GPUMilli: 400, CPUs: 8, GPUModel: "T4"})
	if _, err := w.DecideUntilStable(); err != nil {
		t.Fatal(err)
	}
	w.Submit("large", ares.Spec{Members: 2, GPUs: 8})
	got := summary.Of(w.State, &summary.Terms{PriceMicros: map[string]int64{"": 1, "h100": 5}, RuntimeMilli: map[string]int{"t4": 4000}, EgressMicros: 7}, w.Now)

	free := map[string]int{}
	for _, s := range got.Shapes {
		free[fmt.Sprintf("%s %d+%d", s.Model, s.Free.Devices, s.PartMilli)] += s.Count
	}
	if want := map[string]int{"H100 0+0": 1, "H100 1+0": 1, "H100 4+0": 1, "T4 3+593": 1}; !reflect.DeepEqual(free, want) { // 19/32 of a device
		t.Errorf("shapes %v, want %v", free, want)
	}
	if m, _ := got.Model("H100"); m != (summary.Model{Name: "H100", Devices: 12, Free: 5, FreeInLeaf: m.FreeInLeaf, InLeaf: 8, PriceMicros: 5, RuntimeMilli: 1000}) || m.FreeInLeaf < 1 || m.FreeInLeaf > 4 {
		t.Errorf("%+v", m)
	}
	if m, _ := got.Model("T4"); m.PriceMicros != 1 || m.RuntimeMilli != 4000 {
		t.Errorf("%+v", m)
	}
	if c := got.Class(ares.Normal); c.Waiting != 1 || c.WaitingGPUMilli != 16_000 {
		t.Errorf("%+v", c)
	}
	if len(got.Tenants) != 1 || got.Tenants[0].GPUMilli != 3400 || got.Tenants[0].CPUs != 16 {
		t.Errorf("%+v", got.Tenants)
	}
	if !got.MayHaveLabel("pool", "a") || got.MayHaveLabel("pool", "b") || got.Celsius != 43 || got.EgressMicros != 7 {
		t.Errorf("%+v", got)
	}
	data, err := got.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := summary.Decode(data); err != nil || !reflect.DeepEqual(back, got) {
		t.Errorf("decoded %+v (%v), want %+v", back, err, got)
	}
}

// TestWaiting checks what a summary says of the jobs that wait: only of those that could start now.
func TestWaiting(t *testing.T) {
	t.Parallel()
	w := enginetest.NewCluster()
	w.Submit("first", ares.Spec{GPUs: 2})
	w.Submit("gang", ares.Spec{Members: 2, GPUs: 4})
	w.Submit("part", ares.Spec{GPUMilli: 500})
	w.Submit("cpus", ares.Spec{CPUs: 4})
	w.Submit("after", ares.Spec{GPUs: 16, After: []string{"first"}})
	w.Submit("tomorrow", ares.Spec{GPUs: 16, Start: &ares.StartConditions{Begin: w.Now.Add(24 * time.Hour)}})
	w.Submit("dependent", ares.Spec{GPUs: 16, Start: &ares.StartConditions{Dependencies: []ares.Dependency{{Type: ares.AfterAny, Job: "first"}}}})
	got := summary.Of(w.State, &summary.Terms{}, w.Now)
	if len(got.Tenants) != 1 {
		t.Fatalf("%+v", got.Tenants)
	}
	first, _ := w.State.Job("first")
	if u := got.Tenants[0]; u.GPUMilli != 0 || u.WaitingMilli != 10_500 || u.LargestMilli != 8000 || !u.Since.Equal(first.AcceptedAt.Truncate(time.Second)) {
		t.Errorf("%+v, and the first job was accepted at %v", u, first.AcceptedAt)
	}
}

// TestSize checks that the summary of a large cluster with many tenants and long names has at most 32 KiB.
func TestSize(t *testing.T) {
	t.Parallel()
	s := &summary.Summary{At: time.Unix(1e9, 0).UTC()}
	for i := range summary.MaxShapes {
		s.Shapes = append(s.Shapes, summary.Shape{Type: summary.Type{Model: strings.Repeat("m", 200) + fmt.Sprint(i), Devices: 8}, Count: 1})
	}
	for i := range summary.MaxLabels {
		s.Labels = append(s.Labels, summary.Label{Key: strings.Repeat("k", 40), Value: fmt.Sprint(i), Nodes: 1})
	}
	for i := range summary.MaxTenants {
		s.Tenants = append(s.Tenants, summary.TenantUse{Tenant: strings.Repeat("t", 60) + fmt.Sprint(i), GPUMilli: 1})
	}
	data, err := s.Encode()
	if err != nil || len(data) > summary.MaxBytes {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	back, err := summary.Decode(data)
	if err != nil || len(back.Shapes) != summary.MaxShapes || !back.MayHaveLabel("any", "label") || len(back.Tenants) == 0 {
		t.Errorf("%d shapes, %d tenants, %v", len(back.Shapes), len(back.Tenants), err)
	}
}

// TestDecodeRejectsNonsense checks that the hub accepts no impossible amounts.
func TestDecodeRejectsNonsense(t *testing.T) {
	t.Parallel()
	good := summary.Shape{Type: summary.Type{Model: "m", Devices: 8, CPUs: 64, MemoryMB: 100}, Free: summary.Free{Devices: 1}, Count: 1}
	for name, change := range map[string]func(s *summary.Summary){
		"free":     func(s *summary.Summary) { s.Shapes[0].Free.Devices = 9 },
		"negative": func(s *summary.Summary) { s.Shapes[0].Free.CPUs = -1 },
		"part":     func(s *summary.Summary) { s.Shapes[0].PartMilli = 1000 },
		"count":    func(s *summary.Summary) { s.Shapes[0].Count = 1 << 30 },
		"devices":  func(s *summary.Summary) { s.Shapes[0].Type.Devices = 1000 },
		"price":    func(s *summary.Summary) { s.Models = []summary.Model{{Name: "m", PriceMicros: -1}} },
		"class":    func(s *summary.Summary) { s.Classes = []summary.Class{{Name: "urgent"}} },
		"egress":   func(s *summary.Summary) { s.EgressMicros = 1 << 60 },
		"tenant":   func(s *summary.Summary) { s.Tenants = []summary.TenantUse{{Tenant: "a", CPUs: -5}} },
		"shapes": func(s *summary.Summary) {
			for range summary.MaxShapes {
				s.Shapes = append(s.Shapes, good)
			}
		},
	} {
		s := &summary.Summary{Shapes: []summary.Shape{good}}
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := summary.Decode(data); err != nil {
			t.Fatalf("the unchanged summary: %v", err)
		}
		change(s)
		if data, err = s.Encode(); err != nil {
			t.Fatal(err)
		}
		if _, err := summary.Decode(data); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := summary.Decode(make([]byte, summary.MaxBytes+1)); err == nil {
		t.Error("a summary that is too large was accepted")
	}
}

// TestWithTerms checks that an administrator's prices replace those of the cluster, for the models that they name.
func TestWithTerms(t *testing.T) {
	t.Parallel()
	s := &summary.Summary{Models: []summary.Model{{Name: "A100", PriceMicros: 1}, {Name: "NVIDIA H100 80GB", PriceMicros: 2}}}
	got := s.WithTerms(&summary.Terms{PriceMicros: map[string]int64{"h100": 2_500_000}})
	if got.Models[0].PriceMicros != 1 || got.Models[1].PriceMicros != 2_500_000 || s.Models[1].PriceMicros != 2 {
		t.Errorf("got %+v of %+v", got.Models, s.Models)
	}
}
