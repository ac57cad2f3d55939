package forecast

import "fmt"

// The method `words` returns a text that describes the runs on which a forecast is based.
func (b *blend) words(a *Features) string {
	if b.runs == 1 {
		return "1 run of " + levels[b.best].words(a)
	}
	return fmt.Sprintf("%d runs of %s", b.runs, levels[b.best].words(a))
}

// noEstimate returns a text that says why there is no estimate for a job.
func (b *blend) noEstimate(a *Features) string {
	who := "user"
	if a.User == "" {
		who = "tenant"
	}
	why := "no estimate: no run of this job has ended, and too few other runs of the same " + who
	if b.cut > 0 {
		why = fmt.Sprintf("no estimate: of %d similar runs of the same %s, too many were stopped before they ended", b.cut, who)
	}
	if a.Limit > 0 {
		why += "; it ends at its limit of " + a.Limit.String() + " at the latest"
	}
	return why
}
