package job

import (
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// atOnce is the longest time between an event and a placement for which nothing was in the way. The scheduler places a
// job in its next cycle.
const atOnce = 2 * time.Second

// writePlacements explains why the attempts of a job were placed when and where they were. Only the last attempts are
// explained, because a job may have many.
func (a *commands) writePlacements(s output.Sheet, e *apipb.Explanation) {
	const most = 3
	all := e.GetPlacements()
	if len(all) == 0 {
		return
	}
	if more := len(all) - most; more > 0 {
		s.Line("", fmt.Sprintf("(%d earlier attempts: ares job get %s)", more, e.GetJobId()))
		all = all[more:]
	}
	var then, here []string
	for _, p := range all {
		prefix := ""
		if len(all) > 1 || p.GetAttempt() > 1 {
			prefix = fmt.Sprintf("attempt %d: ", p.GetAttempt())
		}
		then = append(then, prefix+whyThen(p))
		for _, reason := range whyHere(p) {
			here = append(here, prefix+reason)
		}
	}
	s.List("Why then", then)
	if text := strings.Join(e.GetRequirements(), "; "); text != "" {
		here = append(here, "the job required: "+text)
	}
	s.List("Why here", here)
}

// whyThen explains the time of a placement.
func whyThen(p *apipb.PlacementReason) string {
	event := map[string]string{
		"submission": "the job was submitted", "dependency": "the last job that it depends on had succeeded",
		"retry": "the attempt before had ended", "preemption": "the job had been preempted",
	}[p.GetAfter()]
	waited := output.Seconds(p.GetWaitedSeconds())
	at := p.GetPlacedAt().AsTime().Local().Format("2006-01-02 15:04:05")
	switch {
	case event == "":
		return "placed at " + at
	case waited <= atOnce:
		return fmt.Sprintf("placed at %s, as soon as %s: it did not have to wait", at, event)
	case p.GetAfter() == "retry":
		return fmt.Sprintf("placed at %s, %s after %s: it waited for the delay before a retry and for free resources", at, output.Duration(waited), event)
	}
	return fmt.Sprintf("placed at %s, %s after %s: it waited for free resources, or for jobs ahead of it", at, output.Duration(waited), event)
}

// whyHere explains the nodes of a placement.
func whyHere(p *apipb.PlacementReason) []string {
	nodes := strings.Join(p.GetNodes(), ", ")
	if n := len(p.GetNodes()); n > 8 {
		nodes = fmt.Sprintf("%s and %d more", strings.Join(p.GetNodes()[:8], ", "), n-8)
	}
	text := "on " + map[bool]string{true: "node ", false: "nodes "}[len(p.GetNodes()) == 1] + nodes
	m := p.GetScore()
	if m.GetLevel() != "" && m.GetLevel() != "node" {
		text += fmt.Sprintf(": %s %s is the narrowest part of the network that had room for all %d ranks", m.GetLevel(), m.GetDomain(), p.GetRanks())
	} else if m.GetLevel() == "node" && p.GetRanks() > 1 {
		text += fmt.Sprintf(": one node had room for all %d ranks", p.GetRanks())
	}
	out := []string{text}
	if n, f := m.GetBandwidthMbps(), m.GetFirstFitMbps(); n > 0 && f > 0 && n > f {
		out = append(out, fmt.Sprintf("these GPUs are connected with %d MB/s at the slowest link; the first free ones would have had %d", n, f))
	} else if n > 0 {
		out = append(out, fmt.Sprintf("these GPUs are connected with %d MB/s at the slowest link", n))
	}
	if n := m.GetStrandedMilli(); n < 0 {
		out = append(out, "they leave more free GPUs usable for other jobs than before")
	} else if n > 0 {
		out = append(out, fmt.Sprintf("they leave %.3f free GPUs that the expected jobs cannot use", float64(n)/1000))
	}
	return out
}
