package pipeline

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/store"
)

// WaitForView waits briefly until this server's view contains a change, so that
// the caller's next list shows it. WaitForView returns no error if the view
// still lacks the change after the wait.
func (d *Pipeline) WaitForView(ctx context.Context, revision int64) {
	ctx, cancel := context.WithTimeout(ctx, d.ViewWait)
	defer cancel()
	_ = d.Cfg.View.WaitFor(ctx, revision)
}

func (d *Pipeline) Accounting() (*accounting.Accounting, error) {
	if d.Cfg.Accounting == nil {
		return nil, ares.Errorf(ares.Unavailable, "this server has no history database")
	}
	return d.Cfg.Accounting, nil
}

// ArchivedJob reads a job from the history database. ArchivedJob returns the
// error store.NoJob if no such job exists, and another error if the history
// database does not answer.
func (d *Pipeline) ArchivedJob(ctx context.Context, id ares.JobID) (*accounting.JobRecord, error) {
	if d.Cfg.Accounting == nil {
		return nil, store.NoJob(id)
	}
	found, err := d.Cfg.Accounting.Job(ctx, id, "")
	switch {
	case err == nil:
		return &found, nil
	case ares.CodeOf(err) == ares.NotFound:
		return nil, store.NoJob(id)
	}
	return nil, err
}
