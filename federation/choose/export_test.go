package choose

import (
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Check checks the engine's state. A summary and the grants that it does not show yet may count the same device twice,
// so that is no error here.
func (c *Chooser) Check() error {
	if err := c.state.Check(); err != nil && !strings.Contains(err.Error(), "oversubscribed") {
		return err
	}
	return nil
}

// Use returns what a tenant uses, in thousandths of devices, as the fair order counts it.
func (c *Chooser) Use(tenant string) (milli int64) {
	for job, run := range c.state.Jobs() {
		if job.Tenant != tenant || run == nil || run.Current() == nil {
			continue
		}
		for _, s := range run.Current().Seats {
			for _, share := range s.Shares {
				milli += int64(share.Milli)
			}
		}
	}
	return milli
}

// Job returns a job of the hub.
func (c *Chooser) Job(id ares.JobID) *ares.Job { return c.jobs[id].job }
