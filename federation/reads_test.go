package federation_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// A scene is a hub with one member that runs a job. The member answers reads of output with the function `answer`.
type scene struct {
	t      *testing.T
	h      *hub
	m      *member
	job    ares.JobID
	who    federation.Reader
	answer *atomic.Pointer[answerer] // of the member
}

type answerer func(ctx context.Context, q *apipb.OwnerRead, send func(*apipb.ReadAnswer) error) error

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, h: newHub(t)}
	s.m = newMember(t, s.h, "a")
	s.answer = &s.m.answer
	s.job = s.h.submit()
	s.h.await(s.job, ares.Running)
	s.who = federation.Reader{Name: "token:ada", Tenant: s.h.tenant.ID}
	s.awaitLink(s.h)
	return s
}

// awaitLink waits until the member answers reads of a server of the hub.
func (s *scene) awaitLink(h *hub) {
	s.t.Helper()
	controltest.Await(s.t, s.h.view, "the member to answer reads", func() bool {
		_, _, err := h.hub.OwnerRun(s.t.Context(), s.job, s.who)
		return err == nil
	})
}

// The method `run` returns the hub's copy of the job's run.
func (s *scene) run() *ares.Run { return &s.h.view.Job(s.job).Run }

// The method `logs` reads output through a server of the hub.
func (s *scene) logs(ctx context.Context, h *hub, send func(*apipb.StreamLogsResponse) error) error {
	run := s.run()
	return h.hub.OwnerLogs(ctx, run, run.Last(), &apipb.StreamLogsRequest{JobId: string(s.job)}, s.who, send)
}

// part returns output as a part of an answer.
func part(data []byte) *apipb.ReadAnswer {
	return &apipb.ReadAnswer{Body: &apipb.ReadAnswer_Logs{Logs: &apipb.StreamLogsResponse{Data: data, Attempt: 77}}}
}

// follow is an answer that says `hello` and then waits for the end of its context, which it reports.
func follow(ended chan<- error) *answerer {
	a := answerer(func(ctx context.Context, _ *apipb.OwnerRead, send func(*apipb.ReadAnswer) error) error {
		if err := send(part([]byte("hello"))); err != nil {
			return err
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	return &a
}

// TestOwnerRun reads the run of a job from its owner. The attempts must have the numbers that the hub gives them, and an owner
// without the job must not be believed.
func TestOwnerRun(t *testing.T) {
	s := newScene(t)
	run, _, err := s.h.hub.OwnerRun(t.Context(), s.job, s.who)
	if err != nil || run.Phase != ares.Running || run.Cluster != "a" || len(run.Attempts) != 1 || run.AsOf < s.run().AsOf {
		t.Fatalf("%+v, %v", run, err)
	}
	if run.Transitions[0].Message != s.run().Transitions[0].Message {
		t.Errorf("the events begin with %q, not with what happened at the hub", run.Transitions[0].Message)
	}
	if err = s.m.s.ReportProgress(t.Context(), store.SeatRef{Job: s.job, Fence: s.m.view.Job(s.job).Run.Last().Fence, Node: s.m.node.ID}, s.m.node.Session, ares.Progress{Percent: 40, Message: "half", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, progress, err := s.h.hub.OwnerRun(t.Context(), s.job, s.who); err != nil || progress == nil || progress.Percent != 40 {
		t.Errorf("the progress is %+v, %v", progress, err)
	}
	close(s.m.gate)
	s.h.await(s.job, ares.Succeeded)
	if run, _, err = s.h.hub.OwnerRun(t.Context(), s.job, s.who); err != nil || run.Phase != ares.Succeeded {
		t.Errorf("after the end: %+v, %v", run, err)
	}
}

// TestOwnerLogs reads output in many parts, through the leader of the hub and through another server of it, also after the
// job has ended.
func TestOwnerLogs(t *testing.T) {
	s := newScene(t)
	other := s.h.another(s.m)
	s.awaitLink(other)
	asked := make(chan *apipb.OwnerRead, 8)
	all := answerer(func(_ context.Context, q *apipb.OwnerRead, send func(*apipb.ReadAnswer) error) error {
		asked <- q
		for i := range 100 {
			if err := send(part(fmt.Appendf(nil, "line %d\n", i))); err != nil {
				return err
			}
		}
		return nil
	})
	s.answer.Store(&all)
	read := func(h *hub) {
		t.Helper()
		var out strings.Builder
		err := s.logs(t.Context(), h, func(m *apipb.StreamLogsResponse) error {
			if out.Write(m.GetData()); m.GetAttempt() != 1 {
				return fmt.Errorf("attempt %d", m.GetAttempt())
			}
			return nil
		})
		q := <-asked
		if err != nil || strings.Count(out.String(), "line") != 100 || !strings.HasSuffix(out.String(), "line 99\n") {
			t.Errorf("%v, got %q", err, out.String())
		}
		if fence := int64(s.m.view.Job(s.job).Run.Last().Fence); q.GetFence() != fence || q.GetCaller() != "token:ada" || q.GetTenantId() != s.h.tenant.ID {
			t.Errorf("the member was asked %v, and its attempt has fence %d", q, fence)
		}
	}
	read(s.h)
	read(other)
	close(s.m.gate)
	s.h.await(s.job, ares.Succeeded)
	read(s.h)
	failing := answerer(func(context.Context, *apipb.OwnerRead, func(*apipb.ReadAnswer) error) error {
		return ares.Errorf(ares.NotFound, "no such rank").At("rank")
	})
	s.answer.Store(&failing)
	err := s.logs(t.Context(), s.h, nil)
	if e, ok := errors.AsType[*ares.Error](err); !ok || e.Code != ares.NotFound || e.Field != "rank" || e.Message != "cluster a: no such rank" {
		t.Errorf("the member's error is %v", err)
	}
}

// TestSlowReader reads the first part of a large output, and then nothing. The member must stop sending, must stay in its session,
// and must notice when the reader leaves.
func TestSlowReader(t *testing.T) {
	s := newScene(t)
	const size = 16 << 10
	var sent atomic.Int64
	ended := make(chan error, 1)
	endless := answerer(func(_ context.Context, _ *apipb.OwnerRead, send func(*apipb.ReadAnswer) error) error {
		for {
			if err := send(part(make([]byte, size))); err != nil {
				ended <- err
				return err
			}
			sent.Add(size)
		}
	})
	s.answer.Store(&endless)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, read := make(chan struct{}), make(chan error, 1)
	go func() {
		read <- s.logs(ctx, s.h, func(*apipb.StreamLogsResponse) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	<-begun
	for range 5 { // heartbeats
		was, _ := s.h.hub.Heard("a")
		controltest.Await(t, s.h.view, "a heartbeat", func() bool { at, _ := s.h.hub.Heard("a"); return at.After(was) })
	}
	if n := sent.Load(); n > 1<<20 {
		t.Errorf("the member has sent %d bytes, and the reader has read %d", n, size)
	}
	if mode, age, why := s.m.uplink.Mode(); mode != "federated" || age > 3*heartbeat {
		t.Errorf("the member is %s, last answer %s ago: %s", mode, age, why)
	}
	cancel()
	if err := <-read; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the member could send after the reader had left")
	}
}

// TestReaderLeaves follows output that does not come. When the reader leaves, the member's work for it must end.
func TestReaderLeaves(t *testing.T) {
	s := newScene(t)
	ended := make(chan error, 1)
	s.answer.Store(follow(ended))
	ctx, cancel := context.WithCancel(t.Context())
	err := s.logs(ctx, s.h, func(*apipb.StreamLogsResponse) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-ended
}

// TestManyReads opens as many reads as a member allows. One more must be refused, and must be possible again when one has
// ended.
func TestManyReads(t *testing.T) {
	s := newScene(t)
	const most = 64
	ended := make(chan error, 2*most)
	s.answer.Store(follow(ended))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, over := make(chan struct{}, 2*most), make(chan error, 2*most)
	read := func() {
		over <- s.logs(ctx, s.h, func(*apipb.StreamLogsResponse) error { begun <- struct{}{}; return nil })
	}
	for range most {
		go read()
	}
	for range most {
		<-begun
	}
	if err := s.logs(ctx, s.h, nil); ares.CodeOf(err) != ares.Exhausted || !strings.Contains(err.Error(), "64 times from cluster a") {
		t.Errorf("one more read: %v", err)
	}
	cancel()
	for range most {
		<-over
		<-ended
	}
	if _, _, err := s.h.hub.OwnerRun(t.Context(), s.job, s.who); err != nil {
		t.Error(err)
	}
}

// TestMemberGone cuts the connection of a member during a read. The read must end with an error that says since when the member
// is gone, and so must the next one, until the member is back.
func TestMemberGone(t *testing.T) {
	s := newScene(t)
	ended := make(chan error, 1)
	s.answer.Store(follow(ended))
	err := s.logs(t.Context(), s.h, func(*apipb.StreamLogsResponse) error {
		s.m.wire.set(true)
		return nil
	})
	<-ended
	check := func(err error) {
		t.Helper()
		if ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "cluster a ") || !strings.Contains(err.Error(), " since 20") {
			t.Errorf("%v", err)
		}
	}
	if ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "cluster a ") {
		t.Errorf("the read that was under way ended with %v", err)
	}
	_, _, err = s.h.hub.OwnerRun(t.Context(), s.job, s.who)
	check(err)
	if _, err = s.h.s.UpdateCluster(t.Context(), "a", func(c *store.Cluster) error {
		c.Unreachable, c.HealthSince = true, time.Now()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.h.hub.OwnerRun(t.Context(), s.job, s.who)
	check(err)
	if !strings.Contains(err.Error(), "ares cluster declare-dead a") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	s.m.wire.set(false)
	s.awaitLink(s.h)
}

// TestRefusedReads asks the member about jobs that the hub must not read.
func TestRefusedReads(t *testing.T) {
	s := newScene(t)
	hubID, _, err := s.h.s.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tenant, err := s.m.s.Tenant(t.Context(), s.h.tenant.ID)
	if err != nil {
		t.Fatal(err)
	}
	local := storetest.JobOf(tenant, storetest.Sleep())
	if got := s.m.s.Create(t.Context(), []store.Creation{local})[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	granted := s.m.view.Job(s.job).Job
	ask := func(edit func(q *apipb.OwnerRead) (hub string)) error {
		q := &apipb.OwnerRead{Kind: apipb.OwnerRead_KIND_RUN, JobId: string(s.job), Epoch: granted.Origin.Epoch, TenantId: granted.Tenant, Queue: granted.Queue}
		_, err := s.m.uplink.GrantedJob(t.Context(), edit(q), q)
		return err
	}
	if err = ask(func(*apipb.OwnerRead) string { return hubID.Store }); err != nil {
		t.Fatalf("the granted job: %v", err)
	}
	for name, edit := range map[string]func(*apipb.OwnerRead) string{
		"a local job":      func(q *apipb.OwnerRead) string { q.JobId = string(local.Job.ID); return hubID.Store },
		"an unknown job":   func(q *apipb.OwnerRead) string { q.JobId = string(ares.NewHubJobID("x", "y")); return hubID.Store },
		"no ID":            func(q *apipb.OwnerRead) string { q.JobId = "../jobs"; return hubID.Store },
		"another tenant":   func(q *apipb.OwnerRead) string { q.TenantId = "other"; return hubID.Store },
		"another queue":    func(q *apipb.OwnerRead) string { q.Queue = "other"; return hubID.Store },
		"an earlier grant": func(q *apipb.OwnerRead) string { q.Epoch--; return hubID.Store },
		"another hub":      func(*apipb.OwnerRead) string { return "another" },
		"no hub":           func(*apipb.OwnerRead) string { return "" },
	} {
		if err = ask(edit); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "no job") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The output of an archived job may be read by the same rules, and nothing else of it.
	archived := *granted
	archived.ID = ares.NewHubJobID("x", "z")
	s.m.uplink.Archived = func(_ context.Context, id ares.JobID) (store.Snapshot, error) {
		if id != archived.ID {
			return store.Snapshot{}, store.NoJob(id)
		}
		return store.Snapshot{Job: &archived}, nil
	}
	ofArchived := func(edit func(q *apipb.OwnerRead)) error {
		return ask(func(q *apipb.OwnerRead) string {
			q.Kind, q.JobId = apipb.OwnerRead_KIND_LOGS, string(archived.ID)
			edit(q)
			return hubID.Store
		})
	}
	if err = ofArchived(func(*apipb.OwnerRead) {}); err != nil {
		t.Errorf("the output of an archived job: %v", err)
	}
	for name, edit := range map[string]func(*apipb.OwnerRead){
		"its run": func(q *apipb.OwnerRead) { q.Kind = apipb.OwnerRead_KIND_RUN }, "its explanation": func(q *apipb.OwnerRead) { q.Kind = apipb.OwnerRead_KIND_EXPLANATION },
		"an unknown job": func(q *apipb.OwnerRead) { q.JobId = string(ares.NewHubJobID("x", "y")) }, "a local job": func(q *apipb.OwnerRead) { q.JobId = string(local.Job.ID) },
		"another tenant": func(q *apipb.OwnerRead) { q.TenantId = "other" }, "another queue": func(q *apipb.OwnerRead) { q.Queue = "other" },
		"an earlier grant": func(q *apipb.OwnerRead) { q.Epoch-- },
	} {
		if err = ofArchived(edit); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "no job") {
			t.Errorf("an archived job, %s: %v", name, err)
		}
	}
	// The same over the wire: the hub's error names the cluster.
	_, _, err = s.h.hub.OwnerRun(t.Context(), s.job, federation.Reader{Name: "token:eve", Tenant: "other"})
	if ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "cluster a: ") {
		t.Errorf("a reader of another tenant: %v", err)
	}
}

// TestRefusedMembers opens streams for reads as a cluster that the caller is not, and with the cookie of an earlier session.
func TestRefusedMembers(t *testing.T) {
	s := newScene(t)
	s.h.caller.Store(true)
	conn, err := grpc.NewClient("passthrough:///"+s.h.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	calls := apipb.NewFederationServiceClient(conn)
	as := func(name string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "cluster", name)
	}
	serve := func(ctx context.Context, cookie string) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // a member that is accepted waits for reads
		defer cancel()
		stream, err := calls.ServeReads(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err = stream.Send(&apipb.MemberPresence{Cluster: "a", Cookie: cookie}); err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		return err
	}
	c, err := s.h.s.Cluster(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err = serve(as("b"), c.Cookie); status.Code(err) != codes.PermissionDenied {
		t.Errorf("as another cluster: %v", err)
	}
	for _, cookie := range []string{"", "stale"} {
		if err = serve(as("a"), cookie); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "does not belong to") {
			t.Errorf("with cookie %q: %v", cookie, err)
		}
	}
	answer, err := calls.AnswerRead(as("b"))
	if err != nil {
		t.Fatal(err)
	}
	if err = answer.Send(&apipb.ReadAnswer{Cluster: "a", Id: 1}); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if _, err = answer.CloseAndRecv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("an answer as another cluster: %v", err)
	}
	s.h.caller.Store(false)
	s.awaitLink(s.h) // the member's own link was not replaced
}

// another starts a second server of the hub, which does not lead it, and makes it known to a member.
func (h *hub) another(m *member) *hub {
	h.t.Helper()
	other := &hub{t: h.t, s: h.s, view: h.view, tenant: h.tenant}
	other.hub = federation.NewHub(h.view)
	other.hub.Store, other.hub.Server, other.hub.Log, other.hub.Heartbeat = h.s, "hub-2", controltest.Quiet, heartbeat
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	other.addr = lis.Addr().String()
	other.serve(lis)
	if _, err = m.s.UpdateMembership(h.t.Context(), func(mb *store.Membership) error {
		mb.HubURL = h.addr + "," + other.addr
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	m.stop()
	m.start()
	return other
}
