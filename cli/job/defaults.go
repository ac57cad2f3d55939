package job

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
)

// withDefaults returns a job with the defaults of the active context: its tenant, its queue, and the fields of a job file
// under "defaults". What the job itself sets has precedence. The defaults apply only to the servers of the context.
func (a *commands) withDefaults(spec *apipb.JobSpec) (*apipb.JobSpec, error) {
	c, err := a.ActiveContext()
	if err != nil || c == nil || !c.Serves(a.Addresses()) {
		return spec, err
	}
	out := &apipb.JobSpec{}
	if len(c.Defaults) > 0 {
		data, err := json.Marshal(c.Defaults)
		if err == nil {
			err = apipb.UnmarshalJSON(data, out)
		}
		if err != nil {
			return nil, fmt.Errorf("the defaults of the context %s: %w", c.Name, err)
		}
	}
	if c.Tenant != "" {
		out.TenantId = c.Tenant
	}
	if c.Queue != "" {
		out.Queue = c.Queue
	}
	if spec.GetTenantId() != "" && spec.GetTenantId() != out.GetTenantId() {
		out.Queue = "" // the queue of the context is one of its own tenant
	}
	if len(spec.GetCommand()) > 0 {
		out.Command, out.Args = nil, nil
	}
	proto.Merge(out, spec)
	return out, nil
}
