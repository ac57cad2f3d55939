package api

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"github.com/ares-scheduler/ares/objects/bucket"
	"io"
	"log/slog"
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
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/asciicast"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/sessionrecording"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/objects"
	"github.com/ares-scheduler/ares/store"
)

// The variable `columns` lists the columns of testdata/access.txt. A column's name says which role the caller
// has in tenant a. It also says whether the call is about objects of tenant a ("own") or of tenant b
// ("foreign").
var columns = []string{
	"anybody", "viewer/own", "viewer/foreign", "submitter/own", "submitter/foreign", "tenant-admin/own", "tenant-admin/foreign",
	"auditor/own", "auditor/foreign", "platform-admin/own", "agent/own", "agent/foreign", "unbound/own",
}

// These are the possible results of a call in testdata/access.txt.
const (
	does    = "yes"    // the call is accepted
	denied  = "no"     // permission denied
	unknown = "absent" // answered exactly as if the object did not exist
	filters = "own"    // accepted, and the answer contains nothing that belongs to tenant b
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

// The type `estate` is a test server with two tenants, which have objects of the same kinds.
type estate struct {
	*house
	conn   *grpc.ClientConn
	tokens map[string]string
	jobs   map[string]string // by tenant
	past   *history.History
}

func newEstate(t *testing.T) *estate {
	engine := &fakeEngine{fair: ares.Fairness{Shares: []ares.FairShare{{Tenant: "a"}, {Tenant: "b"}, {Tenant: "b", Queue: "default"}}}}
	e := &estate{tokens: map[string]string{"anybody": ""}, jobs: map[string]string{}}
	log := openLog(t, nil)
	past, err := history.Open(history.Config{File: filepath.Join(t.TempDir(), "history.db")})
	must(t, err)
	t.Cleanup(func() { must(t, past.Close()) })
	e.past = past
	e.house = newHouse(t, func(c *Config) {
		c.Audit, c.AuditLog = log, log
		c.Accounting = &accounting.Accounting{View: c.View, History: past, Now: time.Now}
		c.Secrets = newSecrets(t, c.Store)
		c.Sessions = &service.Sessions{Files: &service.Files{View: c.View}, Recorder: newRecordings(t)}
		c.AgentService, c.Engine, c.Logs = noAgents{}, engine, noLogs{}
		c.Predict = func(*ares.Job) ares.RuntimePredicted {
			return ares.RuntimePredicted{P50: time.Second, P90: time.Minute}
		}
	})
	_, err = e.store.OpenSession(t.Context(), ares.Node{ID: "n1"}, "0123456789abcdef", "here:1", 5*time.Minute, 0)
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
	keepCluster(t, e.store, store.Cluster{Name: "east", Decided: store.ClusterReady, LocalTenants: []string{canaryOf("b")}}) // a cluster reads its copy
	_, err = e.store.RegisterCluster(t.Context(), store.Cluster{Name: "east", RegisteredAt: time.Now()})
	must(t, err)
	_, err = e.store.UpdateCluster(t.Context(), "east", func(c *store.Cluster) error {
		c.FederatedTenants, c.LocalTenants = []string{"b"}, []string{canaryOf("b")} // only administrators learn them
		return nil
	})
	must(t, err)
	window := &ares.Reservation{Name: "window-b", Tenant: "b"}
	reserved := ares.Textf("reserved %s until tomorrow (%s)", window.For(), window.Ref())
	engine.explains.ETA = ares.ETA{Basis: reserved}
	engine.blockers = []ares.Blocker{{Kind: "nodes", Detail: ares.Textf("after %s, and %s", ares.JobRef(ares.JobID(e.jobs["b"]), "b", ares.DefaultQueue), reserved)}}
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

// recordingID is the ID of a recording of each tenant.
const recordingID = "20261119T140512-aaaaaaaaaa"

// newRecordings returns a recorder with a recorded session in each of the two tenants.
func newRecordings(t *testing.T) *sessionrecording.Recorder {
	o, err := objects.Open(t.Context(), objects.Config{Place: bucket.InDir(t.TempDir())})
	must(t, err)
	t.Cleanup(func() { _ = o.Close() })
	r := &sessionrecording.Recorder{Objects: o, Mode: sessionrecording.Off, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	for _, tenant := range []string{"a", "b"} {
		x, err := r.Begin(t.Context(), sessionrecording.Info{ID: recordingID, Tenant: tenant, Job: canaryOf(tenant), User: canaryOf(tenant)}, asciicast.Header{Command: canaryOf(tenant)})
		must(t, err)
		x.End("exit code 0")
	}
	return r
}

// canaryOf returns a text that a test uses in the names of one tenant's objects. The text must not be shown
// to another tenant.
func canaryOf(tenant string) string { return canary + "-of-" + tenant }

// The method `put` registers a token.
func (e *estate) put(name, tenant string, bindings ...ares.Binding) string {
	token, hash := auth.NewToken()
	if tenant != "" {
		name = tenant + "/" + name
	}
	must(e.t, e.store.PutToken(e.t.Context(), store.Token{Name: name, Hash: hash, Bindings: bindings}))
	return token
}

type noLogs struct{}

func (noLogs) Logs(context.Context, service.LogQuery, func(service.LogPart) error) error { return nil }

// The type `ids` holds the object IDs that a test puts into the fields of a request.
type ids struct{ tenant, job, other string }

// The function `fill` sets the ID fields of a request, and sets all other required fields to harmless values.
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
		case name == "job_id", name == "reference":
			set(in.job)
		case name == "recording_id":
			set(recordingID)
		case name == "verb":
			set("job.read")
		case name == "role":
			set("viewer")
		case name == "subject":
			set("oidc:nobody")
		case name == "node_id":
			set("n1")
		case name == "name" && strings.Contains(string(m.Descriptor().Name()), "Cluster"):
			set("east")
		case name == "name" && strings.Contains(string(m.Descriptor().Name()), "Reservation"):
			set("window-" + in.tenant)
		case name == "name" && (strings.Contains(string(m.Descriptor().Name()), "Token") || strings.Contains(string(m.Descriptor().Name()), "Policy")):
			set(in.other)
		case name == "name" && (m.Descriptor().Name() == "Queue" || strings.Contains(string(m.Descriptor().Name()), "Queue")):
			set(in.other)
		}
	}
}

// The method `ids` returns the IDs of the caller's own objects, of another tenant's objects, or of objects
// that do not exist.
func (e *estate) ids(whose string) ids {
	switch whose {
	case "own":
		return ids{tenant: "a", job: e.jobs["a"], other: "q"}
	case "foreign":
		return ids{tenant: "b", job: e.jobs["b"], other: "q"}
	}
	return ids{tenant: "c", job: string(ares.NewJobID("c", "r")), other: "q"}
}

// The method `call` calls the API method that has the given descriptor, and returns the code and text of its
// answer.
func (e *estate) call(method string, desc protoreflect.MethodDescriptor, token string, in ids) (codes.Code, string) {
	ctx, cancel := context.WithTimeout(e.t.Context(), time.Minute)
	defer cancel()
	if token != "" {
		ctx = as(ctx, token)
	}
	req, resp := dynamicpb.NewMessage(desc.Input()), dynamicpb.NewMessage(desc.Output())
	fill(req, in)
	if desc.Name() == "PredictJob" { // the request names a job by its ID
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
	_ = s.SendMsg(req) // RecvMsg returns the error
	_ = s.CloseSend()
	err = s.RecvMsg(resp)
	if err == io.EOF { //nolint:errorlint // gRPC says it so
		return codes.OK, ""
	}
	return status.Code(err), text(err)
}

// firstEvents reads all events that have occurred before the call. To find the
// end, firstEvents submits a job of tenant a as a marker and stops when it
// receives that job's event.
func (e *estate) firstEvents(ctx context.Context, s grpc.ClientStream, req *dynamicpb.Message) (codes.Code, string) {
	req = dynamicpb.NewMessage(req.Descriptor())
	req.Set(req.Descriptor().Fields().ByName("revision"), protoreflect.ValueOfString("3"))
	_ = s.SendMsg(req) // RecvMsg returns the error
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

// The function `methods` lists every method of the API.
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

// TestAccess calls every API method as every role, for objects of the caller's tenant and of another tenant.
// It compares the results with testdata/access.txt. The test fails if a method has no row in
// testdata/access.txt.
func TestAccess(t *testing.T) {
	table, all := readTable(t), methods()
	for method := range all {
		if table[method] == nil {
			t.Errorf("%s has no row in testdata/access.txt: say who may call it", method)
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
}

// onlyReads reports whether a method's name shows that the method only reads.
func onlyReads(method string) bool {
	name := method[strings.LastIndexByte(method, '/')+1:]
	return slices.ContainsFunc([]string{"Get", "List", "Watch", "Explain", "Predict", "Resolve", "WhoAmI", "CanI"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// inTurn orders the methods so that each object is read before it is deleted.
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

// The method `expect` calls a method once and compares the result with the value from
// testdata/access.txt.
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
		e.t.Errorf("%s %s: %s %s, want an answer", method, column, code, text) // otherwise the call would have tested nothing
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
