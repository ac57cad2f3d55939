package client_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The type `fake` is a test server that returns the configured errors and
// records the requests.
type fake struct {
	apipb.UnimplementedJobServiceServer
	apipb.UnimplementedTenantServiceServer
	apipb.UnimplementedClusterServiceServer
	apipb.UnimplementedQueueServiceServer

	mu       sync.Mutex
	faults   []error // returned first, one per call
	stuck    int     // calls that are never answered, after the faults
	requests []string
	tokens   []string
	jobs     map[string]bool
	states   []string // answers of GetJob, one after the other
	events   [][]string
	watched  []string
	logs     []any // string: data; error: end of the stream
}

// The method `fault` returns the error that the next call must return, or nil
// if that call must succeed.
func (f *fake) fault(ctx context.Context) error {
	f.mu.Lock()
	md, _ := metadata.FromIncomingContext(ctx)
	f.tokens = append(f.tokens, strings.Join(md.Get("authorization"), ","))
	if len(f.faults) > 0 {
		err := f.faults[0]
		f.faults = f.faults[1:]
		f.mu.Unlock()
		return err
	}
	stuck := f.stuck > 0
	f.stuck--
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fake) SubmitJob(ctx context.Context, req *apipb.SubmitJobRequest) (*apipb.SubmitJobResponse, error) {
	f.mu.Lock()
	id := req.GetJob().GetRequestId()
	f.requests = append(f.requests, id)
	known := f.jobs[id]
	f.jobs[id] = true // the job is created before the fault, so only the answer is lost
	f.mu.Unlock()
	if err := f.fault(ctx); err != nil {
		return nil, err
	}
	answer := &apipb.SubmitJobResponse{JobId: string(ares.NewJobID("default", id)), Status: "submitted"}
	if known {
		answer.Status = "duplicate"
	}
	return answer, nil
}

func (f *fake) SubmitJobs(ctx context.Context, req *apipb.SubmitJobsRequest) (*apipb.SubmitJobsResponse, error) {
	answer := &apipb.SubmitJobsResponse{Accepted: int32(len(req.GetJobs()))}
	for _, job := range req.GetJobs() {
		answer.Results = append(answer.Results, &apipb.SubmitResult{JobId: job.GetRequestId(), Status: "submitted"})
	}
	return answer, f.fault(ctx)
}

func (f *fake) GetJob(ctx context.Context, req *apipb.GetJobRequest) (*apipb.GetJobResponse, error) {
	if err := f.fault(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	state := f.states[0]
	if len(f.states) > 1 {
		f.states = f.states[1:]
	}
	return &apipb.GetJobResponse{Job: &apipb.Job{JobId: req.GetJobId(), State: state}}, nil
}

func (f *fake) ListJobs(_ context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	switch req.GetPageToken() {
	case "":
		return &apipb.ListJobsResponse{Jobs: []*apipb.Job{{JobId: "a"}, {JobId: "b"}}, NextPageToken: "2", Revision: "7"}, nil
	case "2":
		return &apipb.ListJobsResponse{Jobs: []*apipb.Job{{JobId: "c"}}, Revision: "7"}, nil
	}
	return nil, status.Error(codes.InvalidArgument, "page_token")
}

func (f *fake) StreamLogs(_ *apipb.StreamLogsRequest, stream grpc.ServerStreamingServer[apipb.StreamLogsResponse]) error {
	for {
		f.mu.Lock()
		if len(f.logs) == 0 {
			f.mu.Unlock()
			return nil
		}
		next := f.logs[0]
		f.logs = f.logs[1:]
		f.mu.Unlock()
		if err, ok := next.(error); ok {
			return err
		}
		if err := stream.Send(&apipb.StreamLogsResponse{Data: []byte(next.(string))}); err != nil {
			return err
		}
	}
}

// WatchEvents sends one list of events on each stream, and then breaks the
// stream. Each event is a text of the form "revision message".
func (f *fake) WatchEvents(req *apipb.WatchEventsRequest, stream grpc.ServerStreamingServer[apipb.WatchEventsResponse]) error {
	f.mu.Lock()
	f.watched = append(f.watched, req.GetRevision())
	var events []string
	if len(f.events) > 0 {
		events, f.events = f.events[0], f.events[1:]
	}
	f.mu.Unlock()
	for _, e := range events {
		revision, message, _ := strings.Cut(e, " ")
		if err := stream.Send(&apipb.WatchEventsResponse{Revision: revision, Message: message}); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "broken off")
}

func (f *fake) DeleteTenant(ctx context.Context, _ *apipb.DeleteTenantRequest) (*apipb.DeleteTenantResponse, error) {
	return &apipb.DeleteTenantResponse{}, f.fault(ctx)
}

// The function `serve` starts the test server f and returns its address.
func serve(t *testing.T, f *fake) string {
	t.Helper()
	f.jobs = map[string]bool{}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	apipb.RegisterJobServiceServer(srv, f)
	apipb.RegisterTenantServiceServer(srv, f)
	apipb.RegisterClusterServiceServer(srv, f)
	apipb.RegisterQueueServiceServer(srv, f)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return lis.Addr().String()
}

func connect(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	if o.Token == "" && o.TokenFile == "" {
		o.Token = "secret"
	}
	o.Backoff = time.Millisecond
	c, err := client.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

var away = status.Error(codes.Unavailable, "no leader")

func TestRetriesKeepTheRequestID(t *testing.T) {
	f := &fake{faults: []error{away, away}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	spec := &apipb.JobSpec{Name: "x"}
	answer, err := c.Submit(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.requests) != 3 || f.requests[0] == "" || f.requests[0] != f.requests[1] || f.requests[1] != f.requests[2] {
		t.Errorf("request IDs of the three tries: %q", f.requests)
	}
	if answer.GetStatus() != "duplicate" || len(f.jobs) != 1 {
		t.Errorf("answer %v, %d jobs; want one job", answer, len(f.jobs))
	}
	if spec.GetRequestId() != "" {
		t.Error("the caller's spec was changed")
	}
	if !slices.Equal(f.tokens, []string{"Bearer secret", "Bearer secret", "Bearer secret"}) {
		t.Errorf("tokens %q", f.tokens)
	}
}

func TestTheCallersRequestIDIsKept(t *testing.T) {
	f := &fake{}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	for _, want := range []string{"submitted", "duplicate"} {
		answer, err := c.Submit(t.Context(), &apipb.JobSpec{RequestId: "mine"})
		if err != nil || answer.GetStatus() != want {
			t.Errorf("got %v, %v; want %s", answer, err, want)
		}
	}
	if !slices.Equal(f.requests, []string{"mine", "mine"}) {
		t.Errorf("sent %q", f.requests)
	}
}

func TestATryThatHangsIsRepeated(t *testing.T) {
	f := &fake{stuck: 1}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}, CallTimeout: 3 * time.Second}) // the second try is answered well within this time
	if _, err := c.Submit(t.Context(), &apipb.JobSpec{}); err != nil {
		t.Fatal(err)
	}
	if len(f.requests) != 2 || f.requests[0] != f.requests[1] {
		t.Errorf("sent %q", f.requests)
	}
}

func TestTheCallersDeadlineEnds(t *testing.T) {
	f := &fake{stuck: 99}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Submit(ctx, &apipb.JobSpec{RequestId: "r1"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "r1") {
		t.Errorf("got %v; want the deadline and the request_id to repeat with", err)
	}
}

func TestTheServersHintIsKept(t *testing.T) {
	slow := apipb.WithRetryAfter(ares.Errorf(ares.Exhausted, "slow down"), 80*time.Millisecond)
	f := &fake{faults: []error{slow}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	begin := time.Now()
	if _, err := c.Submit(t.Context(), &apipb.JobSpec{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 80*time.Millisecond {
		t.Errorf("came back after %s, the server asked for 80ms", took)
	}
}

func TestRefusalsAreNotRepeated(t *testing.T) {
	var p ares.Problems
	p.Add("gpu_count", "must be between 0 and 1024, got -1")
	p.Add("command", "is required")
	for _, refusal := range []error{
		p.Err(), ares.Errorf(ares.QuotaExceeded, "quota"), ares.Errorf(ares.Conflict, "another body"),
		ares.Errorf(ares.Unauthentic, "who"), ares.Errorf(ares.TooLarge, "2 MB"),
	} {
		f := &fake{faults: []error{apipb.ToStatus(refusal)}}
		c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
		_, err := c.Submit(t.Context(), &apipb.JobSpec{})
		if ares.CodeOf(err) != ares.CodeOf(refusal) || err.Error() != refusal.Error() || len(f.requests) != 1 {
			t.Errorf("got %v after %d tries, want %v after one", err, len(f.requests), refusal)
		}
	}
}

func TestTheNextAddress(t *testing.T) {
	const dead = "127.0.0.1:1" // nothing listens on this port; a free port could be taken by another program
	f := &fake{}
	c := connect(t, client.Options{Addresses: []string{dead, serve(t, f)}})
	for range 2 {
		if _, err := c.Submit(t.Context(), &apipb.JobSpec{}); err != nil {
			t.Fatal(err)
		}
	}
	only := connect(t, client.Options{Addresses: []string{dead}, Attempts: 2})
	if _, err := only.Job(t.Context(), "x"); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
}

func TestPlainTextStaysOnTheMachine(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:9090": true, "localhost:1": true, "[::1]:9090": true, "unix:///run/ares.sock": true,
		"10.0.0.1:9090": false, "ares.example.com:443": false, "localhost.example.com:1": false, "0.0.0.0:9090": false,
	} {
		c, err := client.New(client.Options{Addresses: []string{addr}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if c != nil {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestTheTokenFileIsReadAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if _, err := client.New(client.Options{TokenFile: file}); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("a missing token file: %v", err)
	}
	f := &fake{}
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}, TokenFile: file})
	for _, token := range []string{"one", "two"} {
		write(token)
		if _, err := c.Submit(t.Context(), &apipb.JobSpec{}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(f.tokens, []string{"Bearer one", "Bearer two"}) {
		t.Errorf("tokens %q", f.tokens)
	}
}

func TestAllJobsGoesOverPages(t *testing.T) {
	c := connect(t, client.Options{Addresses: []string{serve(t, &fake{})}})
	var got []string
	for job, err := range c.AllJobs(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, job.GetJobId())
	}
	if !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
}

func TestWaitSurvivesAnAbsence(t *testing.T) {
	f := &fake{states: []string{"pending", "running", "failed"}, faults: []error{nil, away, away, away}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}, Attempts: 1})
	job, err := c.Wait(t.Context(), "job-x")
	if err != nil || job.GetState() != "failed" {
		t.Errorf("got %v, %v", job, err)
	}
}

func TestWaitSaysWhatItSawLast(t *testing.T) {
	seen := &fake{states: []string{"pending", "running"}, faults: []error{nil, nil, nil}, stuck: 1}
	for want, f := range map[string]*fake{"running": seen, "": {stuck: 1}} {
		c := connect(t, client.Options{Addresses: []string{serve(t, f)}, Attempts: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		job, err := c.Wait(ctx, "job-x")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || job.GetState() != want || (job == nil) != (want == "") {
			t.Errorf("got %v, %v", job, err)
		}
	}
}

func TestBatchIsSplit(t *testing.T) {
	c := connect(t, client.Options{Addresses: []string{serve(t, &fake{faults: []error{away}})}})
	specs := make([]*apipb.JobSpec, 2500)
	for i := range specs {
		specs[i] = &apipb.JobSpec{Name: "n"}
	}
	answer, err := c.SubmitBatch(t.Context(), specs)
	if err != nil || answer.GetAccepted() != 2500 || len(answer.GetResults()) != 2500 {
		t.Errorf("%d accepted, %d results, %v", answer.GetAccepted(), len(answer.GetResults()), err)
	}
}

func TestDeletedByALostTry(t *testing.T) {
	f := &fake{faults: []error{away, apipb.ToStatus(ares.Errorf(ares.NotFound, "no tenant"))}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	if err := c.DeleteTenant(t.Context(), "t"); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestLogs(t *testing.T) {
	f := &fake{logs: []any{away, "one\n", "two\n"}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	var out strings.Builder
	if err := c.Logs(t.Context(), "j", client.LogOptions{}, &out); err != nil || out.String() != "one\ntwo\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	f.logs = []any{"half", away, "half again"}
	out.Reset()
	if err := c.Logs(t.Context(), "j", client.LogOptions{}, &out); ares.CodeOf(err) != ares.Unavailable || out.String() != "half" {
		t.Errorf("a stream that broke: %q, %v", out.String(), err)
	}
}

func TestWatchGoesOnWhereItBroke(t *testing.T) {
	f := &fake{events: [][]string{{"8 a", "9 b", "9 c"}, {}, {"9 b", "9 c", "9 d", "12 e"}, {"12 e", "13 f"}}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}, Attempts: 3})
	var got string
	var last error
	for event, err := range c.WatchEvents(t.Context(), &apipb.WatchEventsRequest{}) {
		last = err
		got += event.GetMessage()
	}
	if got != "abcdef" || ares.CodeOf(last) != ares.Unavailable {
		t.Errorf("got %q and then %v", got, last)
	}
	if !slices.Equal(f.watched[:4], []string{"7", "8", "8", "11"}) {
		t.Errorf("streams began after %q", f.watched)
	}
	for event := range c.WatchEvents(t.Context(), &apipb.WatchEventsRequest{Revision: "3"}) {
		t.Logf("unexpected %v", event)
		break // a caller may stop early
	}
}
