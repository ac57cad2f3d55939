package control

import (
	"fmt"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Infeasible is what becomes of a job that will hardly meet its deadline, by the
// time that jobs like it took.
type Infeasible string

// What becomes of it.
const (
	InfeasibleAccept Infeasible = "accept" // it is accepted without a word
	InfeasibleWarn   Infeasible = "warn"   // it is accepted with a warning
	InfeasibleRefuse Infeasible = "refuse" // it is refused
)

// Infeasibles lists what may be written for it.
func Infeasibles() []string {
	return []string{string(InfeasibleAccept), string(InfeasibleWarn), string(InfeasibleRefuse)}
}

// ParseInfeasible reads it as people write it.
func ParseInfeasible(text string) (Infeasible, error) {
	if !slices.Contains(Infeasibles(), text) {
		return "", ares.Errorf(ares.Invalid, "%q is no way to treat a job that will hardly meet its deadline: use one of %s", text, strings.Join(Infeasibles(), ", "))
	}
	return Infeasible(text), nil
}

// feasible judges the deadline of a job that is to be accepted, by its own runtime
// alone: how long it waits is for the queue to say. A deadline that is past is
// refused in any case. Who repeats a request that was accepted has that job.
func (d *Desk) feasible(j *ares.Job) (warning string, err error) {
	if j.Deadline.IsZero() {
		return "", nil
	}
	now := d.Now()
	if !j.Deadline.After(now) {
		return "", ares.Errorf(ares.Refused, "deadline: %s is past: set a later one, or leave deadline out for none", j.Deadline.UTC().Format(time.RFC3339)).At("deadline")
	}
	if d.Predict == nil || d.Infeasible != InfeasibleWarn && d.Infeasible != InfeasibleRefuse {
		return "", nil
	}
	full := *j
	full.Spec = j.WithDefaults()
	p := d.Predict(&full)
	o := full.Outlook(nil, p, now)
	if o.Late() <= 0 {
		return "", nil
	}
	if d.Infeasible == InfeasibleRefuse {
		return "", ares.Errorf(ares.Refused, "deadline: cannot be met: %s (%s); set it to %s or later, make the job shorter, or leave deadline out",
			&o, p.Basis, o.P90.UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)).At("deadline")
	}
	return fmt.Sprintf("%s (%s)", &o, p.Basis), nil
}
