package pipeline

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/auth"
)

// The constants below limit calls, bodies and streams. Everything that a caller can send or hold open has a
// limit. The file docs/reference/limits.md lists all limits, including those of other packages.
const (
	// DefaultMaxBody is the default size limit of a request body, in JSON or protobuf. A stored job has at
	// most 32 KiB, so a body larger than DefaultMaxBody is certainly a mistake and gets a clear error.
	DefaultMaxBody = 1 << 20
	// MaxBatchBody limits the size of a batch of jobs, and of any gRPC message.
	MaxBatchBody = 16 << 20
	// MaxAnswer is the maximum size of a gRPC answer, in bytes.
	MaxAnswer = 32 << 20
	// SmallBody is the maximum size of a request body that needs no slot of the
	// limiter for large bodies.
	SmallBody = 64 << 10
	// MaxWriteWait is how long a client may take to receive one message or
	// answer.
	MaxWriteWait = 30 * time.Second
	// MaxReceive is how long a client may take to send one request.
	MaxReceive = 30 * time.Second
	// WritesPerCore and LeastWrites are the default of Limits.Writes.
	WritesPerCore = 16
	LeastWrites   = 128
	// MaxEnding is how long streams may take to end when the server stops.
	MaxEnding = time.Second

	maxCall      = 30 * time.Second // for a call that is not a stream
	maxViewWait  = time.Second      // until this server's view contains its own writes
	recheckEvery = 15 * time.Second // tokens are cached too, so a revocation takes effect within half a minute

	maxLine         = 4096 // calls of a class that may wait for a slot
	MaxLargeBodies  = 16   // large bodies that may be read or handled at once
	maxSlow         = 64   // requests and large answers that may take longer than slowAfter at once
	slowAfter       = time.Second
	maxDumps        = 8
	maxUserSessions = 256
	maxBackups      = 2
	maxOpening      = 64 // sessions being opened at once; more would only delay each other
	maxOpeningLine  = 1024
	maxOpeningWait  = time.Second // an agent stops waiting after 5 s, so the answer must come well before
	maxNodeOpening  = 4           // of one node
	maxAgentStreams = 32_768      // two streams for each agent
	maxNodeStreams  = 256         // of one node; after lost connections, a node has more than two for a while
	maxRankSessions = 1024        // commands of jobs in their own ranks
	maxNodeRanks    = 256         // of them, those that jobs on one node began
)

// Limits holds the limits on the concurrent calls and streams of users at one server.
type Limits struct {
	// Reads and Writes are the maximum numbers of concurrent reads and writes. By default, 4 reads and 16
	// writes per core can run at the same time, and at least 128 writes.
	Reads, Writes int
	// Wait is the maximum time that a call waits for a slot. The default is 1 s. Rejecting a call
	// costs about as much as serving a small one, and a caller that is rejected immediately also
	// retries immediately. If calls did not wait, a thousand retrying connections would use the
	// processor time that other callers need.
	Wait time.Duration
	// EventStreams and LogStreams are the maximum numbers of open streams of each kind. The default is 256
	// for each of them.
	EventStreams, LogStreams int
	// Rate is the limit on the calls per second of one caller. By default, there is no limit.
	Rate Rate
	// TenantRate is the limit on the calls per second of all callers of one tenant together. By default, there is no
	// limit.
	TenantRate Rate
	// NodeRate is the limit on the calls per second of one node. The renewals of its session are counted apart.
	NodeRate Rate
	// TokensPerTenant and BindingsPerTenant are the maximum numbers of one tenant's service tokens, and of the role
	// bindings in one tenant.
	TokensPerTenant, BindingsPerTenant int
}

// DefaultLimits returns limits that depend on the number of cores. Each read keeps one core busy. With a
// higher limit on reads, all calls, including session renewals, would only wait longer for the processor. A
// write spends most of its time waiting for the store and for the audit log, and each of them stores all writes that wait with
// one disk write. So a small server needs many writes at once too.
func DefaultLimits() Limits {
	cores := runtime.GOMAXPROCS(0)
	return Limits{
		Reads: 4 * cores, Writes: max(WritesPerCore*cores, LeastWrites), Wait: time.Second, EventStreams: 256, LogStreams: 256, TokensPerTenant: 500, BindingsPerTenant: 2000,
		NodeRate: NewNodeRate(defaultNodeCalls),
	}
}

// defaultNodeCalls is the default number of calls per second of one node. A node of 512 ranks that all end and start within a
// second makes about 2,000 calls, which is less than the burst.
const defaultNodeCalls = 500

// NewNodeRate returns the limit on the calls of one node. The burst is the calls of ten seconds, because all ranks of a node may
// change at once.
func NewNodeRate(perSecond float64) Rate {
	return Rate{PerSecond: perSecond, Burst: max(1, int(10*perSecond)), Setting: "limits.node_calls_per_second"}
}

// The type `limiters` holds one server's limiters.
type limiters struct {
	Reads, Writes *Limiter
	Bodies        *Limiter
	Events, logs  *Limiter
	sessions      *Limiter // for sessions of users with jobs
	dumps         *Limiter
	backups       *Limiter
	opening       *Limiter
	agents        *Limiter // for streams of agents
	ranks         *Limiter // for commands of jobs in their own ranks
	Slow          *Limiter // for slow transfers, see Transfer
	rates         *RateLimiter
	tenantRates   *RateLimiter
	nodeRates     *RateLimiter
	byKind        [method.Limiters]*Limiter // nil for method.Unlimited
}

// newLimiters creates the limiter of each class.
func newLimiters(l Limits, shed func(class string)) *limiters {
	g := &limiters{
		Reads:    NewLimiter("read", "reading calls under way", l.Reads, maxLine, l.Wait),
		Writes:   NewLimiter("write", "writing calls under way", l.Writes, maxLine, l.Wait),
		Bodies:   NewLimiter("body", "large requests under way", MaxLargeBodies, 2*MaxLargeBodies, l.Wait),
		Events:   NewLimiter("events", "open event streams", l.EventStreams, 0, 0).forStreams(),
		logs:     NewLimiter("logs", "open log streams", l.LogStreams, 0, 0).forStreams(),
		sessions: NewLimiter("user_session", "open sessions with jobs", maxUserSessions, 0, 0).forStreams(),
		dumps:    NewLimiter("dump", "open dumps of the store", maxDumps, 0, 0),
		backups:  NewLimiter("backup", "backups, recordings and audit checks under way", maxBackups, 0, 0),
		opening:  NewLimiter("session", "sessions being opened", maxOpening, maxOpeningLine, maxOpeningWait).forAll(maxNodeOpening),
		agents:   NewLimiter("agent", "open streams of agents", maxAgentStreams, 0, 0).forAll(maxNodeStreams),
		ranks:    NewLimiter("rank_session", "commands of jobs in their ranks", maxRankSessions, 0, 0).forAll(maxNodeRanks),
		Slow:     NewLimiter("slow", "requests and answers that take longer than a second", maxSlow, 0, 0),
	}
	for _, one := range g.all() {
		one.Shed = shed
	}
	g.rates, g.tenantRates = NewRates(l.Rate, shed), NewRates(l.TenantRate, shed)
	g.nodeRates = NewRates(l.NodeRate, shed)
	g.byKind = [method.Limiters]*Limiter{
		method.Reads: g.Reads, method.Writes: g.Writes, method.Events: g.Events, method.Logs: g.logs, method.Dumps: g.dumps, method.UserSessions: g.sessions,
		method.Backups: g.backups, method.Sessions: g.opening, method.AgentStreams: g.agents, method.RankSessions: g.ranks,
	}
	return g
}

func (g *limiters) all() []*Limiter {
	return []*Limiter{g.Reads, g.Writes, g.Bodies, g.Events, g.logs, g.sessions, g.dumps, g.backups, g.opening, g.agents, g.ranks, g.Slow}
}

// UnderWay reports the number of running calls and the number of waiting calls for each limiter's class.
func (d *Pipeline) UnderWay(each func(class string, open, waiting int)) {
	for _, g := range d.Limiters.all() {
		open, waiting := g.UnderWay()
		each(g.class, open, waiting)
	}
}

// The method `limit` takes a slot for a call, and counts the call against its caller's rate. It rejects a
// change or an export that the audit log cannot record. Over REST, a read keeps its slot until the answer is
// encoded, because encoding costs more than the call itself. A REST call with a large body already has a slot
// for the body. A call that writes returns its slot before it waits for the audit log. Its answer is small,
// and one disk write can store the audit entries of many waiting calls.
func (d *Pipeline) limit(ctx context.Context, c *Call, req any) (err error) {
	if level := c.Method.Audit.Level; d.Cfg.Audit != nil && (level == method.Changes || level == method.Exports) {
		if err = d.Cfg.Audit.Ready(); err != nil {
			return err
		}
	}
	g, who := d.Limiters.byKind[c.Method.Limiter], AccountOf(c.Identity())
	if err = d.Limiters.spend(ctx, g, who); err != nil {
		return err
	}
	if a, ok := ctx.Value(ResponseKey{}).(*Response); ok && req != nil {
		leave, full := g.Enter(ctx, who)
		if full == nil && g != d.Limiters.Writes {
			a.Holds = append(a.Holds, leave)
			leave = nil
		}
		c.leave = leave
		return full
	}
	large := func() {}
	if m, ok := req.(proto.Message); ok && g != nil && proto.Size(m) > SmallBody {
		if large, err = d.Limiters.Bodies.Enter(ctx, who); err != nil {
			return err
		}
	}
	own, err := g.Enter(ctx, who)
	if err != nil {
		large()
		return err
	}
	c.leave = func() { own(); large() }
	return nil
}

// The method `spend` counts a user's call against the rate limits of the user and of the user's tenant.
func (g *limiters) spend(ctx context.Context, of *Limiter, who Account) error {
	if of == nil || of == g.opening || of == g.agents || of == g.ranks {
		return nil
	}
	if err := g.rates.Spend(ctx, who.Name); err != nil || who.Tenant == "" {
		return err
	}
	return g.tenantRates.Spend(ctx, who.group())
}

// Tap rejects a gRPC call before its message is read if the limits would reject
// the call anyway. Tap must not block, because it delays everything else on the
// connection.
func (d *Pipeline) Tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	m := method.Of(info.FullMethodName)
	if m == nil {
		return ctx, nil // Streaming rejects it and reads no message
	}
	if err := d.tapCredentials(ctx, m, info); err != nil {
		return ctx, err
	}
	if m.Limiter == method.Unlimited {
		return ctx, nil
	}
	who, known := d.Cfg.Auth.CachedCaller(BearerOf(info.Header.Get("authorization")))
	if !known {
		return ctx, nil // the call itself checks this and is rejected later
	}
	if err := d.Limiters.byKind[m.Limiter].WouldReject(AccountOf(who.Identity())); err != nil {
		c := newCall(ctx, nil)
		c.Caller = who
		d.auditRejectedGRPC(ctx, c, info.FullMethodName, err)
		return ctx, d.answer(ctx, info.FullMethodName, err, 0)
	}
	return ctx, nil
}

// WouldReject rejects a REST request before its body is read, as Tap does for
// gRPC.
func (d *Pipeline) WouldReject(r *http.Request, who *auth.Caller) error {
	if ConnectionOf(r.Context()).Authenticated() {
		return ErrConnections
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return d.Limiters.Reads.WouldReject(AccountOf(who.Identity()))
	}
	return d.Limiters.Writes.WouldReject(AccountOf(who.Identity()))
}

type ResponseKey struct{}

// Response writes the answer to a REST request. When Response writes the first byte of the answer, the call
// returns its slots. A slow reader therefore does not block other callers. Writing fails if the client does
// not receive the answer in time.
type Response struct {
	http.ResponseWriter
	begun bool
	Holds []func()
	// Watch watches the sending of a large answer. Watch may be nil.
	Watch func(stop func(error)) *Transfer
}

// Unwrap lets http.ResponseController find the original writer.
func (a *Response) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *Response) Write(data []byte) (int, error) {
	if !a.begun {
		a.begun = true
		a.Free()
		control := http.NewResponseController(a.ResponseWriter)
		_ = control.SetWriteDeadline(time.Now().Add(MaxWriteWait)) // not every writer supports deadlines
		if len(data) > SmallBody && a.Watch != nil {
			t := a.Watch(func(error) { _ = control.SetWriteDeadline(time.Unix(1, 0)) })
			defer func() { _ = t.Done() }() // the write itself fails
		}
	}
	return a.ResponseWriter.Write(data)
}

// Free gives the call's slots back to their limiters.
func (a *Response) Free() {
	for _, leave := range a.Holds {
		leave()
	}
	a.Holds = nil
}
