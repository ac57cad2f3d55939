package cli

import (
	"fmt"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// writeNodeScore shows how a node has done so far, with what speaks against it.
func (a *app) writeNodeScore(s sheet, n *apipb.Node) {
	r := n.GetScore()
	if r == nil {
		s.line("Score", fmt.Sprintf("%d of %d: nothing speaks against it", ares.FullScore, ares.FullScore))
		return
	}
	s.line("Score", fmt.Sprintf("%d of %d, reckoned %s ago", r.GetScore(), ares.FullScore, a.age(r.GetAt())))
	s.line("", r.GetWhy())
	parts := fmt.Sprintf("%.1f attempts, %.1f ended by the node, %.1f jobs failed", r.GetSamples(), r.GetFailures(), r.GetJobFailures())
	if r.GetTimedRuns() > 0 {
		parts += fmt.Sprintf("; runs take %.2f times as long as elsewhere", r.GetSlowdown())
	}
	if r.GetGangs() > 0 {
		parts += fmt.Sprintf("; %.1f of %.1f gangs waited for it", r.GetStragglers(), r.GetGangs())
	}
	s.line("Counted", parts)
}
