package engine

// explainer answers questions about waiting jobs. It needs the state alone: what it
// supposes, it makes real for a moment, and puts back.
type explainer struct {
	cfg     *Config
	cluster *Cluster
	scorer  *Scorer
	jobs    *jobTable
	windows *calendar
	state   *State
	round   *round
}

func newExplainer(s *State) *explainer {
	return &explainer{cfg: &s.cfg, cluster: s.cluster, scorer: s.scorer, jobs: s.jobs, windows: s.windows, state: s, round: s.round}
}
