package annotations

import (
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
)

func TestGPUs(t *testing.T) {
	for _, c := range []struct {
		name                      string
		count, perPod, pods, want int
		wrong                     string
	}{
		{"no annotation: the limits count", 0, 4, 3, 4, ""},
		{"neither annotation nor limits", 0, 0, 3, 0, ""},
		{"one pod", 8, 8, 1, 8, ""},
		{"the workload's total", 16, 4, 4, 4, ""},
		{"one pod's share", 4, 4, 4, 4, ""},
		{"total without limits", 16, 0, 4, 4, ""},
		{"total without limits and pods", 8, 0, 0, 8, ""},
		{"indivisible", 10, 0, 4, 0, `10 GPUs cannot be divided among 4 pods: write "8" or "12", or set the GPU limit of one pod`},
		{"fewer GPUs than pods", 2, 0, 4, 0, `2 GPUs cannot be divided among 4 pods: write "4", or set the GPU limit of one pod`},
		{"against the limits of one pod", 8, 4, 1, 0, `"8" differs from the GPU limits of the pod, which are 4: write "4", or change the limits`},
		{"against the limits of four pods", 8, 4, 4, 0, `"8" agrees neither with the GPU limits of one pod, which are 4, nor with those of all 4 pods: write "4" or "16", or change the limits`},
		{"less than one pod's limits", 2, 4, 2, 0, `agrees neither`},
	} {
		got, err := GPUs(Request{GPUs: c.count}, c.perPod, c.pods)
		if got != c.want || (err == nil) != (c.wrong == "") {
			t.Errorf("%s: GPUs = %d, %v, want %d", c.name, got, err, c.want)
		}
		if err != nil && (!strings.Contains(err.Error(), GPUCount+": ") || !strings.Contains(err.Error(), c.wrong) || ares.CodeOf(err) != ares.Invalid) {
			t.Errorf("%s: got %q, want %q", c.name, err, c.wrong)
		}
	}
}
