package federation

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/store"
)

// protocol is the version of the messages between hub and member. A later version only adds fields and kinds of messages,
// which this one ignores, so neither side refuses the other one for its version: both speak the lower of the two.
const protocol = 1

// Jobs and runs travel in the form in which stores keep them. A reader of another version thus ignores fields that it does
// not know, and refuses a record that it must not misread.

func encodeJob(j *ares.Job) ([]byte, error) {
	return store.EncodeBatch(ares.Batch{Events: []ares.Event{{Job: j}}})
}

func decodeJob(data []byte, id ares.JobID) (*ares.Job, error) {
	b, err := store.DecodeBatch(data)
	switch {
	case err != nil:
		return nil, err
	case len(b.Events) != 1 || b.Events[0].Job == nil || b.Events[0].Job.ID != id:
		return nil, ares.Errorf(ares.Invalid, "the message about %s does not contain this job", ares.Clip(string(id)))
	}
	return b.Events[0].Job, nil
}

// encodeRun encodes a run. Its revision travels too, so that the hub can tell an older run from a newer one.
func encodeRun(id ares.JobID, r *ares.Run) ([]byte, error) {
	return store.EncodeBatch(ares.Batch{Events: []ares.Event{{Revision: r.Revision, Run: &ares.RunEvent{Job: id, Run: *r}}}})
}

func decodeRun(data []byte, id ares.JobID) (*ares.Run, error) {
	b, err := store.DecodeBatch(data)
	switch {
	case err != nil:
		return nil, err
	case len(b.Events) != 1 || b.Events[0].Run == nil || b.Events[0].Run.Job != id:
		return nil, ares.Errorf(ares.Invalid, "the message about %s does not contain its run", ares.Clip(string(id)))
	}
	return &b.Events[0].Run.Run, nil
}

var wireStates = map[grant.State]apipb.ListedGrant_State{
	grant.Claimed: apipb.ListedGrant_STATE_CLAIMED, grant.Held: apipb.ListedGrant_STATE_HELD, grant.Returned: apipb.ListedGrant_STATE_RETURNED,
	grant.Taken: apipb.ListedGrant_STATE_TAKEN, grant.Final: apipb.ListedGrant_STATE_FINAL,
}

func stateOf(m apipb.ListedGrant_State) grant.State {
	for s, w := range wireStates { // order-free: each value occurs once
		if w == m {
			return s
		}
	}
	return ""
}

// Incarnation names one life of a store: the store's identity and its last restore. A member that was declared dead and
// joins anew counts its returns in `rejoins`, because its store was not restored.
func incarnation(id store.Identity, rejoins int) string {
	out := id.Store + "." + id.Restore
	for range rejoins {
		out += "+"
	}
	return out
}
