package sim

import (
	"time"
)

// Fairness measures how evenly tenants shared the fleet. The share of a tenant is its dominant share. A tenant's
// fair share is the share that progressive filling would assign to its running and waiting jobs at that time.
// Progressive filling assumes that jobs can be divided and moved freely. Tenants without running or waiting jobs
// are not counted. Fairness is measured after every time step with an event. Means are taken only over the time
// in which two or more tenants had jobs.
type Fairness struct {
	Tenants int `json:"tenants"`
	Moments int `json:"moments"`
	// For the field Jain, each tenant's share is divided by the tenant's weight. Jain is Jain's fairness index
	// of these values. The index is 1 if all these values are equal. A tenant may have a small share only
	// because it requests little. The index is lower than 1 in this case too.
	Jain Index `json:"jain"`
	// Attained is like Jain, but each tenant's share is divided by the tenant's fair share.
	Attained Index `json:"attained"`
	// Gap is the largest amount by which a tenant's share was below its fair share. It is in percent of the
	// fleet.
	Gap       float64 `json:"largest_gap_percent"`
	GapAt     float64 `json:"largest_gap_at_seconds"`
	GapTenant string  `json:"largest_gap_tenant"`
	GapMean   float64 `json:"mean_largest_gap_percent"`

	ByTenant []FairTenant `json:"by_tenant"`
	Series   []FairPoint  `json:"series"`
}

// Index contains the mean and the minimum of a fairness index over time.
type Index struct {
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	MinAt float64 `json:"min_at_seconds"`
}

// FairTenant is the share of a tenant in percent of the fleet. It is averaged over the time in which the tenant
// had jobs.
type FairTenant struct {
	Name    string  `json:"name"`
	Weight  float64 `json:"weight"`
	Seconds float64 `json:"seconds"` // in which it had jobs
	Share   float64 `json:"share_percent"`
	Fair    float64 `json:"fair_share_percent"`
	Gap     float64 `json:"largest_gap_percent"`
}

// FairPoint describes fairness in one interval of time: the mean of each index, and the largest
// gap.
type FairPoint struct {
	At       float64 `json:"at_seconds"` // start of the interval
	Jain     float64 `json:"jain"`
	Attained float64 `json:"attained"`
	Gap      float64 `json:"largest_gap_percent"`
}

// MeasureFairness makes the simulation measure fairness. MeasureFairness must be called before Run.
func (w *World) MeasureFairness() {
	if w.fairness == nil {
		w.fairness = &fairnessMeter{accounting: w.startAccounting(), byName: map[string]*tenantFairness{}}
		w.probes = append(w.probes, func(w *World) { w.fairness.measure(w.now) })
	}
}

// Fairness returns the measured fairness, or nil if MeasureFairness was not called.
func (w *World) Fairness() *Fairness {
	if w.fairness == nil {
		return nil
	}
	return w.fairness.report(w.now)
}

// fairnessMeter measures fairness after every time step. Each fairness sample applies until the
// next sample is taken.
type fairnessMeter struct {
	accounting *accounting
	byName     map[string]*tenantFairness
	last       fairnessSample
	any        bool
	moments    int
	whole      bucket
	series     bucketSeries
	result     Fairness

	wanting []*tenantUsage // scratch
	demands []demand       // scratch
}

// fairnessSample is the fairness at one moment of the simulation.
type fairnessSample struct {
	at             time.Time
	several        bool // at least two tenants have jobs
	jain, attained float64
	gap            float64 // percent
	shares         []tenantShare
}

// tenantShare is one tenant's share at one moment of the simulation, in percent.
type tenantShare struct {
	total       *tenantFairness
	share, fair float64
}

// tenantFairness sums up the shares of a tenant over time.
type tenantFairness struct {
	secs        float64
	share, fair float64 // multiplied by seconds
	gap         float64
}

func (s *fairnessMeter) measure(now time.Time) {
	s.advance(now)
	s.moments++
	s.wanting, s.demands = s.wanting[:0], s.demands[:0]
	for _, p := range s.accounting.tenants {
		if p.wanted != (resources{}) {
			s.wanting = append(s.wanting, p)
			s.demands = append(s.demands, demand{wanted: p.wanted, weight: p.weight, maxFraction: p.maxFraction()})
		}
	}
	g := fairnessSample{at: now, several: len(s.wanting) > 1, jain: 1, attained: 1, shares: s.last.shares[:0]}
	weighted, attained := make([]float64, 0, len(s.wanting)), make([]float64, 0, len(s.wanting))
	for i, fair := range progressiveFilling(s.demands, s.accounting.capacity) {
		p := s.wanting[i]
		share := p.dominantShare(s.accounting.capacity)
		weighted = append(weighted, share/p.weight)
		if fair > 0 {
			attained = append(attained, share/fair)
		}
		s.addTenant(&g, p, 100*share, 100*fair)
	}
	g.jain, g.attained = jain(weighted), jain(attained)
	secs := now.Sub(Epoch).Seconds()
	if g.several {
		s.result.Jain.lower(g.jain, secs, !s.any)
		s.result.Attained.lower(g.attained, secs, !s.any)
		s.any = true
	}
	s.last = g
}

// addTenant adds one tenant's share to a sample.
func (s *fairnessMeter) addTenant(g *fairnessSample, p *tenantUsage, share, fair float64) {
	f := s.byName[p.name]
	if f == nil {
		f = &tenantFairness{}
		s.byName[p.name] = f
	}
	g.shares = append(g.shares, tenantShare{f, share, fair})
	short := fair - share
	f.gap, g.gap = max(f.gap, short), max(g.gap, short)
	if short > s.result.Gap {
		s.result.Gap, s.result.GapAt, s.result.GapTenant = short, g.at.Sub(Epoch).Seconds(), p.name
	}
}

func (i *Index) lower(value, at float64, first bool) {
	if first || value < i.Min {
		i.Min, i.MinAt = value, at
	}
}

// This method adds the last sample to the sums, weighted by the time until now.
func (s *fairnessMeter) advance(now time.Time) {
	secs := now.Sub(s.last.at).Seconds()
	if s.moments == 0 || secs <= 0 {
		return
	}
	for _, f := range s.last.shares {
		f.total.secs += secs
		f.total.share += f.share * secs
		f.total.fair += f.fair * secs
	}
	if s.last.several {
		s.whole.add(&s.last, secs)
	}
	s.series.add(&s.last, s.last.at.Sub(Epoch).Seconds(), secs)
}

// This method adds the last sample to the sums and returns all figures.
func (s *fairnessMeter) report(now time.Time) *Fairness {
	s.advance(now)
	s.last.at = now
	out := s.result
	out.Tenants, out.Moments = len(s.byName), s.moments
	if s.whole.secs < tiny && s.last.several { // no time has passed, so the current value is the mean
		out.Jain.Mean, out.Attained.Mean, out.GapMean = s.last.jain, s.last.attained, s.last.gap
	} else if mean := s.whole.mean(); s.any {
		out.Jain.Mean, out.Attained.Mean = mean.Jain, mean.Attained
		out.GapMean = s.whole.gaps / max(s.whole.secs, tiny)
	} else {
		out.Jain, out.Attained = Index{Mean: 1, Min: 1}, Index{Mean: 1, Min: 1}
	}
	for _, p := range s.accounting.tenants {
		if f := s.byName[p.name]; f != nil {
			share, fair := s.means(f)
			out.ByTenant = append(out.ByTenant, FairTenant{Name: p.name, Weight: p.weight, Seconds: f.secs, Share: share, Fair: fair, Gap: f.gap})
		}
	}
	out.Series = s.series.report()
	return &out
}

// This method returns the mean shares of a tenant over the time in which the tenant had jobs. If that time is
// zero, it returns the current shares.
func (s *fairnessMeter) means(f *tenantFairness) (share, fair float64) {
	if f.secs >= tiny {
		return f.share / f.secs, f.fair / f.secs
	}
	for _, now := range s.last.shares {
		if now.total == f {
			return now.share, now.fair
		}
	}
	return 0, 0
}
