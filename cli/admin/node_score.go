package admin

import (
	"fmt"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// writeNodeScore shows the score that a node has because of its history, and
// the reasons that lower the score.
func (a *commands) writeNodeScore(s output.Sheet, n *apipb.Node) {
	r := n.GetScore()
	if r == nil {
		s.Line("Score", fmt.Sprintf("%d of %d: no failures or slow runs", ares.FullScore, ares.FullScore))
		return
	}
	if r.GetAt() == nil { // the reasons are only for callers that may see all jobs
		s.Line("Score", fmt.Sprintf("%d of %d", r.GetScore(), ares.FullScore))
		return
	}
	s.Line("Score", fmt.Sprintf("%d of %d, computed %s ago", r.GetScore(), ares.FullScore, a.Age(r.GetAt())))
	s.Line("", r.GetWhy())
	parts := fmt.Sprintf("%.1f attempts, %.1f ended by the node, %.1f jobs failed", r.GetSamples(), r.GetFailures(), r.GetJobFailures())
	if r.GetTimedRuns() > 0 {
		parts += fmt.Sprintf("; runs take %.2f times as long as elsewhere", r.GetSlowdown())
	}
	if r.GetGangs() > 0 {
		parts += fmt.Sprintf("; %.1f of %.1f gangs waited for it", r.GetStragglers(), r.GetGangs())
	}
	s.Line("Counted", parts)
}
