package predict

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/forecast"
	"github.com/ares-scheduler/ares/sim"
)

// The type `past` is one finished run of a history.
type past struct {
	at      time.Duration // when it was submitted; it starts immediately
	took    time.Duration
	outcome forecast.Outcome
	ask     forecast.Features
	limit   time.Duration // the time limit that its user would set
	job     string        // the same for all runs of one job
}

// commonLimits lists the time limits that users typically choose.
var commonLimits = []time.Duration{
	time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 96 * time.Hour,
	7 * 24 * time.Hour, 14 * 24 * time.Hour, 30 * 24 * time.Hour, 60 * 24 * time.Hour,
}

// limitFor returns the smallest common limit that is at least d.
func limitFor(d time.Duration) time.Duration {
	for _, l := range commonLimits {
		if l >= d {
			return l
		}
	}
	return commonLimits[len(commonLimits)-1]
}

// `philly` reads the Philly trace, which has no users, job names or time
// limits. For the comparison, each run gets the smallest common time limit that
// is at least twice its runtime. The predictor does not see this limit, because
// it is derived from the actual runtime.
func philly() ([]past, error) {
	dir := os.Getenv("ARES_TRACES")
	if dir == "" {
		return nil, errors.New("set ARES_TRACES to the folder with philly/philly.csv")
	}
	f, err := os.Open(filepath.Join(dir, "philly", "philly.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	trace, err := sim.Read("philly", f)
	if err != nil {
		return nil, err
	}
	out := make([]past, 0, len(trace.Arrivals))
	for i := range trace.Arrivals {
		a := &trace.Arrivals[i]
		ask := forecast.FeaturesOf(&ares.Job{Spec: a.Spec})
		out = append(out, past{at: a.At, took: a.Runs, outcome: forecast.Ended, ask: ask, limit: limitFor(2 * a.Runs), job: ask.Tenant + "/" + strconv.Itoa(ask.Milli)})
	}
	return out, nil
}

// sweepGap is the longest time between two submissions of a sweep.
const sweepGap = time.Minute

// `sweeps` gives names to the runs of the Philly trace. Jobs of the same virtual cluster with the same number
// of GPUs that are submitted at most a minute apart get the same name. The rule uses only what is known at a
// submission. Such jobs are similar: the logarithms of the runtimes of two consecutive ones differ by a
// standard deviation of 0.4 to 0.7, times √2, instead of 2.2 for two jobs of the virtual cluster.
func sweeps(h []past) []past {
	out := slices.Clone(h)
	slices.SortStableFunc(out, func(a, b past) int { return cmp.Compare(a.at, b.at) })
	last, names := map[string]time.Duration{}, map[string]string{}
	for i := range out {
		p := &out[i]
		group := p.job
		if at, ok := last[group]; !ok || p.at-at > sweepGap {
			names[group] = letters(i)
		}
		last[group] = p.at
		p.ask.Name = names[group]
		p.job = group + "/" + p.ask.Name
	}
	return out
}

// `letters` returns a name without digits, because the forecaster removes digits from names.
func letters(n int) string {
	return strings.Map(func(r rune) rune { return r - '0' + 'a' }, strconv.Itoa(n))
}

// This function returns a synthetic history of runs. Each user of a few tenants
// has a handful of experiments. Users submit their experiments repeatedly, in
// sweeps of up to twenty jobs with numbered names. Each experiment has its own
// typical runtime, from two minutes to two days. Runtimes vary around the
// typical runtime, which occasionally changes permanently. New experiments
// appear all the time. One run in ten fails in its first minutes, and one in
// thirty is cancelled. Users set a limit of two to eight times their own
// estimate. A run that exceeds its limit is killed.
func generated(seed uint64, jobs int) []past {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	h := &history{rng: rng}
	for i := range 40 {
		h.users = append(h.users, fmt.Sprintf("user%c%c", 'a'+i/8, 'a'+i%8))
		h.tenants = append(h.tenants, fmt.Sprintf("tenant%c", 'a'+i%6))
		h.experiments = append(h.experiments, []*experiment{h.invent(i)})
	}
	gap := 60 * 24 * time.Hour / time.Duration(jobs)
	at := time.Duration(0)
	var out []past
	for len(out) < jobs {
		u := min(int(math.Floor(math.Pow(rng.Float64(), 2)*40)), 39) // some users submit more than others
		if rng.Float64() < 0.05 {
			h.experiments[u] = append(h.experiments[u], h.invent(u))
		}
		own := h.experiments[u]
		e := own[len(own)-1-min(int(rng.ExpFloat64()), len(own)-1)] // mostly the newest experiment
		n := 1
		if rng.Float64() < 0.3 {
			n = 2 + rng.IntN(19)
		}
		for range n {
			out = append(out, h.run(u, e, at))
			at += time.Duration(rng.Float64() * float64(10*time.Second))
		}
		at += time.Duration(rng.ExpFloat64() * float64(gap) * float64(n))
	}
	slices.SortStableFunc(out, func(a, b past) int { return cmp.Compare(a.at, b.at) })
	return out
}

type history struct {
	rng            *rand.Rand
	users, tenants []string
	experiments    [][]*experiment
	count          int
}

type experiment struct {
	name, image string
	gpus        int
	middle      float64 // median of its runtime, in seconds
	scatter     float64 // in natural logarithms
	limit       time.Duration
	tries       int
}

var words = []string{"train", "eval", "tune", "resnet", "bert", "llama", "vit", "sweep", "ablate", "distill", "embed", "rank"}

func (h *history) invent(int) *experiment {
	r := h.rng
	h.count++
	e := &experiment{
		name: fmt.Sprintf("%s-%s-%c%c", words[r.IntN(len(words))], words[r.IntN(len(words))], 'a'+h.count%26, 'a'+h.count/26%26),
		gpus: 1 << r.IntN(4), image: fmt.Sprintf("repo/%s:v1", words[r.IntN(len(words))]),
		middle: 120 * math.Exp2(r.Float64()*math.Log2(2*24*3600/120)), scatter: 0.1 + 0.7*r.Float64(),
	}
	e.limit = limitFor(time.Duration(e.middle * (2 + 6*r.Float64()) * float64(time.Second)))
	return e
}

func (h *history) run(user int, e *experiment, at time.Duration) past {
	r := h.rng
	e.tries++
	if r.Float64() < 0.01 { // another dataset, or a faster machine
		e.middle *= math.Exp(r.NormFloat64())
		e.limit = max(e.limit, limitFor(time.Duration(1.5*e.middle*float64(time.Second))))
	}
	took := time.Duration(e.middle * math.Exp(e.scatter*r.NormFloat64()) * float64(time.Second))
	if r.Float64() < 0.1 {
		took = time.Duration((5 + 300*r.Float64()) * float64(time.Second))
	}
	p := past{at: at, took: took, outcome: forecast.Ended, limit: e.limit}
	if p.took > e.limit {
		p.took, p.outcome = e.limit, forecast.Limited
	} else if r.Float64() < 1.0/30 {
		p.took, p.outcome = time.Duration(r.Float64()*float64(took)), forecast.Cut
	}
	p.ask = forecast.FeaturesOf(&ares.Job{Owner: h.users[user], Spec: ares.Spec{
		Tenant: h.tenants[user], Name: fmt.Sprintf("%s-%03d", e.name, e.tries), Image: e.image, GPUs: e.gpus, GPUModel: "h100",
		Command: []string{"python", e.name + ".py", "--seed", fmt.Sprint(e.tries)}, MaxRuntimeMinutes: int(e.limit / time.Minute),
	}})
	p.job = h.users[user] + "/" + e.name
	return p
}
