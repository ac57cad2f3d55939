package admission

import (
	"context"

	ares "github.com/ares-scheduler/ares"
)

// SecretFinder reports which references to secrets of a tenant cannot be resolved. Its error names their fields.
type SecretFinder interface {
	Check(ctx context.Context, tenant string, refs []ares.SecretRef) error
}

// checkSecrets rejects a job that refers to a secret that does not exist. The secret may still be deleted before the job
// starts. The job then fails at its start.
func (a *Admission) checkSecrets(ctx context.Context, spec *ares.Spec) error {
	if a.Secrets == nil {
		return ares.Errorf(ares.FeatureDisabled, "secrets: this server does not support secrets").At("secrets")
	}
	return a.Secrets.Check(ctx, spec.Tenant, spec.Secrets)
}

// resolveReferences finds the secrets, the code and the jobs that a job refers to. It returns the live jobs on which the job
// depends, as resolveDependencies does.
func (a *Admission) resolveReferences(ctx context.Context, r *Request, stored *ares.Spec, fresh bool) (map[ares.JobID]int64, error) {
	if len(stored.Secrets) > 0 {
		if err := a.checkSecrets(ctx, stored); err != nil {
			return nil, err
		}
	}
	if stored.CodeDigest != "" {
		if err := a.checkCode(ctx, stored); err != nil {
			return nil, err
		}
	}
	if len(stored.Notify) > 0 {
		if err := a.checkNotify(stored, r.Owner); err != nil {
			return nil, err
		}
	}
	live := map[ares.JobID]int64{}
	if len(stored.After) > 0 {
		if err := a.resolveDependencies(ctx, r, stored, fresh, live); err != nil {
			return nil, err
		}
	}
	return live, a.resolveStart(ctx, r, stored, fresh, live)
}
