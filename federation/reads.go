package federation

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/summary"
)

const (
	// maxReads is the largest number of reads that one server of the hub has at one member.
	maxReads = 64
	// maxReadBytes is the largest size of a request to a member.
	maxReadBytes = 64 << 10
	// answerWait is how long a member may take to begin its answer, and to answer whatever is not a stream.
	answerWait = 10 * time.Second
)

// readers has the connections over which members answer the users of this server of the hub. Every server has its own ones,
// so neither leadership nor another server is in the way of an answer.
type readers struct {
	mu    sync.Mutex
	links map[string]*readLink // by cluster
	heard map[string]time.Time // when a cluster was heard last, also of clusters that are gone
	next  int64                // number of the last read
}

// A readLink is the stream on which one member waits for reads.
type readLink struct {
	cluster string
	out     chan *apipb.OwnerRead // holds maxReads, so that putting never blocks
	gone    chan struct{}         // closed when the stream has ended, or another one has replaced it

	mu      sync.Mutex
	cookie  string
	summary *summary.Summary // the last one that the member sent on this stream, nil before the first
	open    map[int64]*read
	ended   bool
}

// A read is a question to a member, and its answer.
type read struct {
	parts chan *apipb.ReadAnswer // without a buffer: a slow reader stops the stream, and so the member
	over  chan error             // gets nil after the last part, or an error if the stream broke
	left  chan struct{}          // closed when the reader has left
}

// ServeReads implements apipb.FederationServiceServer.
func (h *Hub) ServeReads(stream apipb.FederationService_ServeReadsServer) error {
	ctx := stream.Context()
	hello, err := stream.Recv()
	if err != nil {
		return err
	}
	if err = h.authenticate(ctx, hello.GetCluster()); err != nil {
		return apipb.ToStatus(err)
	}
	l := &readLink{
		cluster: hello.GetCluster(), cookie: hello.GetCookie(), out: make(chan *apipb.OwnerRead, maxReads), gone: make(chan struct{}), open: map[int64]*read{},
	}
	if err = h.checkCookie(ctx, l); err != nil {
		return apipb.ToStatus(err)
	}
	h.noteSummary(l, hello)
	h.reads.attach(l)
	defer h.reads.detach(l)
	beats := make(chan *apipb.MemberPresence)
	go func() { // it ends with the stream
		for {
			m, err := stream.Recv()
			if err != nil {
				l.end()
				return
			}
			select {
			case beats <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	silent := time.NewTimer(grant.Missed * h.Heartbeat)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.gone:
			return apipb.ToStatus(ares.Errorf(ares.Unavailable, "the stream has ended, or the cluster has opened a new one"))
		case <-silent.C:
			return apipb.ToStatus(ares.Errorf(ares.Unavailable, "the cluster has missed %d heartbeats", grant.Missed))
		case m := <-beats:
			silent.Reset(grant.Missed * h.Heartbeat)
			h.noteSummary(l, m)
			l.mu.Lock()
			l.cookie = m.GetCookie()
			l.mu.Unlock()
			h.reads.hear(l.cluster)
		case q := <-l.out:
			if err = stream.Send(q); err != nil {
				return err
			}
		}
	}
}

// noteSummary keeps the summary in a message of a member, if it has one.
func (h *Hub) noteSummary(l *readLink, m *apipb.MemberPresence) {
	if len(m.GetSummary()) == 0 {
		return
	}
	decoded := h.decodeSummary(l.cluster, m.GetSummary())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.summary = decoded
}

func (h *Hub) authenticate(ctx context.Context, cluster string) error {
	if h.Authenticate == nil {
		return nil
	}
	return h.Authenticate(ctx, cluster)
}

// checkCookie compares the cookie of a link with that of the cluster's session (F13). A copy of the member's store has the
// certificate too, but not the cookie of the last session, so it cannot answer for the member.
func (h *Hub) checkCookie(ctx context.Context, l *readLink) error {
	c, err := h.Store.Cluster(ctx, l.cluster)
	if err != nil {
		return err
	}
	l.mu.Lock()
	cookie := l.cookie
	l.mu.Unlock()
	if cookie == "" || cookie != c.Cookie && cookie != c.PendingCookie {
		return ares.Errorf(ares.Unavailable, "cluster %s has opened a session that this connection does not belong to: try again", l.cluster)
	}
	return nil
}

// AnswerRead implements apipb.FederationServiceServer. It ends when the reader has left.
func (h *Hub) AnswerRead(stream apipb.FederationService_AnswerReadServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if err = h.authenticate(stream.Context(), first.GetCluster()); err != nil {
		return apipb.ToStatus(err)
	}
	r := h.reads.find(first.GetCluster(), first.GetId())
	if r == nil { // nobody waits for this answer any more
		return stream.SendAndClose(&apipb.ReadEnd{})
	}
	received := make(chan error, 1)
	go func() { received <- r.receive(stream) }() // it ends with the stream
	select {
	case <-r.left:
	case err = <-received:
		if err != nil {
			return err
		}
	}
	return stream.SendAndClose(&apipb.ReadEnd{})
}

// The method `receive` passes the parts of an answer to the reader.
func (r *read) receive(stream apipb.FederationService_AnswerReadServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			r.over <- nil
			return nil
		}
		if err != nil {
			r.over <- err
			return err
		}
		select {
		case r.parts <- m:
		case <-r.left:
			return nil
		}
	}
}

func (rs *readers) attach(l *readLink) {
	rs.mu.Lock()
	old := rs.links[l.cluster]
	rs.links[l.cluster], rs.heard[l.cluster] = l, time.Now()
	rs.mu.Unlock()
	if old != nil {
		old.end()
	}
}

func (rs *readers) detach(l *readLink) {
	rs.mu.Lock()
	if rs.links[l.cluster] == l {
		delete(rs.links, l.cluster)
	}
	rs.mu.Unlock()
	l.end()
}

func (rs *readers) hear(cluster string) {
	rs.mu.Lock()
	rs.heard[cluster] = time.Now()
	rs.mu.Unlock()
}

// The method `link` returns the link of a cluster, or nil.
func (rs *readers) link(cluster string) *readLink {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.links[cluster]
}

func (rs *readers) number() int64 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.next++
	return rs.next
}

// The method `find` returns an open read of a cluster, or nil.
func (rs *readers) find(cluster string, id int64) *read {
	l := rs.link(cluster)
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[id]
}

func (l *readLink) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.gone)
	}
}

// The method `begin` sends a read to the member.
func (l *readLink) begin(q *apipb.OwnerRead) (*read, error) {
	if proto.Size(q) > maxReadBytes {
		return nil, ares.Errorf(ares.TooLarge, "the request is larger than %d bytes, the limit of what a hub passes on to a cluster", maxReadBytes)
	}
	r := &read{parts: make(chan *apipb.ReadAnswer), over: make(chan error, 1), left: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= maxReads {
		return nil, ares.Errorf(ares.Exhausted, "this server of the hub already reads %d times from cluster %s: try again later, or read at a server of that cluster", maxReads, l.cluster)
	}
	select {
	case l.out <- q:
	default: // earlier reads have left, and their requests still wait to be sent
		return nil, ares.Errorf(ares.Exhausted, "cluster %s takes no more requests for now: try again", l.cluster)
	}
	l.open[q.Id] = r
	return r, nil
}

func (l *readLink) finish(id int64, r *read) {
	close(r.left)
	l.mu.Lock()
	delete(l.open, id)
	l.mu.Unlock()
}

// The method `ask` asks a cluster, and passes the parts of its answer on. It returns when the answer is complete.
func (h *Hub) ask(ctx context.Context, cluster string, q *apipb.OwnerRead, each func(*apipb.ReadAnswer) error) error {
	l := h.reads.link(cluster)
	if l == nil {
		return h.unreachable(ctx, cluster)
	}
	if err := h.checkCookie(ctx, l); err != nil {
		return err
	}
	q.Id = h.reads.number()
	r, err := l.begin(q)
	if err != nil {
		return err
	}
	defer l.finish(q.Id, r)
	wait := time.NewTimer(answerWait)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.gone:
			return h.unreachable(ctx, cluster)
		case <-wait.C:
			return ares.Errorf(ares.Unavailable, "cluster %s has not answered within %s: try again", cluster, answerWait)
		case m := <-r.parts:
			if q.Kind == apipb.OwnerRead_KIND_LOGS { // output may come at any time
				wait.Stop()
			}
			if f := m.GetFailure(); f != nil {
				return failureOf(cluster, f)
			}
			if err = each(m); err != nil {
				return err
			}
		case err = <-r.over:
			if err != nil {
				return ares.Errorf(ares.Unavailable, "the connection to cluster %s broke during its answer: try again", cluster)
			}
			return nil
		}
	}
}

// Heard returns when this server of the hub has heard a cluster last, or false if it never has.
func (h *Hub) Heard(cluster string) (time.Time, bool) {
	h.reads.mu.Lock()
	defer h.reads.mu.Unlock()
	at, ok := h.reads.heard[cluster]
	return at, ok
}

// The method `unreachable` returns the error for a cluster that cannot be asked. It says since when, and what to do.
func (h *Hub) unreachable(ctx context.Context, cluster string) error {
	since := ""
	if at, ok := h.Heard(cluster); ok {
		since = sinceText(at)
	}
	c, err := h.Store.Cluster(ctx, cluster)
	switch {
	case err != nil:
		return err
	case c.Unreachable:
		if since == "" {
			since = sinceText(c.HealthSince)
		}
		return ares.Errorf(ares.Unavailable, "cluster %s cannot be reached%s: try again when `ares cluster get %s` shows it as ready, or ask a server of that cluster. If it is gone for good and its machines are off, `ares cluster declare-dead %s` lets its jobs run elsewhere",
			cluster, since, cluster, cluster)
	case since != "":
		return ares.Errorf(ares.Unavailable, "cluster %s is not connected to this server of the hub%s: try again, or at another server of the hub", cluster, since)
	}
	return ares.Errorf(ares.Unavailable, "cluster %s has never connected to this server of the hub: try again, or at another server of the hub. A cluster connects to the servers that `ares join --global` named, if it has the version of the hub", cluster)
}

func sinceText(at time.Time) string {
	return " since " + at.UTC().Format(time.RFC3339) + " (" + time.Since(at).Round(time.Second).String() + ")"
}
