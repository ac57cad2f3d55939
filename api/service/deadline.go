package service

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// The method `outlook` compares a job's deadline with its predicted end. The prediction is the one
// stored at submission, or a new one if none is stored. The result is nil if the job has no
// deadline or has ended. The argument r is nil if the job has not been submitted.
func (d *Services) outlook(j *ares.Job, r *ares.Run) *apipb.DeadlineOutlook {
	if j.Deadline.IsZero() || r != nil && r.Phase.Final() {
		return nil
	}
	var p ares.RuntimePredicted
	if e := d.Cfg.View.Job(j.ID); e != nil && e.Forecast != nil && r != nil {
		p = *e.Forecast
	} else if d.Cfg.Predict != nil {
		p = d.Cfg.Predict(j)
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
