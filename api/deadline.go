package api

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// outlook is how a job stands to its deadline by what was said of its runtime,
// or would be said now; nil when it has none, or has ended. r is nil of a job that
// is not submitted.
func (d *Doors) outlook(j *ares.Job, r *ares.Run) *apipb.DeadlineOutlook {
	if j.Deadline.IsZero() || r != nil && r.Phase.Final() {
		return nil
	}
	var p ares.RuntimePredicted
	if e := d.cfg.View.Job(j.ID); e != nil && e.Forecast != nil && r != nil {
		p = *e.Forecast
	} else if d.cfg.Predict != nil {
		p = d.cfg.Predict(j)
	}
	o := j.Outlook(r, p, time.Now())
	m := &apipb.DeadlineOutlook{Deadline: apipb.Timestamp(o.Deadline), Text: o.String()}
	if !o.P90.IsZero() {
		m.P50End, m.P90End, m.SlackSeconds = apipb.Timestamp(o.P50), apipb.Timestamp(o.P90), (-o.Late()).Round(time.Second).Seconds()
	}
	if r != nil {
		m.Noted = string(r.Lateness)
	}
	return m
}
