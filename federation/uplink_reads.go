package federation

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// serveReads answers the users of every server of the hub until ctx ends. Each server has a connection of its own.
func (u *Uplink) serveReads(ctx context.Context) {
	if u.DialServer == nil {
		return
	}
	m, err := u.Store.Membership(ctx)
	for ; err != nil || m == nil; m, err = u.Store.Membership(ctx) {
		if !pause.For(ctx, retryLongest) {
			return
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for addr := range strings.SplitSeq(m.HubURL, ",") {
		wg.Go(func() { u.serveReadsOf(ctx, addr) })
	}
}

// serveReadsOf answers one server of the hub.
func (u *Uplink) serveReadsOf(ctx context.Context, addr string) {
	for wait := retryFirst; ; {
		began := time.Now()
		err := u.waitForReads(ctx, addr)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > retryLongest {
			wait = retryFirst
		}
		u.Log.Debug("the stream for reads of the hub ended and is opened again", "server", addr, "error", err, "in", wait)
		if !pause.For(ctx, wait) {
			return
		}
		wait = min(2*wait, retryLongest)
	}
}

// A readServer is the member's side of one connection for reads.
type readServer struct {
	u       *Uplink
	member  store.Membership
	calls   apipb.FederationServiceClient
	running chan struct{} // holds one value for each answer that is under way
	answers sync.WaitGroup
}

// waitForReads opens a stream for reads, and answers until it breaks.
func (u *Uplink) waitForReads(ctx context.Context, addr string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m, err := u.Store.Membership(ctx)
	if err != nil || m == nil {
		return err
	}
	for cookie, changed := u.sessionCookie(); cookie == "" && m.Cookie == ""; cookie, changed = u.sessionCookie() {
		select { // before its first session, the member has nothing that proves which store it is
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
	conn, err := u.DialServer(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	s := &readServer{u: u, member: *m, calls: apipb.NewFederationServiceClient(conn), running: make(chan struct{}, maxReads)}
	stream, err := s.calls.ServeReads(ctx)
	if err != nil {
		return apipb.FromStatus(err)
	}
	defer s.answers.Wait()
	defer cancel(nil)
	s.answers.Go(func() { cancel(s.beat(ctx, stream)) })
	for {
		q, err := stream.Recv()
		if err != nil {
			return apipb.FromStatus(err)
		}
		select { // the hub asks no more than maxReads at once, so this only waits for answers that are about to end
		case s.running <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.answers.Go(func() {
			defer func() { <-s.running }()
			s.answer(ctx, q)
		})
	}
}

// The method `beat` tells the hub again and again that this cluster is there, the cookie of its session, and what has changed of
// its capacity.
func (s *readServer) beat(ctx context.Context, stream grpc.BidiStreamingClient[apipb.MemberPresence, apipb.OwnerRead]) error {
	tick := time.NewTicker(s.u.Heartbeat)
	defer tick.Stop()
	var told []byte
	for {
		cookie, changed := s.u.sessionCookie() // "" if this server has had no session yet
		m := &apipb.MemberPresence{Cluster: s.member.Name, Cookie: cmp.Or(cookie, s.member.Cookie)}
		if latest := s.u.latestSummary(); !bytes.Equal(latest, told) {
			m.Summary, told = latest, latest
		}
		if err := stream.Send(m); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-changed:
		}
	}
}

// sessionCookie returns the cookie of the latest session with the hub, or "", and a channel that is closed when it changes.
func (u *Uplink) sessionCookie() (cookie string, changed <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cookie, u.cookieChanged
}

// latestSummary returns the summary that the leader of the hub was told last, or nil.
func (u *Uplink) latestSummary() []byte {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.summary
}

func (u *Uplink) setCookie(cookie string) {
	u.mu.Lock()
	u.cookie = cookie
	close(u.cookieChanged)
	u.cookieChanged = make(chan struct{})
	u.mu.Unlock()
}

// The method `answer` answers one read on a stream of its own. When the hub ends the stream, because its reader has left, the
// work for the answer ends too.
func (s *readServer) answer(ctx context.Context, q *apipb.OwnerRead) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.calls.AnswerRead(ctx)
	if err != nil {
		return // the hub notices that the connection is gone
	}
	if err = stream.Send(&apipb.ReadAnswer{Cluster: s.member.Name, Id: q.GetId()}); err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		_ = stream.RecvMsg(&apipb.ReadEnd{}) // the end of the stream is all that counts
		cancel()
	})
	err = s.u.answer(ctx, s.member.HubStore, q, stream.Send)
	if err != nil {
		_ = stream.Send(&apipb.ReadAnswer{Body: &apipb.ReadAnswer_Failure{Failure: failure(err)}}) // otherwise the stream is broken anyway
	}
	_ = stream.CloseSend()
}

// The method `answer` checks that the read is about a job that this hub has granted to this cluster, and answers it.
func (u *Uplink) answer(ctx context.Context, hub string, q *apipb.OwnerRead, send func(*apipb.ReadAnswer) error) error {
	snap, err := u.GrantedJob(ctx, hub, q)
	if err != nil {
		return err
	}
	switch q.GetKind() {
	case apipb.OwnerRead_KIND_RUN:
		data, err := encodeOwned(snap.Job.ID, &snap)
		if err != nil {
			return err
		}
		return send(&apipb.ReadAnswer{Body: &apipb.ReadAnswer_Run{Run: &apipb.OwnerRun{Run: data}}})
	case apipb.OwnerRead_KIND_LOGS, apipb.OwnerRead_KIND_EXPLANATION:
		if u.Answer != nil {
			return u.Answer(ctx, q, snap, send)
		}
	}
	return ares.Errorf(ares.FeatureDisabled, "the cluster cannot answer this: its version is older than the hub's, so update it")
}

// GrantedJob returns the job that a read of the hub is about. It returns the same error for every job that the hub must not
// read: one that was submitted to this cluster, that another hub has granted, that is held under another grant, or that
// belongs to another tenant.
func (u *Uplink) GrantedJob(ctx context.Context, hub string, q *apipb.OwnerRead) (store.Snapshot, error) {
	none := ares.Errorf(ares.NotFound, "the cluster has no job %s of this hub: it was returned, or its record was deleted", ares.Clip(q.GetJobId()))
	if !ares.ValidJobID(q.GetJobId()) {
		return store.Snapshot{}, none
	}
	snap, err := u.Store.Job(ctx, ares.JobID(q.GetJobId()))
	isGone := err == nil && snap.Tombstone != nil || ares.CodeOf(err) == ares.NotFound
	if isGone && q.GetKind() == apipb.OwnerRead_KIND_LOGS && u.Archived != nil { // its output may be kept longer than its record
		snap, err = u.Archived(ctx, ares.JobID(q.GetJobId()))
	}
	switch {
	case ares.CodeOf(err) == ares.NotFound:
		return snap, none
	case err != nil:
		return snap, err
	case snap.Tombstone != nil || snap.Job == nil || snap.Job.Origin == nil:
		return snap, none
	}
	o := snap.Job.Origin
	if hub == "" || o.Hub != hub || o.Epoch != q.GetEpoch() || snap.Job.Tenant != q.GetTenantId() || q.GetQueue() != "" && snap.Job.Queue != q.GetQueue() {
		return snap, none
	}
	return snap, nil
}
