package api

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/store"
)

// The columns of testdata/access.txt: who calls, of tenant a, and about whose
// things.
var columns = []string{
	"anybody", "viewer/own", "viewer/foreign", "submitter/own", "submitter/foreign", "tenant-admin/own", "tenant-admin/foreign",
	"auditor/own", "auditor/foreign", "platform-admin/own", "agent/own", "agent/foreign", "unbound/own",
}

// The words of the table.
const (
	does    = "yes"    // the call is let through
	denied  = "no"     // permission denied
	unknown = "absent" // answered exactly as if there were nothing
	filters = "own"    // let through, and nothing of tenant b is in the answer
	lacking = "token"  // unauthenticated
)

// readTable reads testdata/access.txt.
func readTable(t *testing.T) map[string]map[string]string {
	t.Helper()
	f, err := os.Open("testdata/access.txt")
	must(t, err)
	defer f.Close()
	table := map[string]map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != len(columns)+1 || table[words[0]] != nil {
			t.Fatalf("a row of access.txt is not of the form METHOD and %d words, or is there twice: %s", len(columns), lines.Text())
		}
		table[words[0]] = map[string]string{}
		for i, c := range columns {
			if w := words[i+1]; !slices.Contains([]string{does, denied, unknown, filters, lacking}, w) {
				t.Fatalf("%s: %q is no word of the table", words[0], w)
			}
			table[words[0]][c] = words[i+1]
		}
	}
	return table
}

// estate is a house with two tenants who have the same things.
type estate struct {
	*house
	conn   *grpc.ClientConn
	tokens map[string]string
	jobs   map[string]string // by tenant
}

func newEstate(t *testing.T) *estate {
	engine := &fakeEngine{fair: ares.Fairness{Shares: []ares.FairShare{{Tenant: "a"}, {Tenant: "b"}, {Tenant: "b", Queue: "default"}}}}
	e := &estate{tokens: map[string]string{"anybody": ""}, jobs: map[string]string{}}
	log := openLog(t)
	past, err := history.Open(history.Config{File: filepath.Join(t.TempDir(), "history.db")})
	must(t, err)
	t.Cleanup(func() { must(t, past.Close()) })
	e.house = newHouse(t, func(c *Config) {
		c.Audit, c.AuditLog = log, log
		c.Ledger = &control.Ledger{View: c.View, History: past, Now: time.Now}
		c.AgentService, c.Engine, c.Logs = noAgents{}, engine, noLogs{}
		c.Predict = func(*ares.Job) ares.RuntimePredicted {
			return ares.RuntimePredicted{P50: time.Second, P90: time.Minute}
		}
	})
	_, err = e.store.OpenSession(t.Context(), ares.Node{ID: "n1"}, "0123456789abcdef", "here:1", 5*time.Minute)
	must(t, err)
	e.conn = e.dial()
	for _, tenant := range []string{"a", "b"} {
		must(t, e.store.RegisterTenant(t.Context(), ares.Tenant{ID: tenant, Name: canaryOf(tenant), Limits: ares.NoLimits(), Weight: 1}))
		e.jobs[tenant] = e.submit("tenant_id", tenant, "name", canaryOf(tenant), "request_id", "r")
		a := e.do("POST", "/api/v1/queues", map[string]any{"tenant_id": tenant, "name": "q"})
		if a.code != 201 {
			t.Fatal(a.body)
		}
		until := time.Now().Add(time.Hour)
		_, err = e.store.CreateReservation(t.Context(), ares.Reservation{
			Name: "window-" + tenant, Tenant: tenant, From: until.Add(-time.Minute), Until: until, Nodes: []string{"n1"}, By: "x", Why: canaryOf(tenant), CreatedAt: until,
		})
		must(t, err)
		e.put("holder", tenant, ares.Binding{Role: ares.Viewer, Tenant: tenant})
		_, err = e.store.CreateBinding(t.Context(), store.Binding{Subject: "oidc:" + canaryOf(tenant), Binding: ares.Binding{Role: ares.Viewer, Tenant: tenant}})
		must(t, err)
		_, _, err = e.store.ApplyPolicy(t.Context(), ares.Policy{Name: "q", Tenant: tenant, On: ares.OnSubmission, Rule: "true", Action: ares.RejectJob, Why: canaryOf(tenant), At: until}.WithDefaults())
		must(t, err)
		j := ares.JobID(e.jobs[tenant])
		engine.explains.Holders = append(engine.explains.Holders, ares.Holder{Tenant: tenant, Job: j, GPUs: 1})
		engine.explains.Ahead = append(engine.explains.Ahead, ares.Ahead{Tenant: tenant, First: j, Jobs: 1})
	}
	engine.explains.ETA = ares.ETA{Basis: "reserved for tenant b until tomorrow (reservation window-b)"}
	engine.blockers = []ares.Blocker{{Kind: "nodes", Detail: "after " + e.jobs["b"] + ", and reserved for tenant b (reservation window-b)"}}
	for _, role := range []ares.Role{ares.Viewer, ares.Submitter, ares.TenantAdmin, ares.Auditor} {
		e.tokens[string(role)] = e.put(string(role), "a", ares.Binding{Role: role, Tenant: "a"})
	}
	e.tokens[string(ares.PlatformAdmin)] = e.put("root", "", ares.Binding{Role: ares.PlatformAdmin})
	e.tokens[string(ares.AgentRole)] = e.put("agent", "", ares.Binding{Role: ares.AgentRole})
	e.tokens["unbound"] = e.put("unbound", "a")
	e.cfg.Auth.Changed()
	e.seen()
	return e
}

// canaryOf is a name that must not be told to another tenant.
func canaryOf(tenant string) string { return canary + "-of-" + tenant }

// put registers a token.
func (e *estate) put(name, tenant string, bindings ...ares.Binding) string {
	token, hash := auth.NewToken()
	if tenant != "" {
		name = tenant + "/" + name
	}
	must(e.t, e.store.PutToken(e.t.Context(), store.Token{Name: name, Hash: hash, Bindings: bindings}))
	return token
}

type noLogs struct{}

func (noLogs) Logs(context.Context, LogQuery, func([]byte) error) error { return nil }

// ids are what a request's fields are filled with.
type ids struct{ tenant, job, other string }

// fill puts IDs into the fields of a request that take them, and something that
// does no harm into those that must be given.
func fill(m protoreflect.Message, in ids) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		set := func(s string) { m.Set(f, protoreflect.ValueOfString(s)) }
		switch name := string(f.Name()); {
		case f.IsList() && name == "bindings":
			b := m.Mutable(f).List().AppendMutable().Message()
			fill(b, in)
		case f.IsList() && name == "jobs" && f.Message() != nil:
			fill(m.Mutable(f).List().AppendMutable().Message(), in)
		case f.IsList() && name == "command":
			m.Mutable(f).List().Append(protoreflect.ValueOfString("true"))
		case f.IsList() || f.IsMap():
		case f.Message() != nil && slices.Contains([]string{"job", "queue", "binding"}, name):
			fill(m.Mutable(f).Message(), in)
		case f.Kind() != protoreflect.StringKind:
		case name == "tenant_id":
			set(in.tenant)
		case name == "job_id":
			set(in.job)
		case name == "verb":
			set("job.read")
		case name == "role":
			set("viewer")
		case name == "subject":
			set("oidc:nobody")
		case name == "node_id":
			set("n1")
		case name == "name" && strings.Contains(string(m.Descriptor().Name()), "Reservation"):
			set("window-" + in.tenant)
		case name == "name" && (strings.Contains(string(m.Descriptor().Name()), "Token") || strings.Contains(string(m.Descriptor().Name()), "Policy")):
			set(in.other)
		case name == "name" && (m.Descriptor().Name() == "Queue" || strings.Contains(string(m.Descriptor().Name()), "Queue")):
			set(in.other)
		}
	}
}

// own, others and nothing are what requests are about.
func (e *estate) ids(whose string) ids {
	switch whose {
	case "own":
		return ids{tenant: "a", job: e.jobs["a"], other: "q"}
	case "foreign":
		return ids{tenant: "b", job: e.jobs["b"], other: "q"}
	}
	return ids{tenant: "c", job: string(ares.NewJobID("c", "r")), other: "q"}
}

// call calls a method by what the contract says of it, and tells its answer.
func (e *estate) call(method string, desc protoreflect.MethodDescriptor, token string, in ids) (codes.Code, string) {
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	if token != "" {
		ctx = as(ctx, token)
	}
	req, resp := dynamicpb.NewMessage(desc.Input()), dynamicpb.NewMessage(desc.Output())
	fill(req, in)
	if desc.Name() == "PredictJob" { // by its ID
		req.Clear(desc.Input().Fields().ByName("job"))
	}
	text := func(err error) string {
		if err != nil {
			return status.Convert(err).Message()
		}
		return protojson.MarshalOptions{}.Format(resp)
	}
	if !desc.IsStreamingServer() && !desc.IsStreamingClient() {
		err := e.conn.Invoke(ctx, method, req, resp)
		return status.Code(err), text(err)
	}
	s, err := e.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return status.Code(err), text(err)
	}
	if method == apipb.ClusterService_WatchEvents_FullMethodName {
		return e.firstEvents(ctx, s, req)
	}
	_ = s.SendMsg(req) // RecvMsg tells
	_ = s.CloseSend()
	err = s.RecvMsg(resp)
	if err == io.EOF { //nolint:errorlint // gRPC says it so
		return codes.OK, ""
	}
	return status.Code(err), text(err)
}

// firstEvents reads what happened so far, up to a job of tenant a that is
// submitted for it.
func (e *estate) firstEvents(ctx context.Context, s grpc.ClientStream, req *dynamicpb.Message) (codes.Code, string) {
	req = dynamicpb.NewMessage(req.Descriptor())
	req.Set(req.Descriptor().Fields().ByName("revision"), protoreflect.ValueOfString("3"))
	_ = s.SendMsg(req) // RecvMsg tells
	_ = s.CloseSend()
	all := ""
	for {
		resp := &apipb.WatchEventsResponse{}
		if err := s.RecvMsg(resp); err != nil {
			return status.Code(err), status.Convert(err).Message()
		}
		if all += resp.String(); resp.GetTenantId() == "a" {
			last := e.submit("tenant_id", "a")
			for {
				if err := s.RecvMsg(resp); err != nil {
					return status.Code(err), err.Error()
				}
				if all += resp.String(); resp.GetJobId() == last {
					return codes.OK, all
				}
			}
		}
	}
}

// methods lists every method of the contract.
func methods() map[string]protoreflect.MethodDescriptor {
	out := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("ares.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for k := range s.Methods().Len() {
				m := s.Methods().Get(k)
				out[fmt.Sprintf("/%s/%s", s.FullName(), m.Name())] = m
			}
		}
		return true
	})
	return out
}

// TestAccess calls every method of the contract as every role, about things of
// its own tenant and of another, and wants what testdata/access.txt says. A
// method without a row there, or without a rule, fails it.
func TestAccess(t *testing.T) {
	table, all := readTable(t), methods()
	for method := range all {
		if _, ok := access[method]; !ok {
			t.Errorf("%s has no rule in access: say who may call it", method)
		}
		if table[method] == nil {
			t.Errorf("%s has no row in testdata/access.txt: say who may call it", method)
		}
	}
	for method := range access {
		if all[method] == nil {
			t.Errorf("access has a rule for %s, which is no method", method)
		}
	}
	for method := range table {
		if all[method] == nil {
			t.Errorf("testdata/access.txt has a row for %s, which is no method", method)
		}
	}
	if t.Failed() {
		return
	}
	e := newEstate(t)
	for _, method := range inTurn(all) {
		for _, column := range columns {
			who, whose, _ := strings.Cut(column, "/")
			e.expect(method, all[method], column, table[method][column], who, whose)
		}
	}
	if _, err := e.admit(t.Context(), "/ares.v1.JobService/Steal"); ares.CodeOf(err) != ares.Forbidden {
		t.Errorf("a method without a rule: %v", err)
	}
}

// onlyReads says whether a method changes nothing, by its name.
func onlyReads(method string) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	return slices.ContainsFunc([]string{"Get", "List", "Watch", "Explain", "Predict", "WhoAmI", "CanI"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// inTurn orders methods so that nothing is gone before it is read.
func inTurn(all map[string]protoreflect.MethodDescriptor) []string {
	rank := func(method string) int {
		name := method[strings.LastIndexByte(method, '/')+1:]
		switch {
		case onlyReads(method):
			return 0
		case slices.ContainsFunc([]string{"Delete", "Revoke", "Remove", "Cancel"}, func(p string) bool { return strings.HasPrefix(name, p) }):
			return 2
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a, b)) })
}

// expect calls a method once and compares with the table.
func (e *estate) expect(method string, desc protoreflect.MethodDescriptor, column, want, who, whose string) {
	e.t.Helper()
	if whose == "" {
		whose = "own"
	}
	code, text := e.call(method, desc, e.tokens[who], e.ids(whose))
	got := ""
	switch code {
	case codes.Unauthenticated:
		got = lacking
	case codes.PermissionDenied:
		got = denied
	default:
		got = does
	}
	if agents := strings.Contains(method, "AgentService"); (want == does || want == filters) && code != codes.OK && onlyReads(method) && !agents {
		e.t.Errorf("%s %s: %s %s, want an answer", method, column, code, text) // else nothing was tried
	}
	switch {
	case want == filters:
		if got != does {
			break
		}
		got = want
		for _, secret := range []string{canaryOf("b"), e.jobs["b"], "window-b", `"b"`, "tenant b"} {
			if strings.Contains(text, secret) {
				e.t.Errorf("%s %s was told of %s: %s", method, column, secret, text)
			}
		}
	case want == unknown:
		there := e.ids("foreign")
		nothing := e.ids("nothing")
		code2, text2 := e.call(method, desc, e.tokens[who], nothing)
		plain := strings.NewReplacer(there.job, "ID", nothing.job, "ID", `tenant b`, "TENANT", `tenant c`, "TENANT", `"b"`, "TENANT", `"c"`, "TENANT", "b/q", "TENANT/q", "c/q", "TENANT/q", "window-b", "W", "window-c", "W")
		if code == code2 && code != codes.OK && plain.Replace(text) == plain.Replace(text2) && got == does {
			got = unknown
		} else {
			got = fmt.Sprintf("%s %q, and of nothing %s %q", code, text, code2, text2)
		}
	}
	if got != want {
		e.t.Errorf("%s %s: got %s (%s %q), want %s", method, column, got, code, text, want)
	}
}
