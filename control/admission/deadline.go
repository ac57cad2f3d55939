package admission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// DeadlinePolicy says whether to accept a job that will probably miss its deadline. The runtimes
// of similar jobs show whether a miss is probable.
type DeadlinePolicy string

// The policies.
const (
	DeadlineAccept DeadlinePolicy = "accept" // accepted silently
	DeadlineWarn   DeadlinePolicy = "warn"   // accepted with a warning
	DeadlineReject DeadlinePolicy = "refuse" // rejected
)

// DeadlinePolicies returns the names of the deadline policies, as they are used in the
// configuration file.
func DeadlinePolicies() []string {
	return []string{string(DeadlineAccept), string(DeadlineWarn), string(DeadlineReject)}
}

// ParseDeadlinePolicy reads the name of a deadline policy in the configuration.
func ParseDeadlinePolicy(text string) (DeadlinePolicy, error) {
	if !slices.Contains(DeadlinePolicies(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is not a valid deadline policy: use one of %s", text, strings.Join(DeadlinePolicies(), ", "))
	}
	return DeadlinePolicy(text), nil
}

// checkDeadline checks the deadline of a new job against its predicted runtime. checkDeadline
// ignores the time that the job will wait in the queue, because this time is not known yet. A
// deadline in the past is always rejected. A retry's deadline is not checked, because the retry
// keeps the deadline of the job that it retries.
func (a *Admission) checkDeadline(j *ares.Job) (warnings []string, err error) {
	now := a.Now()
	if !j.Deadline.After(now) {
		return nil, ares.Errorf(ares.DeadlineUnreachable, "deadline: %s is in the past: set a later deadline, or remove it", j.Deadline.UTC().Format(time.RFC3339)).At("deadline")
	}
	if a.Predict == nil || a.DeadlinePolicy != DeadlineWarn && a.DeadlinePolicy != DeadlineReject {
		return nil, nil
	}
	effective := *j
	effective.Spec = j.WithDefaults()
	p := a.Predict(&effective)
	o := effective.Outlook(nil, p, now)
	if o.Late() <= 0 {
		return nil, nil
	}
	if a.DeadlinePolicy == DeadlineReject {
		return nil, ares.Errorf(ares.DeadlineUnreachable, "deadline: the job cannot end in time: %s (%s); set the deadline to %s or later, make the job shorter, or remove the deadline",
			&o, p.Basis, o.P90.UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)).At("deadline")
	}
	return []string{fmt.Sprintf("%s (%s)", &o, p.Basis)}, nil
}
