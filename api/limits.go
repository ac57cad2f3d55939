package api

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"time"

	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/policy/roles"
)

// The limits of the doors. Everything a caller can send or hold has one;
// docs/limits.md lists them with those of the other parts.
const (
	// DefaultMaxBody bounds a request, as JSON or protobuf. A stored job is at
	// most 32 KiB, so this is for mistakes to be told, not for large jobs.
	DefaultMaxBody = 1 << 20
	// MaxBatchBody bounds a batch of jobs, and any gRPC message.
	MaxBatchBody = 16 << 20
	// MaxBatch is how many jobs one batch may hold; the contract says so too.
	MaxBatch = 1000
	// MaxAnswer bounds a gRPC answer.
	MaxAnswer = 32 << 20
	// MaxHeaderBytes bounds the headers of one request. For HTTP the server
	// sets http.Server.MaxHeaderBytes to it.
	MaxHeaderBytes = 64 << 10
	// DefaultPageSize and MaxPageSize are of lists. A page ends early when it
	// would pass MaxPageBytes.
	DefaultPageSize = 100
	MaxPageSize     = 1000
	MaxPageBytes    = 8 << 20

	maxExplained     = 100     // jobs of one page whose waiting is explained
	maxDrain         = 4 << 20 // of a body that is too large, so that the refusal is read
	maxListWait      = 5 * time.Second
	maxReadyWait     = 2 * time.Second
	readyFor         = 250 * time.Millisecond // anybody may ask, so the store is not asked each time
	maxCall          = 30 * time.Second       // of one call that is no stream
	maxWriteWait     = 30 * time.Second       // for a reader to take one message, or an answer
	maxEnding        = time.Second            // for streams to end when the server stops
	lastWord         = maxEnding / 2          // for what is on its way to a WebSocket when its stream ends
	heartbeatEvery   = 15 * time.Second
	recheckEvery     = 15 * time.Second // with what tokens are believed for, within half a minute
	maxServerStreams = 256              // of one gRPC connection
	maxIdle          = 5 * time.Minute  // of a gRPC connection without any call

	maxLine         = 4096     // calls of a class that wait for their turn
	smallBody       = 64 << 10 // a larger one needs a place
	maxLargeBodies  = 16       // being read or worked on
	maxDumps        = 8
	maxBackups      = 2
	maxOpening      = 64 // sessions being opened; more at once only delay each other
	maxOpeningLine  = 1024
	maxOpeningWait  = time.Second // an agent gives up after 5: what it waited for must still be worth doing
	maxAgentStreams = 32_768      // two for each agent
	maxNodes        = 20_000      // known, with a session or without
	maxTenants      = 10_000
)

// Limits bound what users may have under way at one server.
type Limits struct {
	// Reads and Writes are the calls under way at once. Default 4 and 16 for
	// each core.
	Reads, Writes int
	// Wait is how long a call waits for its turn at most. Default 1 s. To turn a
	// call away costs about as much as to serve a small one, and who is turned
	// away at once asks again at once: this is also what keeps a thousand
	// connections from taking the processor that the others need.
	Wait time.Duration
	// EventStreams and LogStreams are those open at once. Default 256 each.
	EventStreams, LogStreams int
	// Rate bounds the calls of one caller. Default none.
	Rate Rate
}

// DefaultLimits go by the cores: a read is work for one, and more at once than
// keep it busy only make every call, a renewal too, wait for its turn at the
// processor. A write waits for the store most of its time, with others.
func DefaultLimits() Limits {
	cores := runtime.GOMAXPROCS(0)
	return Limits{Reads: 4 * cores, Writes: 16 * cores, Wait: time.Second, EventStreams: 256, LogStreams: 256}
}

// gates are the gates of one server.
type gates struct {
	reads, writes *gate
	bodies        *gate
	events, logs  *gate
	dumps         *gate
	backups       *gate
	opening       *gate
	agents        *gate // streams of agents
	rates         *rates
	of            map[string]*gate
}

// newGates makes the gates and finds the one of each method. Health and
// readiness have none: who asks wants to know whether there is too much to do.
// Nor have an agent's calls, but for the opening of sessions, which all agents
// do at once after a server's restart: a renewal waits behind nothing.
func newGates(l Limits, shed func(class string)) *gates {
	g := &gates{
		reads:   newGate("read", "reading calls under way", l.Reads, maxLine, l.Wait),
		writes:  newGate("write", "writing calls under way", l.Writes, maxLine, l.Wait),
		bodies:  newGate("body", "large requests under way", maxLargeBodies, 2*maxLargeBodies, l.Wait),
		events:  newGate("events", "open event streams", l.EventStreams, 0, 0),
		logs:    newGate("logs", "open log streams", l.LogStreams, 0, 0),
		dumps:   newGate("dump", "open dumps of the store", maxDumps, 0, 0),
		backups: newGate("backup", "backups, recordings and audit checks under way", maxBackups, 0, 0),
		opening: newGate("session", "sessions being opened", maxOpening, maxOpeningLine, maxOpeningWait).forAll(),
		agents:  newGate("agent", "open streams of agents", maxAgentStreams, 0, 0).forAll(),
	}
	for _, one := range g.all() {
		one.shed = shed
	}
	g.rates = newRates(l.Rate, shed)
	g.of = map[string]*gate{
		apipb.ClusterService_WatchEvents_FullMethodName: g.events,
		apipb.JobService_StreamLogs_FullMethodName:      g.logs,
		apipb.ClusterService_DumpStore_FullMethodName:   g.dumps,
		apipb.ClusterService_BackupStore_FullMethodName: g.backups,
		apipb.ClusterService_RecordState_FullMethodName: g.backups,
		apipb.AuditService_VerifyAudit_FullMethodName:   g.backups,
		apipb.AgentService_OpenSession_FullMethodName:   g.opening,
		apipb.TrustService_JoinNode_FullMethodName:      g.opening,
		apipb.AgentService_WatchSeats_FullMethodName:    g.agents,
		apipb.AgentService_ServeFiles_FullMethodName:    g.agents,
		apipb.JobService_ExplainJob_FullMethodName:      g.reads,
		apipb.JobService_PlanJob_FullMethodName:         g.reads,
		apipb.JobService_PredictJob_FullMethodName:      g.reads,
	}
	for method, who := range access { // order-free: each for itself
		if g.of[method] == nil && !who.open() && who.verb != roles.AgentAct {
			g.of[method] = g.writes
			if name := method[strings.LastIndexByte(method, '/')+1:]; strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "List") || who.verb == "" {
				g.of[method] = g.reads
			}
		}
	}
	return g
}

func (g *gates) all() []*gate {
	return []*gate{g.reads, g.writes, g.bodies, g.events, g.logs, g.dumps, g.backups, g.opening, g.agents}
}

// UnderWay counts what is under way and waits, for each class of calls.
func (d *Doors) UnderWay(each func(class string, open, waiting int)) {
	for _, g := range d.gates.all() {
		open, waiting := g.underWay()
		each(g.class, open, waiting)
	}
}

// enter takes a place for a call. Over REST a read keeps it until the answer is
// encoded, which costs more than the call, and a large body has its place
// already. A write gives it back before it waits for the audit: its answer is
// small, and the disk is waited for best with many others.
func (d *Doors) enter(ctx context.Context, method string, req any) (leave func(), err error) {
	g := d.gates.of[method]
	if err = d.gates.spend(ctx, g); err != nil {
		return nil, err
	}
	if a, ok := ctx.Value(answeringKey{}).(*answering); ok {
		leave, err = g.enter(ctx, caller(ctx))
		if err == nil && g != d.gates.writes {
			a.holds = append(a.holds, leave)
			leave = func() {}
		}
		return leave, err
	}
	large := func() {}
	if m, ok := req.(proto.Message); ok && g != nil && proto.Size(m) > smallBody {
		if large, err = d.gates.bodies.enter(ctx, caller(ctx)); err != nil {
			return nil, err
		}
	}
	own, err := g.enter(ctx, caller(ctx))
	if err != nil {
		large()
		return nil, err
	}
	return func() { own(); large() }, nil
}

// spend counts a user's call against its rate.
func (g *gates) spend(ctx context.Context, of *gate) error {
	if of == nil || of == g.opening || of == g.agents {
		return nil
	}
	return g.rates.spend(ctx, caller(ctx))
}

// tapped turns a gRPC call away before its message is read, when its caller
// would be turned away anyhow. It waits for nothing: it stands in the way of
// all that comes over the connection.
func (d *Doors) tapped(ctx context.Context, info *tap.Info) (context.Context, error) {
	g := d.gates.of[info.FullMethodName]
	if g == nil {
		return ctx, nil
	}
	who, known := d.cfg.Auth.Known(bearerOf(info.Header.Get("authorization")))
	if !known {
		return ctx, nil // the call itself asks, and refuses
	}
	if err := g.refuses(who.Identity().Name); err != nil {
		d.refusedBefore(withCaller(ctx, who), newRecord(ctx, nil), info.FullMethodName, err)
		return ctx, d.answer(ctx, info.FullMethodName, err, 0)
	}
	return ctx, nil
}

// refuses turns a REST request away before its body is read, as tapped does.
func (d *Doors) refuses(r *http.Request, who *auth.Caller) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return d.gates.reads.refuses(who.Identity().Name)
	}
	return d.gates.writes.refuses(who.Identity().Name)
}

type answeringKey struct{}

// answering is the answer to a REST request. With its first byte the call gives
// its places back: a reader that is slow holds nobody else. And it must take
// the answer in time.
type answering struct {
	http.ResponseWriter
	begun bool
	holds []func()
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answering) Write(data []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.free()
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(maxWriteWait)) // not every writer has deadlines
	}
	return a.ResponseWriter.Write(data)
}

// free gives the places back.
func (a *answering) free() {
	for _, leave := range a.holds {
		leave()
	}
	a.holds = nil
}
