package admission

import (
	"context"

	ares "github.com/ares-scheduler/ares"
)

// CodeFinder checks that the code of a tenant with a digest is stored, and keeps it until the job is stored.
type CodeFinder interface {
	Check(ctx context.Context, tenant, digest string) error
}

// checkCode rejects a job whose code is not stored completely.
func (a *Admission) checkCode(ctx context.Context, spec *ares.Spec) error {
	if a.Code == nil {
		return ares.Errorf(ares.FeatureDisabled, "code_digest: this server does not keep the code of jobs").At("code_digest")
	}
	return a.Code.Check(ctx, spec.Tenant, spec.CodeDigest)
}
