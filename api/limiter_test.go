package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/store"
)

// The function `until` waits for a condition that another goroutine makes true.
func until(ok func() bool) {
	for !ok() {
		runtime.Gosched()
	}
}

func has(g *pipeline.Limiter, open, waiting int) bool {
	o, w := g.UnderWay()
	return o == open && w == waiting
}

// TestGateShares checks that a limiter gives one caller at most half of its slots. If the queue is
// full when a new caller arrives, the limiter must reject a call that is already in the queue. It
// must choose the caller with the most queued calls.
func TestGateShares(t *testing.T) {
	g := pipeline.NewLimiter("read", "calls under way", 4, 2, time.Hour)
	var shed int
	g.Shed = func(string) { shed++ }
	enter := func(who string) func() {
		t.Helper()
		leave, err := g.Enter(t.Context(), pipeline.Account{Name: who})
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, second := enter("greedy"), enter("greedy")
	answers := make(chan string)
	wait := func(who string) {
		go func() {
			leave, err := g.Enter(t.Context(), pipeline.Account{Name: who})
			answers <- fmt.Sprint(who, " ", ares.CodeOf(err))
			if err == nil {
				leave()
			}
		}()
	}
	wait("greedy")
	until(func() bool { return has(g, 2, 1) })
	wait("greedy")
	until(func() bool { return has(g, 2, 2) })
	if err := g.WouldReject(pipeline.Account{Name: "greedy"}); ares.CodeOf(err) != ares.Exhausted || !strings.Contains(err.Error(), "greedy has reached this server's limit for one caller (2 ") {
		t.Errorf("a full line says %v", err)
	}
	if _, err := g.Enter(t.Context(), pipeline.Account{Name: "greedy"}); ares.CodeOf(err) != ares.Exhausted {
		t.Errorf("one too many: %v", err)
	}
	modest := enter("modest") // overtakes the waiting calls, because the other half of the slots is free
	enter("modest")()
	other := enter("other")
	if err := g.WouldReject(pipeline.Account{Name: "modest"}); err != nil {
		t.Errorf("a newcomer is refused: %v", err)
	}
	wait("modest") // all four slots are in use now, and the queue is full
	if got := <-answers; got != "greedy exhausted" {
		t.Errorf("room was made by %s", got)
	}
	other()
	if got := <-answers; got != "modest " {
		t.Errorf("the free place went to %s", got)
	}
	first()
	if got := <-answers; got != "greedy " {
		t.Errorf("the place of greedy went to %s", got)
	}
	second()
	second() // returning a slot twice has no further effect
	modest()
	until(func() bool { return has(g, 0, 0) })
	if len(g.Held) != 0 || len(g.Waiting) != 0 || shed != 3 {
		t.Errorf("left: %+v, %d shed", g, shed)
	}
}

// TestGateLeaving checks that a call leaves the limiter's queue when its caller gives up or when it
// has waited too long. The test also checks that closing the limiter rejects all waiting calls and
// waits for all running calls.
func TestGateLeaving(t *testing.T) {
	g := pipeline.NewLimiter("read", "calls under way", 1, 8, time.Nanosecond)
	leave, err := g.Enter(t.Context(), pipeline.Account{Name: "a"})
	must(t, err)
	if _, err = g.Enter(t.Context(), pipeline.Account{Name: "b"}); ares.CodeOf(err) != ares.Exhausted {
		t.Errorf("waited and was told %v", err)
	}
	g.Wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error)
	go func() {
		_, entered := g.Enter(ctx, pipeline.Account{Name: "b"})
		told <- entered
	}()
	until(func() bool { return has(g, 1, 1) })
	cancel()
	if err = <-told; !errors.Is(err, context.Canceled) || !has(g, 1, 0) {
		t.Errorf("gave up and was told %v", err)
	}
	go func() {
		_, entered := g.Enter(t.Context(), pipeline.Account{Name: "b"})
		told <- entered
	}()
	until(func() bool { return has(g, 1, 1) })
	closed := make(chan struct{})
	go func() {
		g.Close(t.Context())
		close(closed)
	}()
	if err = <-told; ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("in a line that is closed: %v", err)
	}
	select {
	case <-closed:
		t.Error("closed while somebody is inside")
	default:
	}
	leave()
	<-closed
	if _, err = g.Enter(t.Context(), pipeline.Account{Name: "c"}); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("after the close: %v", err)
	}
}

// TestGateUnderLoad uses a limiter from many goroutines. The number of slots in
// use must never exceed the limits, and all slots must be free at the end.
func TestGateUnderLoad(t *testing.T) {
	g := pipeline.NewLimiter("read", "calls under way", 5, 7, time.Millisecond)
	var mu sync.Mutex
	inside := map[string]int{}
	count := func(who string, by int) (all, own int) {
		mu.Lock()
		defer mu.Unlock()
		inside[who] += by
		for _, n := range inside { // order-free: a sum
			all += n
		}
		return all, inside[who]
	}
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(11, uint64(n)))
			who := fmt.Sprint("caller-", n%4)
			for range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if rng.IntN(4) == 0 {
					cancel()
				}
				leave, err := g.Enter(ctx, pipeline.Account{Name: who})
				cancel()
				if err != nil {
					continue
				}
				if all, own := count(who, 1); all > g.Limit || own > g.Share {
					t.Errorf("%d inside, %d of %s", all, own, who)
				}
				runtime.Gosched()
				count(who, -1)
				leave()
			}
		})
	}
	wg.Wait()
	if !has(g, 0, 0) || len(g.Held) != 0 || len(g.Waiting) != 0 {
		t.Errorf("left: %+v", g)
	}
}

// The type `busy` is a test server whose reads and writes hang until they are released.
type busy struct {
	*house
	entered, letGo chan struct{}
	ended          chan string // method of each call that ended
}

const otherToken = "ares-test-other-token"

func newBusy(t *testing.T) *busy {
	t.Helper()
	b := &busy{entered: make(chan struct{}), letGo: make(chan struct{}), ended: make(chan string, 4096)}
	hang := func() {
		select {
		case <-b.letGo:
		case b.entered <- struct{}{}:
			<-b.letGo
		}
	}
	b.house = newHouse(t, func(c *Config) {
		c.Limits = pipeline.Limits{Reads: 4, Writes: 4, Wait: time.Millisecond, EventStreams: 4, LogStreams: 4}
		c.Admission.Now = func() time.Time { hang(); return time.Now() }
		c.Engine = &fakeEngine{before: hang}
		c.AgentService = &service.AgentService{Store: c.Store, View: c.View, Files: &service.Files{View: c.View}, Server: "s", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now}
		c.Observe = func(method string, _ ares.Code, _ time.Duration) {
			b.ended <- method[strings.LastIndexByte(method, '/')+1:]
		}
	})
	must(t, b.store.PutToken(t.Context(), store.Token{Name: "other", Hash: auth.HashToken(otherToken), Role: auth.RoleAdmin}))
	return b
}

func byOther(r *http.Request) { r.Header.Set("Authorization", "Bearer "+otherToken) }

// TestABusyServerShedsUsersAndServesAgents fills the slots for reads and for
// writes with the calls of one caller, over real HTTP and gRPC. The caller that
// fills the slots must be told to retry later, and none of its rejected calls
// may be stored. Other callers must still be served, and agents and probes must
// not be affected.
func TestABusyServerShedsUsersAndServesAgents(t *testing.T) {
	b := newBusy(t)
	ctx := t.Context()
	conn := b.dial()
	jobs, agents := apipb.NewJobServiceClient(conn), apipb.NewAgentServiceClient(conn)
	session, err := agents.OpenSession(as(ctx, nodeToken), &apipb.OpenSessionRequest{
		Node: &apipb.NodeInfo{NodeId: "n1", CpuCores: 1, MemoryMb: 1}, Instance: "0123456789abcdef",
	})
	must(t, err)
	spec := func(id string) *apipb.SubmitJobRequest {
		return &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Command: []string{"true"}, RequestId: id}}
	}
	var under sync.WaitGroup
	// Start one write over HTTP and one over gRPC. Both writes hang until the
	// test releases them.
	under.Go(func() {
		if a := b.do("POST", "/api/v1/jobs", job("request_id", "one")); a.code != 201 {
			t.Errorf("the first submission answered %d %s", a.code, a.body)
		}
	})
	under.Go(func() {
		if _, callErr := jobs.SubmitJob(as(ctx, adminToken), spec("two")); callErr != nil {
			t.Error(callErr)
		}
	})
	<-b.entered
	<-b.entered
	until(func() bool { return has(b.Limiters.Writes, 2, 0) })
	for _, queue := range []int{16, 0} { // rejected after waiting, and then before anything is read
		b.Limiters.Writes.Queue = queue
		a := b.do("POST", "/api/v1/jobs", job("request_id", "shed"))
		b.refused(a, 429, ares.Exhausted, "(2 writing calls under way)", "try again")
		if wait, numErr := strconv.Atoi(a.header.Get("Retry-After")); numErr != nil || wait < 1 {
			t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
		_, err = jobs.SubmitJob(as(ctx, adminToken), spec("shed"))
		if ares.CodeOf(apipb.FromStatus(err)) != ares.Exhausted || apipb.RetryAfter(err) < time.Second {
			t.Errorf("over gRPC: %v, again in %s", err, apipb.RetryAfter(err))
		}
	}
	// A second caller gets the half of the slots that the first caller cannot use.
	// Reads have their own slots.
	under.Go(func() {
		if a := b.do("POST", "/api/v1/jobs", job("request_id", "three"), byOther); a.code != 201 {
			t.Errorf("the other caller's submission answered %d %s", a.code, a.body)
		}
	})
	<-b.entered
	if a := b.do("GET", "/api/v1/nodes", nil); a.code != 200 {
		t.Errorf("a list answered %d %s", a.code, a.body)
	}
	b.passes(agents, session.GetSession())
	if n := b.stored("jobs/"); n != 0 {
		t.Errorf("%d jobs are stored before any was let go", n)
	}
	close(b.letGo)
	under.Wait()
	if n := b.stored("jobs/"); n != 3 {
		t.Errorf("%d jobs are stored, want those three that were accepted", n)
	}
	b.Limiters.Writes.Queue = 16
	if a := b.do("POST", "/api/v1/jobs", job("request_id", "shed")); a.code != 201 {
		t.Errorf("afterwards a submission answered %d %s", a.code, a.body)
	}
	if !has(b.Limiters.Writes, 0, 0) || !has(b.Limiters.Reads, 0, 0) {
		t.Error("places are still held")
	}
}

// The method `passes` checks that renewals, probes and a new session succeed while the limiters are full.
func (b *busy) passes(agents apipb.AgentServiceClient, session int64) {
	b.t.Helper()
	ctx := as(b.t.Context(), nodeToken)
	b.Limiters.Reads.Limit, b.Limiters.Reads.Queue = 0, 0
	b.refused(b.do("GET", "/api/v1/jobs", nil), 429, ares.Exhausted)
	for range 100 {
		if _, err := agents.RenewSession(ctx, &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: "n1", Session: session}}); err != nil {
			b.t.Fatalf("a renewal beside a flood: %v", err)
		}
	}
	for _, path := range []string{"/health", "/api/v1/health", "/api/v1/ready"} {
		if a := b.do("GET", path, nil); a.code != 200 {
			b.t.Errorf("%s answered %d %s", path, a.code, a.body)
		}
	}
	b.Limiters.Reads.Limit, b.Limiters.Reads.Queue = 4, 16
}

// TestAnAnswerInEncodingKeepsItsPlace checks that a REST call returns its slot
// with the first byte of its answer. The call must keep the slot while the
// answer is encoded, but must not keep it while a slow reader receives the
// answer.
func TestAnAnswerInEncodingKeepsItsPlace(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	w := &watchedWriter{header: http.Header{}, gate: b.Limiters.Reads}
	req := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/api/v1/jobs", nil)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	b.HTTP().ServeHTTP(w, req)
	if w.atHeader != 1 || w.atWrite != 0 {
		t.Errorf("%d places were held when the answer began, %d while it was written", w.atHeader, w.atWrite)
	}
}

// watchedWriter records how many slots are in use when the handler writes to
// it.
type watchedWriter struct {
	header            http.Header
	gate              *pipeline.Limiter
	atHeader, atWrite int
}

func (w *watchedWriter) Header() http.Header {
	open, _ := w.gate.UnderWay()
	w.atHeader = max(w.atHeader, open)
	return w.header
}
func (w *watchedWriter) WriteHeader(int) {}
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.atWrite, _ = w.gate.UnderWay()
	return len(p), nil
}

// TestLargeBodiesAreCounted checks that only a limited number of large bodies is
// in memory, and that small bodies do not wait for them.
func TestLargeBodiesAreCounted(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	var leaves []func()
	for range pipeline.MaxLargeBodies / 2 {
		leave, err := b.Limiters.Bodies.Enter(t.Context(), pipeline.Account{Name: "token:admin"})
		must(t, err)
		leaves = append(leaves, leave)
	}
	large := map[string]any{"jobs": []any{}}
	for range 8 {
		large["jobs"] = append(large["jobs"].([]any), job("environment", map[string]string{"A": strings.Repeat("x", 12<<10)}))
	}
	b.Limiters.Bodies.Wait = time.Millisecond
	b.refused(b.do("POST", "/api/v1/jobs:batch", large), 429, ares.Exhausted, "large requests")
	if a := b.do("POST", "/api/v1/jobs:batch", map[string]any{"jobs": []any{job()}}); a.code != 200 {
		t.Errorf("a small one answered %d %s", a.code, a.body)
	}
	for _, leave := range leaves {
		leave()
	}
	if a := b.do("POST", "/api/v1/jobs:batch", large); a.code != 200 || a.json["accepted"] != 8.0 {
		t.Errorf("a large one answered %d %s", a.code, a.body)
	}
	until(func() bool { return has(b.Limiters.Bodies, 0, 0) })
}

// TestAStuckReaderIsDropped checks that a gRPC caller that opens an event
// stream but never reads from it loses its slot. When the stuck caller finally
// reads, it must get the reason why its stream ended.
func TestAStuckReaderIsDropped(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	b.WriteWait = 20 * time.Millisecond
	ctx := as(t.Context(), adminToken)
	events, err := apipb.NewClusterServiceClient(b.dial()).WatchEvents(ctx, &apipb.WatchEventsRequest{Revision: "3"})
	must(t, err)
	until(func() bool { return has(b.Limiters.Events, 1, 0) })
	requests := make([]admission.Request, 1000)
	for i := range requests {
		requests[i].Submitted = ares.Spec{Tenant: ares.DefaultTenant, Name: strings.Repeat("n", 100) + strconv.Itoa(i), Command: []string{"true"}}
	}
	for range 6 { // more than fits into the connection's flow-control windows
		b.cfg.Admission.Submit(t.Context(), requests...)
	}
	for method := range b.ended {
		if method == "WatchEvents" {
			break
		}
	}
	until(func() bool { return has(b.Limiters.Events, 0, 0) }) // the slot is returned shortly after the call was observed
	for err == nil {
		_, err = events.Recv()
	}
	if err = apipb.FromStatus(err); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "did not receive") {
		t.Errorf("the stuck reader was told %v", err)
	}
}

// TestStreamsOfOneCaller checks that one token can use at most half of the event
// streams.
func TestStreamsOfOneCaller(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	for range 2 {
		next, _ := b.follow("")
		_, _ = next()
	}
	b.refused(b.do("GET", "/api/v1/events", nil), 429, ares.Exhausted, "(2 open event streams)")
	next, _ := b.follow("", byOther)
	if begin, _ := next(); begin.id == "" {
		t.Errorf("another caller's stream begins with %+v", begin)
	}
}

// TestASlowBodyHoldsNoPlace checks that a caller that sends its body slowly does
// not occupy a slot that other writers need.
func TestASlowBodyHoldsNoPlace(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	body, slow := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), "POST", b.server.URL+"/api/v1/jobs", body)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", "application/json")
	answered := make(chan int)
	go func() {
		resp, doErr := b.server.Client().Do(req)
		if doErr != nil {
			answered <- 0
			return
		}
		defer resp.Body.Close()
		answered <- resp.StatusCode
	}()
	_, err = slow.Write([]byte(`{"name":"slow",`))
	must(t, err)
	if !has(b.Limiters.Writes, 0, 0) {
		t.Error("half a body holds a place")
	}
	_, err = io.Copy(slow, bytes.NewReader([]byte(`"command":["true"]}`)))
	must(t, err)
	must(t, slow.Close())
	if code := <-answered; code != 201 {
		t.Errorf("the slow submission answered %d", code)
	}
}
