package security

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/ares-scheduler/ares/apipb"
)

// stealSecrets returns attempts to read, use or destroy a secret of tenant blue, and attempts to break out of the
// directory of a job's secrets.
func (s *scene) stealSecrets() []attempt {
	s.t.Helper()
	const value = "heliotrope"
	s.do(s.t, http.MethodPut, "/api/v1/secrets/violet", fmt.Sprintf(`{"tenant_id":"blue","data":{"value":%q}}`, base64.StdEncoding.EncodeToString([]byte(value))))
	s.do(s.t, http.MethodPut, "/api/v1/secrets/scarlet", `{"tenant_id":"red","data":{"value":"eA=="}}`)
	s.secrets = append(s.secrets, value, base64.StdEncoding.EncodeToString([]byte(value)))
	const spec = `"request_id":"{id}","name":"x","command":["true"]`
	var out []attempt
	add := func(name, token, method, path, body string, same bool) {
		a := s.rest(name, token, method, path, body, nil)
		a.same = same
		out = append(out, a)
	}
	use := func(name, ref string) {
		add(name, s.submitter, "POST", "/api/v1/jobs", `{`+spec+`,"secrets":[`+ref+`]}`, false)
	}
	use("another tenant's secret by its name", `{"name":"violet","env":"A"}`)
	use("another tenant's secret by a path", `{"name":"../blue/violet","env":"A"}`)
	use("another tenant's secret by its tenant", `{"name":"blue/violet","env":"A"}`)
	use("another tenant's secret by a key", `{"name":"scarlet","key":"../../blue/violet/value","env":"A"}`)
	use("a secret for a variable of Ares", `{"name":"scarlet","env":"ARES_FENCING_TOKEN"}`)
	use("a secret for the devices", `{"name":"scarlet","env":"CUDA_VISIBLE_DEVICES"}`)
	use("a secret for the loader", `{"name":"scarlet","env":"LD_PRELOAD"}`)
	use("a secret for the loader's directories", `{"name":"scarlet","env":"LD_LIBRARY_PATH"}`)
	use("a secret for the path, which errors show", `{"name":"scarlet","env":"PATH"}`)
	use("a secret for the secrets' directory", `{"name":"scarlet","env":"ARES_SECRETS_DIR"}`)
	use("a secret that hides a variable", `{"name":"scarlet","env":"A"}],"environment":{"A":"x"},"labels":{},"after":[`)
	use("another tenant's secret in an array", `{"name":"violet","env":"A"}],"array":{"count":2},"after":[`)
	use("another tenant's secret in a gang", `{"name":"violet","env":"A"}],"members":2,"after":[`)
	use("another tenant's secret beside one's own", `{"name":"scarlet","env":"A"},{"name":"violet","env":"B"}`)
	use("a secret with an equals sign", `{"name":"scarlet","env":"A=B"}`)
	use("a secret into the machine's files", `{"name":"scarlet","file":"/etc/cron.d/x"}`)
	use("a secret out of its directory", `{"name":"scarlet","file":"../../spec"}`)
	use("a secret as the directory itself", `{"name":"scarlet","file":"."}`)
	use("a secret with a NUL in its file", `{"name":"scarlet","file":"a\u0000b"}`)
	use("a secret for nothing", `{"name":"scarlet"}`)
	use("a value instead of a name", `{"name":"scarlet","env":"A","value":"x"}`)
	use("seventeen secrets", strings.TrimSuffix(strings.Repeat(`{"name":"scarlet","env":"A"},`, 17), ","))
	add("another tenant's job with one's own secret", s.submitter, "POST", "/api/v1/jobs", `{`+spec+`,"tenant_id":"{tenant}","secrets":[{"name":"scarlet","env":"A"}]}`, true)
	add("plan with another tenant's secret", s.submitter, "POST", "/api/v1/jobs:plan", `{`+spec+`,"secrets":[{"name":"violet","env":"A"}]}`, false)
	add("a submitter creates a secret", s.submitter, "PUT", "/api/v1/secrets/mauve", `{"data":{"value":"eA=="}}`, false)
	add("a submitter replaces a secret", s.submitter, "PUT", "/api/v1/secrets/scarlet", `{"data":{"value":"eQ=="}}`, false)
	add("a submitter deletes a secret", s.submitter, "DELETE", "/api/v1/secrets/scarlet", "", false)
	add("a tenant-admin rotates the key", s.red, "POST", "/api/v1/secrets:rotate-key", `{}`, false)
	add("a tenant-admin rotates to a path", s.red, "POST", "/api/v1/secrets:rotate-key", `{"key_id":"../../admin.token"}`, false)
	add("a tenant-admin creates another tenant's secret", s.red, "PUT", "/api/v1/secrets/mauve", `{"tenant_id":"{tenant}","data":{"value":"eA=="}}`, true)
	add("a tenant-admin replaces another tenant's secret", s.red, "PUT", "/api/v1/secrets/violet", `{"tenant_id":"{tenant}","data":{"value":"eA=="}}`, true)
	add("a tenant-admin deletes another tenant's secret", s.red, "DELETE", "/api/v1/secrets/violet?tenant_id={tenant}", "", true)
	add("a tenant-admin lists another tenant's secrets", s.red, "GET", "/api/v1/secrets?tenant_id={tenant}", "", true)
	add("a value in the address", s.red, "PUT", "/api/v1/secrets/scarlet?data[value]=eA==", `{}`, false)
	add("seventeen values", s.red, "PUT", "/api/v1/secrets/scarlet", `{"data":{`+manyValues(17)+`}}`, false)
	add("no value", s.red, "PUT", "/api/v1/secrets/scarlet", `{"data":{}}`, false)
	add("an empty value", s.red, "PUT", "/api/v1/secrets/scarlet", `{"data":{"value":""}}`, false)
	add("read one secret", s.red, "GET", "/api/v1/secrets/scarlet", "", false)
	add("a secret of too many bytes", s.red, "PUT", "/api/v1/secrets/scarlet", `{"data":{"value":"`+base64.StdEncoding.EncodeToString(make([]byte, 32<<10+1))+`"}}`, false)
	add("a secret with a path for a key", s.red, "PUT", "/api/v1/secrets/scarlet", `{"data":{"../x":"eA=="}}`, false)
	add("a secret with a path for a name", s.red, "PUT", "/api/v1/secrets/..%2Fblue%2Fviolet", `{"data":{"value":"eA=="}}`, false)
	return append(out, s.fetchForeign()...)
}

func manyValues(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"k%d":"eA=="`, i))
	}
	return strings.Join(out, ",")
}

// fetchForeign returns attempts of a node with a certificate to fetch secrets of seats that it has not claimed.
func (s *scene) fetchForeign() []attempt {
	conn := s.dial(s.t, s.joined("curious", s.joinToken("curious")))
	var out []attempt
	for name, req := range map[string]func(n names) *apipb.FetchSecretsRequest{
		"secrets of a job that waits": func(n names) *apipb.FetchSecretsRequest {
			return &apipb.FetchSecretsRequest{Ref: &apipb.SessionRef{NodeId: "curious", Session: 1}, Seat: &apipb.SeatRef{JobId: n.job, Fence: 1}}
		},
		"secrets as another node": func(n names) *apipb.FetchSecretsRequest {
			return &apipb.FetchSecretsRequest{Ref: &apipb.SessionRef{NodeId: "other", Session: 1}, Seat: &apipb.SeatRef{JobId: n.job, Fence: 1}}
		},
		"secrets of no session": func(n names) *apipb.FetchSecretsRequest {
			return &apipb.FetchSecretsRequest{Ref: &apipb.SessionRef{NodeId: "curious"}, Seat: &apipb.SeatRef{JobId: n.job, Fence: 1}}
		},
		"secrets of no seat": func(names) *apipb.FetchSecretsRequest {
			return &apipb.FetchSecretsRequest{Ref: &apipb.SessionRef{NodeId: "curious", Session: 1}}
		},
	} {
		out = append(out, attempt{name: name, unheard: true, try: func(ctx context.Context, n names, id string) (result, error) {
			got, err := apipb.NewAgentServiceClient(conn).FetchSecrets(metadata.AppendToOutgoingContext(ctx, "x-request-id", id), req(n))
			return said(err, got), nil
		}})
	}
	return out
}
