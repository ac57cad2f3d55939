package method_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/policy/roles"
)

// The function `rpcs` lists every RPC of the API by its full name.
func rpcs() map[string]protoreflect.MethodDescriptor {
	out := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("ares.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for k := range s.Methods().Len() {
				out["/"+string(s.FullName())+"/"+string(s.Methods().Get(k).Name())] = s.Methods().Get(k)
			}
		}
		return true
	})
	return out
}

// TestRows checks that every RPC has exactly one complete row, and that every
// row belongs to an RPC.
func TestRows(t *testing.T) {
	all, seen, actions := rpcs(), map[string]bool{}, map[string]string{}
	for _, m := range method.All() {
		if seen[m.Name] {
			t.Errorf("%s has two rows", m.Name)
		}
		seen[m.Name] = true
		rpc := all[m.Name]
		if rpc == nil {
			t.Errorf("there is a row for %s, which is no RPC", m.Name)
			continue
		}
		checkAccess(t, &m)
		checkAudit(t, &m, rpc)
		if actions[m.Audit.Action] != "" && m.Audit.Action != "SUBMIT_JOB" && m.Audit.Level != method.NotAudited {
			t.Errorf("%s and %s have the same action, %s", m.Name, actions[m.Audit.Action], m.Audit.Action)
		}
		actions[m.Audit.Action] = m.Name
	}
	for name := range all {
		if !seen[name] {
			t.Errorf("%s has no row: add one to api/method/table.go", name)
		}
	}
}

func checkAccess(t *testing.T, m *method.Method) {
	t.Helper()
	open := m.Scope == method.Public || m.Scope == method.Authenticated
	if m.Scope <= method.NoScope || m.Scope >= method.Scopes || open != (m.Permission == "") {
		t.Errorf("%s has the scope %d and the permission %q", m.Name, m.Scope, m.Permission)
	}
	user := m.Permission != roles.AgentAct && !m.IsPublic()
	if m.Limiter < method.Unlimited || m.Limiter >= method.Limiters || user && m.Limiter == method.Unlimited {
		t.Errorf("%s has the limiter %d", m.Name, m.Limiter)
	}
	if m.Status != http.StatusOK && m.Status != http.StatusCreated {
		t.Errorf("%s has the status %d", m.Name, m.Status)
	}
}

// The variable `readers` matches the names of methods that change nothing.
var readers = regexp.MustCompile(`^(Get|List|Watch|Stream|Explain|Plan|Predict|Verify|Check|Can|Who|Test|Export|Dump|Backup|Record|Resolve)`)

func checkAudit(t *testing.T, m *method.Method, rpc protoreflect.MethodDescriptor) {
	t.Helper()
	if m.Audit.Level == method.NotAudited {
		return
	}
	if !regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`).MatchString(m.Audit.Action) {
		t.Errorf("%s has the action %q: write it as SUBMIT_JOB", m.Name, m.Audit.Action)
	}
	reads := m.Audit.Level == method.RejectedReads
	if reads && !readers.MatchString(string(rpc.Name())) {
		t.Errorf("%s has the audit level of a read, but not the name of one", m.Name)
	}
	for _, r := range m.Routes {
		if reads && r.HTTPMethod != http.MethodGet && r.HTTPMethod != http.MethodPost {
			t.Errorf("%s has the audit level of a read, but is neither GET nor POST", m.Name)
		}
	}
	for _, name := range m.Audit.Names {
		if !hasText(rpc.Input(), name) && !hasText(rpc.Output(), name) {
			t.Errorf("%s is named by %s, which neither its request nor its response has", m.Name, name)
		}
	}
}

func hasText(d protoreflect.MessageDescriptor, path string) bool {
	name, rest, more := strings.Cut(path, ".")
	field := d.Fields().ByName(protoreflect.Name(name))
	switch {
	case field == nil:
		return false
	case !more:
		return field.Kind() == protoreflect.StringKind
	default:
		return field.Message() != nil && hasText(field.Message(), rest)
	}
}

// TestRoutes checks that the table and the OpenAPI description have the same
// routes.
func TestRoutes(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(apipb.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	described := map[method.Route]bool{}
	for path, verbs := range doc.Paths {
		for verb := range verbs {
			described[method.Route{HTTPMethod: strings.ToUpper(verb), Path: path}] = true
		}
	}
	rows := map[method.Route]bool{}
	for _, m := range method.All() {
		for _, r := range m.Routes {
			r.Body = ""
			if rows[r] {
				t.Errorf("%s %s has two methods", r.HTTPMethod, r.Path)
			}
			rows[r] = true
			if !described[r] {
				t.Errorf("%s %s is not in OpenAPI", r.HTTPMethod, r.Path)
			}
			if (m.LargeBody || m.IsPublic()) && strings.Contains(r.Path, "{") {
				t.Errorf("%s: LargeBody and Public are looked up by the path, which must have no variable", r.Path)
			}
		}
	}
	for r := range described {
		if !rows[r] && r != method.OpenAPI {
			t.Errorf("%s %s is in OpenAPI and in no row", r.HTTPMethod, r.Path)
		}
	}
}

// TestFind checks that Find returns the method for a request's path, and that
// Values returns the values of the path's variables.
func TestFind(t *testing.T) {
	m, r := method.Find(http.MethodGet, "/api/v1/tenants/a/queues/b")
	if m == nil || m.Name != apipb.QueueService_GetQueue_FullMethodName ||
		strings.Join(r.Variables(), " ") != "tenant_id name" || strings.Join(r.Values("/api/v1/tenants/a/queues/b"), " ") != "a b" {
		t.Errorf("found %+v %v", m, r)
	}
	if m, _ := method.Find(http.MethodPut, "/api/v1/jobs"); m != nil {
		t.Errorf("found %s", m.Name)
	}
	if got := method.HTTPMethods("/api/v1/jobs"); strings.Join(got, " ") != "GET POST" {
		t.Errorf("got %v", got)
	}
	if !method.AllowsLargeBody("/api/v1/jobs:batch") || method.AllowsLargeBody("/api/v1/jobs") {
		t.Error("a batch is large, a job is not")
	}
}
