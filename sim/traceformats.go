package sim

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The function `openb` reads a pod of Alibaba's trace of 2023. CPUs are in thousandths of cores,
// both for pods and for nodes.
func openb(r *row) (Arrival, rowUse) {
	a := Arrival{ID: r.text("name"), Spec: ares.Spec{
		Name: r.text("name"), CPUs: r.number("cpu_milli"), MemoryMB: r.number("memory_mib"), GPUModel: r.text("gpu_spec"),
	}}
	gpus, milli := r.number("num_gpu"), r.number("gpu_milli")
	switch {
	case milli > 1000 || gpus > ares.MaxGPUsPerMember:
		r.wrong("gpu_milli", "a share of a GPU")
	case gpus > 1 && milli < 1000:
		r.wrong("gpu_milli", fmt.Sprintf("1000, and num_gpu is %d: only one GPU can be shared", gpus))
	case gpus == 1 && milli > 0 && milli < 1000:
		a.Spec.GPUMilli = milli
	default:
		a.Spec.GPUs = gpus
	}
	if r.text("creation_time") != "" {
		a.At = r.seconds("creation_time")
	}
	if end := r.text("deletion_time"); end != "" {
		if a.Runs = r.seconds("deletion_time") - a.At; a.Runs < 0 {
			r.wrong("deletion_time", fmt.Sprintf("after creation_time %q", r.text("creation_time")))
		}
	}
	return a, rowJob
}

// The function `philly` reads a job of Microsoft's trace of 2017. A virtual cluster becomes a
// tenant.
func philly(r *row) (Arrival, rowUse) {
	a := Arrival{
		At: r.at("timestamp", "2006-01-02 15:04:05"), Runs: r.seconds("duration"),
		Spec: ares.Spec{Tenant: r.text("cluster"), GPUs: r.number("num_gpus")},
	}
	return a, jobUnless(a.Spec.GPUs == 0 || a.Runs == 0)
}

// This function reads a job with a deadline.
func deadline(r *row) (Arrival, rowUse) {
	a := Arrival{
		ID: r.text("job_id"), At: r.seconds("submit_time"), Runs: r.seconds("duration"),
		Spec: ares.Spec{Name: r.text("job_id"), Tenant: r.text("user"), GPUs: r.number("num_gpu")},
	}
	if within := r.seconds("expect_time_list"); within > 0 && r.text("best_effort") != "1" {
		a.Spec.Deadline = time.Unix(0, 0).UTC().Add(a.At + within)
	}
	return a, jobUnless(a.Spec.GPUs == 0 || a.Runs == 0)
}

// The function `slurm` reads a line of `sacct -p`. Job steps and jobs that never ran are not
// scheduled.
func slurm(r *row) (Arrival, rowUse) {
	if strings.Contains(r.text("JobID"), ".") {
		return Arrival{}, rowStep
	}
	a := Arrival{
		ID: r.text("JobID"), At: r.at("Submit", "2006-01-02T15:04:05"), Runs: time.Duration(r.number("ElapsedRaw")) * time.Second,
		Owner: r.text("User"),
		Spec:  ares.Spec{Name: r.text("JobName"), Tenant: r.text("Account"), Queue: r.text("Partition")},
	}
	if limit := r.text("TimelimitRaw"); limit != "" && limit != "UNLIMITED" && limit != "Partition_Limit" {
		a.Spec.MaxRuntimeMinutes = r.number("TimelimitRaw")
	}
	if a.Runs == 0 {
		return a, rowIdle
	}
	nodes := 1
	if r.text("NNodes") != "" {
		if nodes = r.number("NNodes"); nodes < 1 {
			r.wrong("NNodes", "at least 1, and the job ran")
			nodes = 1
		}
	}
	gpus, cpus, memory := tres(r, &a.Spec.GPUModel)
	if gpus%nodes != 0 {
		r.wrong("AllocTRES", fmt.Sprintf("evenly spread over %d nodes", nodes))
	}
	a.Spec.GPUs, a.Spec.CPUs, a.Spec.MemoryMB = gpus/nodes, (cpus+nodes-1)/nodes, (memory+nodes-1)/nodes
	if nodes > 1 {
		a.Spec.Members = nodes
	}
	return a, rowJob
}

// The function `tres` reads the resources that Slurm allocated to a job:
// cpu=8,mem=64G,node=1,gres/gpu=2. If GPUs are listed only by type, such as gres/gpu:a100=2, tres
// adds them up. If all GPUs have one type, the type becomes the model.
func tres(r *row, model *string) (gpus, cpus, memory int) {
	typed, types, named := 0, 0, ""
	for part := range strings.SplitSeq(r.text("AllocTRES"), ",") {
		name, value, _ := strings.Cut(part, "=")
		kind, of, _ := strings.Cut(name, ":")
		switch kind {
		case "cpu", "gres/gpu":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > maxFigure {
				r.wrong("AllocTRES", "a list such as cpu=8,mem=64G,gres/gpu=2")
			}
			switch name {
			case "cpu":
				cpus = n
			case "gres/gpu":
				gpus = n
			default:
				typed, types, named = typed+n, types+1, of
			}
		case "mem":
			memory = megabytes(r, value)
		}
	}
	gpus = cmp.Or(gpus, typed)
	if types == 1 && typed == gpus {
		*model = named
	}
	return gpus, cpus, memory
}

func megabytes(r *row, value string) int {
	if value == "" {
		return 0
	}
	unit := map[byte]float64{'K': 1.0 / 1024, 'M': 1, 'G': 1 << 10, 'T': 1 << 20}[value[len(value)-1]]
	n, err := strconv.ParseFloat(strings.TrimRight(value, "KMGT"), 64)
	if err != nil || !(n >= 0 && n*unit <= maxFigure) || unit == 0 {
		r.wrong("AllocTRES", "a list such as cpu=8,mem=64G,gres/gpu=2")
	}
	return int(n * unit)
}
