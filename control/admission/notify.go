package admission

import ares "github.com/ares-scheduler/ares"

// NotifyChecker checks that the notifications which a job asks for can be sent.
type NotifyChecker interface {
	Check(s *ares.Spec, owner string) error
}

// checkNotify rejects a job that asks for a notification which this server can never send.
func (a *Admission) checkNotify(spec *ares.Spec, owner string) error {
	if a.Notify == nil {
		return ares.Errorf(ares.FeatureDisabled, "notify: this server sends no notifications about jobs").At("notify")
	}
	return a.Notify.Check(spec, owner)
}
