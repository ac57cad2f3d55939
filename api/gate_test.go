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
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/store"
)

// until waits for a condition that another goroutine brings about.
func until(ok func() bool) {
	for !ok() {
		runtime.Gosched()
	}
}

func (g *gate) has(open, waiting int) bool {
	o, w := g.underWay()
	return o == open && w == waiting
}

// TestGateShares: half of the places is the most for one caller, and a full
// line makes room for a newcomer at the cost of the greediest.
func TestGateShares(t *testing.T) {
	g := newGate("read", "calls under way", 4, 2, time.Hour)
	var shed int
	g.shed = func(string) { shed++ }
	enter := func(who string) func() {
		t.Helper()
		leave, err := g.enter(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first, second := enter("greedy"), enter("greedy")
	answers := make(chan string)
	wait := func(who string) {
		go func() {
			leave, err := g.enter(t.Context(), who)
			answers <- fmt.Sprint(who, " ", ares.CodeOf(err))
			if err == nil {
				leave()
			}
		}()
	}
	wait("greedy")
	until(func() bool { return g.has(2, 1) })
	wait("greedy")
	until(func() bool { return g.has(2, 2) })
	if err := g.refuses("greedy"); ares.CodeOf(err) != ares.Exhausted || !strings.Contains(err.Error(), "greedy has 2") {
		t.Errorf("a full line says %v", err)
	}
	if _, err := g.enter(t.Context(), "greedy"); ares.CodeOf(err) != ares.Exhausted {
		t.Errorf("one too many: %v", err)
	}
	modest := enter("modest") // passes those who wait: the other half is free
	enter("modest")()
	other := enter("other")
	if err := g.refuses("modest"); err != nil {
		t.Errorf("a newcomer is refused: %v", err)
	}
	wait("modest") // all four places are taken now, and the line is full
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
	second() // giving back twice is giving back once
	modest()
	until(func() bool { return g.has(0, 0) })
	if len(g.held) != 0 || len(g.waiting) != 0 || shed != 3 {
		t.Errorf("left: %+v, %d shed", g, shed)
	}
}

// TestGateLeaving: a caller that gives up, or has waited for long enough,
// leaves the line; closing turns everybody away and waits for those inside.
func TestGateLeaving(t *testing.T) {
	g := newGate("read", "calls under way", 1, 8, time.Nanosecond)
	leave, err := g.enter(t.Context(), "a")
	must(t, err)
	if _, err = g.enter(t.Context(), "b"); ares.CodeOf(err) != ares.Exhausted {
		t.Errorf("waited and was told %v", err)
	}
	g.wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan error)
	go func() {
		_, entered := g.enter(ctx, "b")
		told <- entered
	}()
	until(func() bool { return g.has(1, 1) })
	cancel()
	if err = <-told; !errors.Is(err, context.Canceled) || !g.has(1, 0) {
		t.Errorf("gave up and was told %v", err)
	}
	go func() {
		_, entered := g.enter(t.Context(), "b")
		told <- entered
	}()
	until(func() bool { return g.has(1, 1) })
	closed := make(chan struct{})
	go func() {
		g.close(t.Context())
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
	if _, err = g.enter(t.Context(), "c"); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("after the close: %v", err)
	}
}

// TestGateUnderLoad drives a gate from many goroutines: its limits hold at
// every moment, and nothing is left in it.
func TestGateUnderLoad(t *testing.T) {
	g := newGate("read", "calls under way", 5, 7, time.Millisecond)
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
				leave, err := g.enter(ctx, who)
				cancel()
				if err != nil {
					continue
				}
				if all, own := count(who, 1); all > g.limit || own > g.share {
					t.Errorf("%d inside, %d of %s", all, own, who)
				}
				runtime.Gosched()
				count(who, -1)
				leave()
			}
		})
	}
	wg.Wait()
	if !g.has(0, 0) || len(g.held) != 0 || len(g.waiting) != 0 {
		t.Errorf("left: %+v", g)
	}
}

// busy is a house whose reads and writes hang until they are let go.
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
		c.Limits = Limits{Reads: 4, Writes: 4, Wait: time.Millisecond, EventStreams: 4, LogStreams: 4}
		c.Desk.Now = func() time.Time { hang(); return time.Now() }
		c.Engine = &fakeEngine{before: hang}
		c.AgentService = &AgentDoor{Store: c.Store, View: c.View, Files: &Files{View: c.View}, Server: "s", TTL: func(int) time.Duration { return 20 * time.Second }, Now: time.Now}
		c.Observe = func(method string, _ ares.Code, _ time.Duration) {
			b.ended <- method[strings.LastIndexByte(method, '/')+1:]
		}
	})
	must(t, b.store.PutToken(t.Context(), store.Token{Name: "other", Hash: auth.HashToken(otherToken), Role: auth.RoleAdmin}))
	return b
}

func byOther(r *http.Request) { r.Header.Set("Authorization", "Bearer "+otherToken) }

// TestABusyServerShedsUsersAndServesAgents fills both classes with the calls of
// one caller, over real HTTP and gRPC: it is told to come back and nothing of it
// is stored, others are served, and agents and probes notice nothing.
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
	// One write over each door, then one read, each of which hangs.
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
	until(func() bool { return b.gates.writes.has(2, 0) })
	for _, queue := range []int{16, 0} { // by waiting in vain, and before anything is read
		b.gates.writes.queue = queue
		a := b.do("POST", "/api/v1/jobs", job("request_id", "shed"))
		b.refused(a, 429, ares.Exhausted, "admin has 2 writing calls", "try again")
		if wait, numErr := strconv.Atoi(a.header.Get("Retry-After")); numErr != nil || wait < 1 {
			t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
		}
		_, err = jobs.SubmitJob(as(ctx, adminToken), spec("shed"))
		if ares.CodeOf(apipb.FromStatus(err)) != ares.Exhausted || apipb.RetryAfter(err) < time.Second {
			t.Errorf("over gRPC: %v, again in %s", err, apipb.RetryAfter(err))
		}
	}
	// Another caller has the other half; reads are another class.
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
	b.gates.writes.queue = 16
	if a := b.do("POST", "/api/v1/jobs", job("request_id", "shed")); a.code != 201 {
		t.Errorf("afterwards a submission answered %d %s", a.code, a.body)
	}
	if !b.gates.writes.has(0, 0) || !b.gates.reads.has(0, 0) {
		t.Error("places are still held")
	}
}

// passes wants renewals, probes and a new session while the gates are full.
func (b *busy) passes(agents apipb.AgentServiceClient, session int64) {
	b.t.Helper()
	ctx := as(b.t.Context(), nodeToken)
	b.gates.reads.limit, b.gates.reads.queue = 0, 0
	b.refused(b.do("GET", "/api/v1/jobs", nil), 429, ares.Exhausted)
	for range 100 {
		if _, err := agents.RenewSession(ctx, &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: "n1", Session: session}}); err != nil {
			b.t.Fatalf("a renewal beside a flood: %v", err)
		}
	}
	for path := range anonymous {
		if a := b.do("GET", path, nil); a.code != 200 {
			b.t.Errorf("%s answered %d %s", path, a.code, a.body)
		}
	}
	b.gates.reads.limit, b.gates.reads.queue = 4, 16
}

// TestAnAnswerInEncodingKeepsItsPlace: the place of a REST call is given back
// with the first byte of its answer, neither before it is encoded nor after a
// slow reader has taken it.
func TestAnAnswerInEncodingKeepsItsPlace(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	w := &watchedWriter{header: http.Header{}, gate: b.gates.reads}
	req := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/api/v1/jobs", nil)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	b.HTTP().ServeHTTP(w, req)
	if w.atHeader != 1 || w.atWrite != 0 {
		t.Errorf("%d places were held when the answer began, %d while it was written", w.atHeader, w.atWrite)
	}
}

// watchedWriter notes how many places are held as it is written to.
type watchedWriter struct {
	header            http.Header
	gate              *gate
	atHeader, atWrite int
}

func (w *watchedWriter) Header() http.Header {
	open, _ := w.gate.underWay()
	w.atHeader = max(w.atHeader, open)
	return w.header
}
func (w *watchedWriter) WriteHeader(int) {}
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.atWrite, _ = w.gate.underWay()
	return len(p), nil
}

// TestLargeBodiesAreCounted: so many at most are in memory; small ones do not
// wait for them.
func TestLargeBodiesAreCounted(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	var leaves []func()
	for range maxLargeBodies / 2 {
		leave, err := b.gates.bodies.enter(t.Context(), "token:admin")
		must(t, err)
		leaves = append(leaves, leave)
	}
	large := map[string]any{"jobs": []any{}}
	for range 8 {
		large["jobs"] = append(large["jobs"].([]any), job("environment", map[string]string{"A": strings.Repeat("x", 12<<10)}))
	}
	b.gates.bodies.wait = time.Millisecond
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
	until(func() bool { return b.gates.bodies.has(0, 0) })
}

// TestAStuckReaderIsDropped: a gRPC caller that opens a stream of events and
// never reads it loses its place, and is told why when it reads at last.
func TestAStuckReaderIsDropped(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	b.writeWait = 20 * time.Millisecond
	ctx := as(t.Context(), adminToken)
	events, err := apipb.NewClusterServiceClient(b.dial()).WatchEvents(ctx, &apipb.WatchEventsRequest{Revision: "3"})
	must(t, err)
	until(func() bool { return b.gates.events.has(1, 0) })
	specs := make([]ares.Spec, 1000)
	for i := range specs {
		specs[i] = ares.Spec{Name: strings.Repeat("n", 100) + strconv.Itoa(i), Command: []string{"true"}}
	}
	for range 6 { // more than the windows of a connection hold
		b.cfg.Desk.SubmitAll(t.Context(), specs, "test")
	}
	for method := range b.ended {
		if method == "WatchEvents" {
			break
		}
	}
	until(func() bool { return b.gates.events.has(0, 0) }) // a moment after it was observed
	for err == nil {
		_, err = events.Recv()
	}
	if err = apipb.FromStatus(err); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "has not read") {
		t.Errorf("the stuck reader was told %v", err)
	}
}

// TestStreamsOfOneCaller: one token holds half of the event streams at most.
func TestStreamsOfOneCaller(t *testing.T) {
	b := newBusy(t)
	close(b.letGo)
	for range 2 {
		next, _ := b.follow("")
		_, _ = next()
	}
	b.refused(b.do("GET", "/api/v1/events", nil), 429, ares.Exhausted, "admin has 2 open event streams")
	next, _ := b.follow("", byOther)
	if begin, _ := next(); begin.id == "" {
		t.Errorf("another caller's stream begins with %+v", begin)
	}
}

// TestASlowBodyHoldsNoPlace: a caller that sends its body slowly keeps nobody
// from writing.
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
	if !b.gates.writes.has(0, 0) {
		t.Error("half a body holds a place")
	}
	_, err = io.Copy(slow, bytes.NewReader([]byte(`"command":["true"]}`)))
	must(t, err)
	must(t, slow.Close())
	if code := <-answered; code != 201 {
		t.Errorf("the slow submission answered %d", code)
	}
}
