package sim

// bucketSeries stores fairness over time in buckets of equal width. The width doubles when there would be too many
// buckets. A simulation of any length therefore gives a plot of a few hundred points.
type bucketSeries struct {
	width  float64 // seconds
	points []bucket
}

// maxBuckets is the largest number of buckets.
const maxBuckets = 512

// An interval shorter than this number of seconds counts as empty.
const tiny = 1e-9

// A `bucket` sums up the fairness samples in one interval. Each sample is multiplied by its duration in seconds.
type bucket struct {
	secs           float64
	jain, attained float64
	gaps           float64 // percent, multiplied by seconds
	gap            float64 // the largest
}

func (t *bucket) add(g *fairnessSample, secs float64) {
	t.secs += secs
	t.jain += g.jain * secs
	t.attained += g.attained * secs
	t.gaps += g.gap * secs
	t.gap = max(t.gap, g.gap)
}

func (t *bucket) mean() FairPoint {
	if t.secs < tiny {
		return FairPoint{Jain: 1, Attained: 1}
	}
	return FairPoint{Jain: t.jain / t.secs, Attained: t.attained / t.secs, Gap: t.gap}
}

// This method records a fairness sample. The sample applies from the given time on, for the given number of
// seconds.
func (s *bucketSeries) add(g *fairnessSample, from, secs float64) {
	if s.width == 0 {
		s.width = 1
	}
	for from+secs > s.width*maxBuckets {
		s.widen()
	}
	for secs > 0 {
		at := int(from / s.width)
		for len(s.points) <= at {
			s.points = append(s.points, bucket{})
		}
		part := min(secs, float64(at+1)*s.width-from)
		if part <= 0 { // a rounding error
			return
		}
		s.points[at].add(g, part)
		from, secs = from+part, secs-part
	}
}

// This method merges each pair of neighbouring buckets into one.
func (s *bucketSeries) widen() {
	s.width *= 2
	half := s.points[:0]
	for i := 0; i < len(s.points); i += 2 {
		t := s.points[i]
		if i+1 < len(s.points) {
			u := s.points[i+1]
			t.secs += u.secs
			t.jain += u.jain
			t.attained += u.attained
			t.gaps += u.gaps
			t.gap = max(t.gap, u.gap)
		}
		half = append(half, t)
	}
	s.points = half
}

func (s *bucketSeries) report() []FairPoint {
	out := make([]FairPoint, len(s.points))
	for i := range s.points {
		out[i] = s.points[i].mean()
		out[i].At = float64(i) * s.width
	}
	return out
}
