package openb

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ares-scheduler/ares/sim"
)

// DrawVariant draws a list of pods by seed. DrawVariant starts from the pods of the default variant and builds the
// list in the way in which the authors built their variants. Of the authors' own lists of these variants, none is
// read: they are for judging results.
//
// The variant "gpuspec33" lets a third of the GPU pods name the models that they accept. The variant "multigpu40" adds
// pods with 2, 4 or 8 GPUs until such pods request 40 % of the requested GPUs.
func DrawVariant(variant string, seed int) (*Openb, error) {
	o, err := Read("default")
	if err != nil {
		return nil, err
	}
	o.variant = fmt.Sprintf("%s-drawn%d", variant, seed)
	from := rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // not for security
	switch variant {
	case "gpuspec33":
		typed, err := Read("gpuspec10")
		if err != nil {
			return nil, err
		}
		return o, o.nameModels(typed.Trace, 33, from)
	case "multigpu40":
		o.addMultiGPU(40, from)
		return o, nil
	}
	return nil, fmt.Errorf("no rule for drawing the variant %q: use gpuspec33 or multigpu40", variant)
}

// podKind is the request of a pod without its models.
type podKind struct{ gpus, milli, cpus, memory int }

func kindOf(a *sim.Arrival) podKind {
	return podKind{a.Spec.GPUs, a.Spec.GPUMilli, a.Spec.CPUs, a.Spec.MemoryMB}
}

func (k podKind) needsGPU() bool { return k.gpus+k.milli > 0 }

// The method `nameModels` lets a percentage of the GPU pods name models. The trace `like` shows which kinds of pods name
// models how often, and which models. Each pod draws a pod of its own kind from that trace. The probability of each
// kind is scaled so that the expected percentage is met.
func (o *Openb) nameModels(like *sim.Trace, percent int, from *rand.Rand) error {
	names, pods := map[podKind][]string{}, map[podKind]int{}
	total := 0
	for i := range like.Arrivals {
		a := &like.Arrivals[i]
		k := kindOf(a)
		if !k.needsGPU() {
			continue
		}
		total++
		pods[k]++
		if a.Spec.GPUModel != "" {
			names[k] = append(names[k], a.Spec.GPUModel)
		}
	}
	// A kind whose pods already all name models cannot name more of them. So the scale is found by bisection.
	low, high := 0.0, 1000.0
	for range 60 {
		scale, expected := (low+high)/2, 0.0
		for k, n := range pods {
			expected += min(scale*float64(len(names[k])), float64(n))
		}
		if 100*expected < float64(percent*total) {
			low = scale
		} else {
			high = scale
		}
	}
	if high >= 1000 {
		return errors.New("too few kinds of pods name models: the percentage cannot be met")
	}
	for i := range o.Trace.Arrivals {
		a := &o.Trace.Arrivals[i]
		k := kindOf(a)
		if some := names[k]; len(some) > 0 && from.Float64()*float64(pods[k]) < low*float64(len(some)) {
			a.Spec.GPUModel = some[from.IntN(len(some))]
		}
	}
	return nil
}

// The method `addMultiGPU` appends copies of random pods with more than one GPU until such pods request a percentage
// of the requested GPUs.
func (o *Openb) addMultiGPU(percent int, from *rand.Rand) {
	var multi []int
	many, all, last := 0, 0, 0
	for i := range o.Trace.Arrivals {
		a := &o.Trace.Arrivals[i]
		all += 1000*a.Spec.GPUs + a.Spec.GPUMilli
		last = max(last, a.Line)
		if a.Spec.GPUs > 1 {
			multi = append(multi, i)
			many += 1000 * a.Spec.GPUs
		}
	}
	for 100*many < percent*all {
		a := o.Trace.Arrivals[multi[from.IntN(len(multi))]]
		last++
		a.Line = last
		a.ID = fmt.Sprintf("openb-pod-%04d", last-2)
		a.Spec.Name = a.ID
		o.Trace.Arrivals = append(o.Trace.Arrivals, a)
		many, all = many+1000*a.Spec.GPUs, all+1000*a.Spec.GPUs
	}
}
