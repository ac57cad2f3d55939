package grant

import ares "github.com/ares-scheduler/ares"

// State is what a member knows of one grant.
type State string

// These are the states of a grant in a member.
const (
	Claimed  State = "claimed"  // the claim is written, and its answer is not known
	Held     State = "held"     // the job is in the member's store and has not ended
	Returned State = "returned" // the job was given back
	Taken    State = "taken"    // the member has a job of another origin with the same ID
	Final    State = "final"    // the job has ended
)

// Listed is one entry of the list in a member's hello.
type Listed struct {
	Job   ares.JobID
	Epoch int64
	State State
	Run   *ares.Run // of a final job
}

// Ref names one grant of one job.
type Ref struct {
	Job   ares.JobID
	Epoch int64
}

// Hello is a member's first message in a session, with all grants that it holds and all tombstones.
type Hello struct {
	Cluster     string
	Incarnation string
	Grants      []Listed
}

// byJob returns the entry with the highest epoch for each job. A claim counts less than what became of the same epoch.
func byJob(list []Listed) map[ares.JobID]Listed {
	out := make(map[ares.JobID]Listed, len(list))
	for _, l := range list {
		if was, ok := out[l.Job]; !ok || l.Epoch > was.Epoch || l.Epoch == was.Epoch && was.State == Claimed {
			out[l.Job] = l
		}
	}
	return out
}
