package federation

import (
	"errors"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// maxFailureText limits the text of an error that a member reports.
const maxFailureText = 4096

// failure returns an error as the last part of an answer. The texts of unexpected errors stay in the member's log.
func failure(err error) *apipb.ReadFailure {
	err = apipb.FromStatus(apipb.ToStatus(err))
	f := &apipb.ReadFailure{Code: string(ares.CodeOf(err)), Message: err.Error()}
	if e, ok := errors.AsType[*ares.Error](err); ok {
		f.Field = e.Field
	}
	return f
}

// failureOf returns the error that a member has reported.
func failureOf(cluster string, f *apipb.ReadFailure) error {
	code, text := ares.Code(f.GetCode()), ares.Truncate(ares.Printable(f.GetMessage()), maxFailureText)
	if !slices.Contains(ares.Codes(), code) || code == ares.Internal || code == ares.Unauthentic {
		return ares.Errorf(ares.Unavailable, "cluster %s cannot answer: %s", cluster, text)
	}
	return ares.Errorf(code, "cluster %s: %s", cluster, text).At(f.GetField())
}

// encodeOwned encodes the run of a job and its last progress.
func encodeOwned(id ares.JobID, s *store.Snapshot) ([]byte, error) {
	b := ares.Batch{Events: []ares.Event{{Revision: s.Run.Revision, Run: &ares.RunEvent{Job: id, Run: s.Run}}}}
	if s.Progress != nil {
		b.Events = append(b.Events, ares.Event{Revision: s.Run.Revision, Progress: &ares.ProgressEvent{Job: id, Progress: *s.Progress}})
	}
	return store.EncodeBatch(b)
}

func decodeOwned(data []byte, id ares.JobID) (run *ares.Run, progress *ares.Progress, err error) {
	b, err := store.DecodeBatch(data)
	if err != nil {
		return nil, nil, err
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Run != nil && e.Run.Job == id:
			run = &e.Run.Run
		case e.Progress != nil && e.Progress.Job == id:
			progress = &e.Progress.Progress
		}
	}
	if run == nil {
		return nil, nil, ares.Errorf(ares.Invalid, "the answer about %s does not contain its run", ares.Clip(string(id)))
	}
	return run, progress, nil
}
