package federation

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/metadata"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/store"
)

// A session is one stream of a member at the hub.
type session struct {
	t    *term
	ctx  context.Context
	end  context.CancelCauseFunc
	in   *messageQueue[*apipb.MemberMessage] // received, and not handled yet
	out  *messageQueue[*apipb.HubMessage]
	call context.Context // of the stream, with the caller's identity

	// handling is held while a message is handled. A later session of the same cluster waits for it: a claim must not be
	// bound after the later session has compared its list with the grants.
	handling sync.Mutex
	closed   bool

	info  *apipb.MemberHello // the first part of the hello
	hello grant.Hello
	said  bool // the hello is complete
	// identified is true when the hello may be compared with the grants. It is guarded by the term's lock.
	identified bool
	// cookie is the cookie of this session, "" before the welcome.
	cookie string

	// The rest is guarded by the term's lock.
	open      bool // the member has confirmed the cookie
	heard     time.Time
	summary   []byte
	decoded   *summary.Summary     // nil before the first summary, and if it cannot be read
	offered   map[ares.JobID]int64 // epochs of offers that the member was told
	cancelled map[ares.JobID]int64
	returning map[ares.JobID]returnAsked
	// returnable are the jobs that the member would give back.
	returnable map[ares.JobID]returnOffer
	copies     metadata.Map        // what the member keeps of the hub's words, while the hub asks
	words      *clusterWords       // that the member was told
	told       *store.Roster       // the last roster that the member was sent, nil before the first one
	stored     *store.Roster       // the last one that it has acknowledged
	shared     map[string]int64    // revisions of the tenants that it was told
	lent       map[string]toldLoan // by tenant
}

func (t *term) connect(stream apipb.FederationService_ConnectServer) error {
	ctx, end := context.WithCancelCause(stream.Context())
	defer end(nil)
	defer context.AfterFunc(t.ctx, func() { end(errTermEnded) })()
	_, revision, err := t.Store.Identity(ctx)
	if err != nil {
		return apipb.ToStatus(err)
	}
	s := &session{
		t: t, ctx: ctx, end: end, call: stream.Context(),
		in: newMessageQueue[*apipb.MemberMessage](), out: newMessageQueue[*apipb.HubMessage](), heard: time.Now(),
		offered: map[ares.JobID]int64{}, cancelled: map[ares.JobID]int64{}, returning: map[ares.JobID]returnAsked{}, returnable: map[ares.JobID]returnOffer{},
		words: &clusterWords{},
	}
	s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Greeting{Greeting: &apipb.HubGreeting{
		Protocol: protocol, StoreId: t.id.Store, RestoreId: t.id.Restore, Revision: revision, Version: t.Version, Asking: t.isAsking(),
	}}})
	go func() { end(s.receive(stream)) }()
	go func() { end(s.work()) }()
	err = s.out.deliver(ctx, stream.Send)
	end(err)
	s.close()
	t.forget(s)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	t.Log.Info("the session of a cluster ended", "cluster", s.hello.Cluster, "error", err)
	return apipb.ToStatus(err)
}

// The method `receive` receives the member's messages. Heartbeats are answered as they arrive: a member that has much to say, such
// as ten thousand jobs that start within a minute, is not silent.
func (s *session) receive(stream apipb.FederationService_ConnectServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if b, ok := m.GetBody().(*apipb.MemberMessage_Heartbeat); ok {
			err = s.heartbeat(b.Heartbeat)
		} else {
			err = s.in.add(s.ctx, m)
		}
		if err != nil {
			return err
		}
	}
}

// The method `work` handles the other messages in their order. Copies of runs that follow each other are written together.
func (s *session) work() error {
	for {
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-s.in.news:
		}
		for list := s.in.take(); len(list) > 0; {
			n := max(leadingMirrors(list), 1)
			if err := s.handleNext(list[:n]); err != nil {
				return err
			}
			list = list[n:]
		}
	}
}

// mirrorsAtOnce is the number of runs that are copied before the session can be replaced.
const mirrorsAtOnce = 256

func leadingMirrors(list []*apipb.MemberMessage) int {
	for i, m := range list {
		if i == mirrorsAtOnce || m.GetMirror() == nil {
			return i
		}
	}
	return len(list)
}

// The method `handleNext` handles one message, or several copies of runs.
func (s *session) handleNext(list []*apipb.MemberMessage) error {
	s.handling.Lock()
	defer s.handling.Unlock()
	switch {
	case s.closed || s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case len(list) > 1:
		return s.mirror(list)
	}
	return s.handle(list[0])
}

func (s *session) handle(m *apipb.MemberMessage) error {
	if m.GetBody() == nil {
		return nil // a message of a later version, which may send it before the session is open
	}
	switch b := m.GetBody().(type) {
	case *apipb.MemberMessage_Hello:
		return s.hear(b.Hello)
	case *apipb.MemberMessage_Confirmation:
		return s.confirm(b.Confirmation.GetCookie())
	}
	if !s.isOpen() {
		return errNotOpen()
	}
	switch b := m.GetBody().(type) {
	case *apipb.MemberMessage_Summary:
		decoded := s.t.decodeSummary(s.hello.Cluster, b.Summary.GetSummary())
		s.t.mu.Lock()
		s.summary, s.decoded = b.Summary.GetSummary(), decoded
		s.t.mu.Unlock()
		wake(s.t.changed)
	case *apipb.MemberMessage_Claim:
		return s.claim(b.Claim)
	case *apipb.MemberMessage_Report:
		return s.report(b.Report)
	case *apipb.MemberMessage_Mirror:
		return s.mirror([]*apipb.MemberMessage{m})
	case *apipb.MemberMessage_ReturnOffer:
		s.noteReturnable(b.ReturnOffer)
	case *apipb.MemberMessage_Roster:
		s.storedRoster(b.Roster)
	case *apipb.MemberMessage_Loan:
		s.loanAnswered(b.Loan)
	case *apipb.MemberMessage_Description:
		return s.describe(b.Description)
	}
	return nil
}

func errNotOpen() error {
	return ares.Errorf(ares.Fenced, "the session is not open yet: say hello, and confirm the cookie of the welcome")
}

func (s *session) isOpen() bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return s.open
}

// The method `heartbeat` answers a heartbeat. A session that was ended because of its silence is not answered (F11).
func (s *session) heartbeat(m *apipb.MemberHeartbeat) error {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	s.heard = time.Now()
	if s.open {
		id := s.info.GetStoreId()
		s.t.revisions[id] = max(s.t.revisions[id], m.GetRevision())
	}
	s.out.putFirst(&apipb.HubMessage{Body: &apipb.HubMessage_Heartbeat{Heartbeat: &apipb.HeartbeatAnswer{Sequence: m.GetSequence()}}})
	return nil
}

// The method `hear` handles one part of the hello. When the hello is complete, the session replaces an earlier session of
// the same cluster. While the hub asks all members after a restore, the hello is kept as the member's answer.
func (s *session) hear(m *apipb.MemberHello) error {
	if s.said {
		return ares.Errorf(ares.Invalid, "the member has already said hello on this stream")
	}
	if s.info == nil {
		if s.t.Authenticate != nil {
			if err := s.t.Authenticate(s.call, m.GetCluster()); err != nil {
				return err
			}
		}
		s.info = m
		s.hello = grant.Hello{Cluster: m.GetCluster(), Incarnation: m.GetIncarnation()}
	}
	for _, l := range m.GetGrants() {
		e := grant.Listed{Job: ares.JobID(l.GetJobId()), Epoch: l.GetEpoch(), State: stateOf(l.GetState())}
		if len(l.GetRun()) > 0 {
			run, err := decodeRun(l.GetRun(), e.Job)
			if err != nil {
				return err
			}
			e.Run = run
		}
		if e.State == grant.Final && e.Run == nil {
			return ares.Errorf(ares.Invalid, "the hello lists %s as final without its run", ares.Clip(l.GetJobId()))
		}
		s.hello.Grants = append(s.hello.Grants, e)
	}
	if len(m.GetMetadata()) > 0 && s.t.isAsking() {
		s.copies = s.copies.Merge(s.t.ownWords(decodeMetadata(m.GetMetadata())))
	}
	if m.GetMore() {
		return nil
	}
	s.said = true
	if err := s.identify(); err != nil {
		return err // a copy of the store does not end the session of the original
	}
	s.t.replace(s)
	if err := s.identify(); err != nil { // the session before may have changed the record until now
		return err
	}
	s.t.mu.Lock()
	s.identified = true
	asking := s.t.asking != nil
	s.t.mu.Unlock()
	if asking {
		wake(s.t.changed) // the term answers when every cluster has answered
		return nil
	}
	return s.welcome()
}

// The method `replace` makes this the session of its cluster. It ends an earlier session and waits until that one handles
// no message any more.
func (t *term) replace(s *session) {
	t.mu.Lock()
	old := t.sessions[s.hello.Cluster]
	t.sessions[s.hello.Cluster] = s
	t.mu.Unlock()
	if old != nil && old != s {
		old.end(ares.Errorf(ares.Conflict, "the cluster has opened a new session"))
		old.close()
	}
}

// The method `close` waits until the session handles no message any more. It comes before the session is forgotten: the next session of the
// cluster would not wait for a claim that is being bound, and would find a bound job of which the cluster has no record (F13).
func (s *session) close() {
	s.handling.Lock()
	s.closed = true
	s.handling.Unlock()
}

// The method `forget` removes a session that has ended.
func (t *term) forget(s *session) {
	t.mu.Lock()
	name, last := s.hello.Cluster, t.sessions[s.hello.Cluster] == s
	wasOpen := s.open
	s.open = false
	if last {
		delete(t.sessions, name)
		t.unheard[name], t.outdated = s.heard, true
	}
	t.mu.Unlock()
	if last && wasOpen && t.ctx.Err() == nil { // the end of a term says nothing of the cluster
		t.reachable(name, false)
	}
	wake(t.changed)
}

func (t *term) reachable(cluster string, yes bool) {
	t.mu.Lock()
	t.lost[cluster] = !yes
	t.mu.Unlock()
	if t.Reachable != nil {
		t.Reachable(cluster, yes)
	}
}

// The method `identify` checks that the member's store is the one that has joined, and neither a copy of it nor an older
// state of it (F13). A restored store has a new incarnation, and a restore raises the revision above every one before.
func (s *session) identify() error {
	c, err := s.t.Store.Cluster(s.ctx, s.hello.Cluster)
	if err != nil {
		return err
	}
	// A restored hub has the cookies of its backup, so it cannot compare them, and neither can it for a cluster that it has
	// declared dead.
	asking := s.t.isAsking()
	same := c.Incarnation == s.hello.Incarnation && !asking && c.Decided != store.ClusterDead
	why := ""
	switch {
	case c.Decided == store.ClusterRegistered || c.Decided == store.ClusterLeft:
		return ares.Errorf(ares.Forbidden, "cluster %s has not joined: run `ares join --global` there", c.Name)
	case c.Store != "" && c.Store != s.info.GetStoreId():
		why = "its store is not the one that has joined"
	case s.info.GetRevision() < max(c.SeenRevision, s.t.heardRevision(c.Store)):
		why = "its store has gone back to an earlier revision"
	case same && c.Cookie != "" && s.info.GetCookie() != c.Cookie && s.info.GetCookie() != c.PendingCookie:
		why = "another store has opened a session under the same name since"
	}
	if why != "" {
		return s.refuse(why)
	}
	if asking { // if the session ends before the welcome, the next one is compared with this cookie
		_, err = s.t.Store.UpdateCluster(s.ctx, c.Name, func(c *store.Cluster) error {
			c.Cookie, c.PendingCookie = s.info.GetCookie(), ""
			return nil
		})
	}
	return err
}

// noteRefusal is how often the refusal of a cluster is stored for the same reason.
const noteRefusal = time.Minute

func (s *session) refuse(why string) error {
	if s.t.Alarm != nil {
		s.t.Alarm(s.hello.Cluster, why)
	}
	s.t.Log.Error("a cluster is refused: its store was copied or rolled back", "cluster", s.hello.Cluster, "reason", why)
	if _, err := s.t.Store.UpdateCluster(s.ctx, s.hello.Cluster, func(c *store.Cluster) error {
		if now := s.t.Now(); c.Refused != why || now.Sub(c.RefusedAt) >= noteRefusal { // it tries again and again
			c.Refused, c.RefusedAt = why, now
		}
		return nil
	}); err != nil {
		s.t.Log.Warn("the refusal of a cluster is not stored", "cluster", s.hello.Cluster, "err", err)
	}
	return ares.Errorf(ares.Forbidden, "cluster %s is refused, because %s: its store was copied or rolled back. Restore it with `ares restore`, or make a copy with `ares restore --as-copy`", s.hello.Cluster, why)
}

// The method `welcome` compares the hello with the grants, writes the result, and answers.
func (s *session) welcome() error {
	// An earlier incarnation must not claim anything from here on.
	_, err := s.t.Store.UpdateCluster(s.ctx, s.hello.Cluster, func(c *store.Cluster) error {
		c.Reconciling = true
		return nil
	})
	if err != nil {
		return err
	}
	snap, err := s.t.snapshot(s.ctx)
	if err != nil {
		return err
	}
	r := snap.Reconcile(&s.hello)
	if r.Copied != "" {
		return s.refuse("job " + string(r.Copied) + " is bound to it, and its store has no record of the claim")
	}
	if r.Dead {
		s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Welcome{Welcome: &apipb.HubWelcome{Incarnation: s.hello.Incarnation, Dead: true}}})
		return nil
	}
	for i := range r.Changes {
		if err = s.t.change(s.ctx, nil, &r.Changes[i], "its cluster was restored from a backup"); err != nil {
			return err
		}
	}
	cookie := rand.Text()
	if err = s.t.admit(s.ctx, s, cookie); err != nil {
		return err
	}
	s.cookie = cookie
	w := &apipb.HubWelcome{Incarnation: s.hello.Incarnation, Cookie: cookie, HeartbeatMs: int32(s.t.Heartbeat.Milliseconds())}
	for _, ref := range r.Drop {
		w.Drop = append(w.Drop, &apipb.GrantRef{JobId: string(ref.Job), Epoch: ref.Epoch})
	}
	for _, ref := range r.Bound {
		b, err := s.t.bound(ref, s.hello.Incarnation)
		if err != nil {
			return err
		}
		w.Bound = append(w.Bound, b)
	}
	s.out.put(&apipb.HubMessage{Body: &apipb.HubMessage_Welcome{Welcome: w}})
	return nil
}

// The method `admit` writes that the hub has confirmed the member's incarnation, and the cookie of the new session.
func (t *term) admit(ctx context.Context, s *session, cookie string) error {
	_, err := t.Store.UpdateCluster(ctx, s.hello.Cluster, func(c *store.Cluster) error {
		c.Cookie = s.info.GetCookie()       // it is the pending one if the confirmation was lost, and an older one after a restore
		if c.Decided == store.ClusterDead { // it has dropped everything and has a new incarnation
			c.Begin(t.Now())
		}
		c.Reconciling = false
		c.Refused, c.RefusedAt = "", time.Time{}
		c.Incarnation, c.PendingCookie, c.Version = s.hello.Incarnation, cookie, s.info.GetVersion()
		c.SeenRevision = max(c.SeenRevision, s.info.GetRevision())
		return nil
	})
	return err
}

// The method `confirm` opens the session, after the member has written its cookie.
func (s *session) confirm(cookie string) error {
	if s.cookie == "" || cookie != s.cookie {
		return ares.Errorf(ares.Fenced, "the confirmed cookie is not the one of this session")
	}
	_, err := s.t.Store.UpdateCluster(s.ctx, s.hello.Cluster, func(c *store.Cluster) error {
		if c.PendingCookie != cookie && c.Cookie != cookie {
			return ares.Errorf(ares.Fenced, "the cluster has opened another session")
		}
		c.Cookie, c.PendingCookie = cookie, ""
		return nil
	})
	if err != nil {
		return err
	}
	s.t.mu.Lock()
	if s.ctx.Err() == nil {
		s.open, s.t.outdated, s.t.lendDue = true, true, true
	}
	delete(s.t.unheard, s.hello.Cluster)
	s.t.mu.Unlock()
	s.t.Log.Info("a cluster has opened a session", "cluster", s.hello.Cluster, "grants", len(s.hello.Grants))
	s.hello.Grants = nil
	s.t.reachable(s.hello.Cluster, true)
	s.t.Hub.mu.Lock()
	s.t.reset = true // it is told about every grant that concerns it
	s.t.Hub.mu.Unlock()
	wake(s.t.changed)
	return nil
}
