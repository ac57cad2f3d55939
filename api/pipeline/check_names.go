package pipeline

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

func CheckJobID(id string) error {
	if ares.ValidJobID(id) {
		return nil
	}
	return ares.Errorf(ares.NotFound, "there is no job %q: use the job_id that the submission returned", ares.Clip(id)).At("job_id")
}

func CheckTenantID(id string) error {
	if ares.ValidName(id) {
		return nil
	}
	return ares.Errorf(ares.NotFound, "there is no tenant %q", ares.Clip(id)).At("tenant_id")
}

func CheckQueueName(tenant, name string) error {
	if ares.ValidName(tenant) && ares.ValidName(name) {
		return nil
	}
	return ares.Errorf(ares.NotFound, "tenant %q has no queue %q", ares.Clip(tenant), ares.Clip(name)).At("name")
}

func CheckPolicyName(tenant, name string) error {
	if ares.ValidName(name) && (tenant == "" || ares.ValidName(tenant)) {
		return nil
	}
	return store.NoPolicy(ares.Clip(tenant), ares.Clip(name))
}

// NoTenant is the error for a tenant that does not exist, or whose existence the
// caller must not learn.
func NoTenant(id string) error {
	return ares.Errorf(ares.NotFound, "there is no tenant %q", ares.Clip(id)).At("tenant_id")
}

// ErrUnread is the error for a message that its reader did not receive in time.
func ErrUnread(wait time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return ares.Errorf(ares.Unavailable, "the client did not receive a message within %s: %s", wait, err)
}
