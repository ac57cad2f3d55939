package service

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// These constants limit the texts that an agent reports, in bytes.
const (
	maxProgressText = 256
	maxReasonText   = 512
)

// The function `progress` checks a progress report. The text comes from a job, and other users read it in lists and
// terminals, so it must not contain control characters.
func progress(req *apipb.ReportProgressRequest, now time.Time) (ares.Progress, error) {
	if req.GetSeat() == nil {
		return ares.Progress{}, ares.Errorf(ares.Invalid, "seat: must name the rank whose progress is reported").At("seat")
	}
	percent := req.GetPercent()
	if !(percent >= 0 && percent <= 100) { // also true for NaN
		return ares.Progress{}, ares.Errorf(ares.Invalid, "percent: must be a number from 0 to 100, got %v", percent).At("percent")
	}
	return ares.Progress{Percent: percent, Message: ares.Truncate(ares.Printable(req.GetMessage()), maxProgressText), At: now}, nil
}

// cleanNode removes control characters from the texts in which a node describes itself. It reports names that contain control
// characters, because a name that is changed would no longer match.
func cleanNode(n *ares.Node, p *ares.Problems) {
	for _, text := range []*string{&n.Unfit, &n.Isolation, &n.NoImages, &n.NoContainerRoot, &n.Version} {
		*text = ares.Printable(*text)
	}
	name := func(field, s string) {
		if ares.Printable(s) != s {
			p.Add(field, "%q contains characters that cannot be printed", ares.Clip(s))
		}
	}
	name("node.address", n.Address)
	for k, v := range n.Labels {
		name("node.labels", k)
		name("node.labels", v)
	}
	for _, t := range n.Taints {
		name("node.taints", t.Key)
		name("node.taints", t.Value)
	}
	for i := range n.Devices {
		d := &n.Devices[i]
		d.Reason, d.Model = ares.Printable(d.Reason), ares.Printable(d.Model)
		for _, s := range []string{d.ID, d.Type, d.Parent, d.Profile} {
			name("node.devices", s)
		}
	}
}
