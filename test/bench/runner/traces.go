package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The simulations of real traces read their files from the directory in ARES_TRACES. For their tiny form, this file
// writes a directory with generated traces in the same formats, so that the readers run too.

// The names that the benchmarks expect: variants and policies of openb, virtual clusters of Philly.
var (
	openbVariants = []string{"default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"}
	openbPolicies = []string{"Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD"}
	phillyPools   = []string{"6214e9", "b436b2", "ee9e8c", "7f04ca", "6c71a0", "0e4a51", "11cb48", "e13805", "2869ce", "ed69ec", "103959"}
)

const (
	openbNodes   = 40
	openbPods    = 300
	phillyJobs   = 440
	deadlineJobs = 200
)

// writeTraces writes the generated traces into a new directory.
func writeTraces(dir string) error {
	files := map[string]string{
		"philly/philly.csv":                          phillyTrace(),
		"philly/philly_deadlines.csv":                deadlineTrace(),
		"openb/openb_node_list_gpu_node.csv":         openbNodeList(),
		"openb/published/analysis_allo_discrete.csv": openbPublished(),
	}
	for i, variant := range openbVariants {
		files["openb/openb_pod_list_"+variant+".csv"] = openbPodList(uint64(i))
	}
	for name, text := range files { // order-free: each is a file of its own
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 18)) } //nolint:gosec // the same traces each time

// phillyTrace has jobs of one to sixteen GPUs, which each virtual cluster submits in October and November 2017.
func phillyTrace() string {
	r := random(1)
	text := &strings.Builder{}
	fmt.Fprintln(text, "timestamp,duration,num_gpus,gpu_time,cluster")
	at := time.Date(2017, 10, 1, 0, 0, 0, 0, time.UTC)
	for i := range phillyJobs {
		at = at.Add(time.Duration(r.ExpFloat64() * float64(40*24*time.Hour) / phillyJobs))
		took, gpus := math.Ceil(60*math.Exp(6*r.Float64())), []int{1, 1, 1, 1, 1, 2, 4, 8, 8, 16}[r.IntN(10)]
		fmt.Fprintf(text, "%s,%.1f,%d,%.1f,%s\n", at.Format(time.DateTime), took, gpus, took*float64(gpus), phillyPools[i%len(phillyPools)])
	}
	return text.String()
}

// deadlineTrace has jobs with strict deadlines.
func deadlineTrace() string {
	r := random(2)
	text := &strings.Builder{}
	fmt.Fprintln(text, "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type")
	for i := range deadlineJobs {
		took := 20 + r.IntN(4000)
		fmt.Fprintf(text, "%d,vc_%s,%d,%d,%d,resnet101,%d,6,%d,10,0,strict\n",
			i, phillyPools[i%len(phillyPools)], 1<<r.IntN(4), i*40, took*10, took, took*11/10+r.IntN(4*took))
	}
	return text.String()
}

// openbNodeList has nodes of two models.
func openbNodeList() string {
	text := &strings.Builder{}
	fmt.Fprintln(text, "sn,cpu_milli,memory_mib,gpu,model")
	for i := range openbNodes {
		model, gpus := "V100M32", 8
		if i%4 == 0 {
			model, gpus = "T4", 2
		}
		fmt.Fprintf(text, "openb-node-%04d,96000,393216,%d,%s\n", i, gpus, model)
	}
	return text.String()
}

// openbPodList has pods with parts of a GPU, whole GPUs and no GPU. As in the real trace, there are few kinds of pods.
// Some pods of each kind name a model.
func openbPodList(seed uint64) string {
	r := random(seed)
	text := &strings.Builder{}
	fmt.Fprintln(text, "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time")
	for i := range openbPods {
		gpus, milli := 1, []int{1000, 1000, 500, 250}[r.IntN(4)]
		if kind := r.IntN(34); kind < 4 {
			gpus = []int{0, 2, 4, 8}[kind]
			milli = 1000 * min(gpus, 1)
		}
		spec := ""
		if gpus > 2 || r.IntN(8) == 0 {
			spec = "V100M32"
		}
		fmt.Fprintf(text, "openb-pod-%04d,%d,%d,%d,%d,%s,LS,Running,%d,%d,%d\n", i, 2000+8*milli*max(gpus, 1), 4096*(1+gpus), gpus, milli, spec, i, i+1000, i)
	}
	return text.String()
}

// openbPublished has the form of the authors' results, which are tables of GPUs allocated at loads of 0 to 130 %.
func openbPublished() string {
	text := &strings.Builder{}
	fmt.Fprint(text, "workload,sc_policy,tune,seed,total_gpus")
	for load := range 131 {
		fmt.Fprintf(text, ",%d", load)
	}
	fmt.Fprintln(text)
	for _, variant := range openbVariants {
		for _, policy := range openbPolicies {
			for seed := 42; seed <= 46; seed++ {
				fmt.Fprintf(text, "openb_pod_list_%s,01-%s,1.3,%d,260", variant, policy, seed)
				for load := range 131 {
					fmt.Fprintf(text, ",%d", min(load, 95))
				}
				fmt.Fprintln(text)
			}
		}
	}
	return text.String()
}
