package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
)

// TestConstraint checks that --constraint can be repeated, and that its node-selection conditions
// are added to those in the job file.
func TestConstraint(t *testing.T) {
	f := &fake{}
	dir := serve(t, f)
	file := write(t, filepath.Join(dir, "job.yaml"), "command: [x]\nplacement:\n  node_requirements:\n  - {key: gpu.memory, operator: \">=\", values: [80G]}\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-f", file}, "gpu.memory>=80G"},
		{[]string{"-f", file, "--constraint", "!spot"}, "gpu.memory>=80G, !spot"},
		{[]string{"--constraint", "gpu.memory>=80G,!spot", "--constraint", "zone in (a,b)", "--", "x"}, "gpu.memory>=80G, !spot, zone in (a, b)"},
	} {
		f.specs = nil
		if code, _, stderr := run(t, append([]string{"job", "submit"}, c.args...)...); code != 0 {
			t.Errorf("%v: exit %d, %s", c.args, code, stderr)
			continue
		}
		if got := apipb.Requirements(f.specs[0].GetPlacement().GetNodeRequirements()).String(); got != c.want {
			t.Errorf("%v sends %s, want %s", c.args, got, c.want)
		}
	}
	for _, command := range []string{"submit", "plan", "predict"} {
		code, _, stderr := run(t, "job", command, "--constraint", "gpu.memory>=lots", "--", "x")
		if want := `--constraint gpu.memory>=lots: gpu.memory>=lots: "lots" is not a number: write it as 8, 1.5T or 80Gi`; code != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", command, code, stderr)
		}
	}
	if code, stdout, _ := run(t, "__complete", "job", "submit", "--constraint", "gpu.mem"); code != 0 || !strings.Contains(stdout, "\ngpu.memory>=\n") {
		t.Errorf("exit %d, completes to %q", code, stdout)
	}
}
