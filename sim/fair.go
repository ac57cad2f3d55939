package sim

import (
	"time"
)

// Fairness is how evenly tenants had the fleet. A share is what a tenant holds
// of the fleet, of the resource where that is most. Its fair share is what
// progressive filling would give it at that moment for what it holds and waits
// for, if jobs could be divided and moved at will. Who wants nothing does not
// count. All of it is measured at every moment at which something happened;
// means are over time, while two or more wanted something.
type Fairness struct {
	Tenants int `json:"tenants"`
	Moments int `json:"moments"`
	// Jain is Jain's index of the shares divided by weights: 1 when all have the
	// same. It falls when one wants less than the others, too.
	Jain Index `json:"jain"`
	// Attained is Jain's index of each one's share divided by its fair share.
	Attained Index `json:"attained"`
	// Gap is by how much the share of one tenant was below its fair share at most,
	// in percent of the fleet.
	Gap       float64 `json:"largest_gap_percent"`
	GapAt     float64 `json:"largest_gap_at_seconds"`
	GapTenant string  `json:"largest_gap_tenant"`
	GapMean   float64 `json:"mean_largest_gap_percent"`

	ByTenant []FairTenant `json:"by_tenant"`
	Series   []FairPoint  `json:"series"`
}

// Index is how an index went over time.
type Index struct {
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	MinAt float64 `json:"min_at_seconds"`
}

// FairTenant is a tenant's part, in percent of the fleet and on average over
// the time in which it wanted something.
type FairTenant struct {
	Name    string  `json:"name"`
	Weight  float64 `json:"weight"`
	Seconds float64 `json:"seconds"` // in which it wanted something
	Share   float64 `json:"share_percent"`
	Fair    float64 `json:"fair_share_percent"`
	Gap     float64 `json:"largest_gap_percent"`
}

// FairPoint is a stretch of time: the means of the indexes, and the largest gap.
type FairPoint struct {
	At       float64 `json:"at_seconds"` // where it begins
	Jain     float64 `json:"jain"`
	Attained float64 `json:"attained"`
	Gap      float64 `json:"largest_gap_percent"`
}

// MeasureFairness has the world measure how evenly tenants fare. It is called
// before Run.
func (w *World) MeasureFairness() {
	if w.fair == nil {
		w.fair = &scale{ledger: w.keepLedger(), byName: map[string]*fared{}}
		w.probes = append(w.probes, func(w *World) { w.fair.measure(w.now) })
	}
}

// Fairness is what was measured, nil without MeasureFairness.
func (w *World) Fairness() *Fairness {
	if w.fair == nil {
		return nil
	}
	return w.fair.report(w.now)
}

// scale measures fairness moment by moment. What it sees lasts until the next.
type scale struct {
	ledger  *ledger
	byName  map[string]*fared
	last    glance
	any     bool
	moments int
	whole   stretch
	series  series
	out     Fairness

	at      []*party // scratch
	demands []demand // scratch
}

// glance is one moment.
type glance struct {
	at             time.Time
	several        bool // two or more want something
	jain, attained float64
	gap            float64 // percent
	fares          []fare
}

// fare is how one tenant fares in a moment, in percent.
type fare struct {
	of          *fared
	share, fair float64
}

// fared is how a tenant fared over time.
type fared struct {
	secs        float64
	share, fair float64 // by seconds
	gap         float64
}

func (s *scale) measure(now time.Time) {
	s.pass(now)
	s.moments++
	s.at, s.demands = s.at[:0], s.demands[:0]
	for _, p := range s.ledger.parties {
		if p.wanted != (amounts{}) {
			s.at = append(s.at, p)
			s.demands = append(s.demands, demand{wants: p.wanted, weight: p.weight, most: p.most()})
		}
	}
	g := glance{at: now, several: len(s.at) > 1, jain: 1, attained: 1, fares: s.last.fares[:0]}
	weighted, attained := make([]float64, 0, len(s.at)), make([]float64, 0, len(s.at))
	for i, fair := range fill(s.demands, s.ledger.capacity) {
		p := s.at[i]
		share := p.share(s.ledger.capacity)
		weighted = append(weighted, share/p.weight)
		if fair > 0 {
			attained = append(attained, share/fair)
		}
		s.note(&g, p, 100*share, 100*fair)
	}
	g.jain, g.attained = jain(weighted), jain(attained)
	secs := now.Sub(Epoch).Seconds()
	if g.several {
		s.out.Jain.low(g.jain, secs, !s.any)
		s.out.Attained.low(g.attained, secs, !s.any)
		s.any = true
	}
	s.last = g
}

// note takes one tenant's part in the moment.
func (s *scale) note(g *glance, p *party, share, fair float64) {
	f := s.byName[p.name]
	if f == nil {
		f = &fared{}
		s.byName[p.name] = f
	}
	g.fares = append(g.fares, fare{f, share, fair})
	short := fair - share
	f.gap, g.gap = max(f.gap, short), max(g.gap, short)
	if short > s.out.Gap {
		s.out.Gap, s.out.GapAt, s.out.GapTenant = short, g.at.Sub(Epoch).Seconds(), p.name
	}
}

func (i *Index) low(value, at float64, first bool) {
	if first || value < i.Min {
		i.Min, i.MinAt = value, at
	}
}

// pass lets the last moment last until now.
func (s *scale) pass(now time.Time) {
	secs := now.Sub(s.last.at).Seconds()
	if s.moments == 0 || secs <= 0 {
		return
	}
	for _, f := range s.last.fares {
		f.of.secs += secs
		f.of.share += f.share * secs
		f.of.fair += f.fair * secs
	}
	if s.last.several {
		s.whole.add(&s.last, secs)
	}
	s.series.add(&s.last, s.last.at.Sub(Epoch).Seconds(), secs)
}

// report ends the last moment now.
func (s *scale) report(now time.Time) *Fairness {
	s.pass(now)
	s.last.at = now
	out := s.out
	out.Tenants, out.Moments = len(s.byName), s.moments
	if s.whole.secs < tiny && s.last.several { // no time has passed: what stands now is the mean
		out.Jain.Mean, out.Attained.Mean, out.GapMean = s.last.jain, s.last.attained, s.last.gap
	} else if mean := s.whole.mean(); s.any {
		out.Jain.Mean, out.Attained.Mean = mean.Jain, mean.Attained
		out.GapMean = s.whole.gaps / max(s.whole.secs, tiny)
	} else {
		out.Jain, out.Attained = Index{Mean: 1, Min: 1}, Index{Mean: 1, Min: 1}
	}
	for _, p := range s.ledger.parties {
		if f := s.byName[p.name]; f != nil {
			share, fair := s.means(f)
			out.ByTenant = append(out.ByTenant, FairTenant{Name: p.name, Weight: p.weight, Seconds: f.secs, Share: share, Fair: fair, Gap: f.gap})
		}
	}
	out.Series = s.series.report()
	return &out
}

// means are a tenant's shares over the time in which it wanted something, or
// those of now where that was no time.
func (s *scale) means(f *fared) (share, fair float64) {
	if f.secs >= tiny {
		return f.share / f.secs, f.fair / f.secs
	}
	for _, now := range s.last.fares {
		if now.of == f {
			return now.share, now.fair
		}
	}
	return 0, 0
}
