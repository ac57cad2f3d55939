package service

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/objects/logs"
)

// The constant `window` is the maximum number of unprocessed log chunks for one reader. The agent may send
// another chunk only after the reader has processed an earlier one. When all ranks are read at once, each
// rank has only mergeWindow.
const (
	window      = 16
	mergeWindow = 3
)

// Files fetches job logs from the agents over connections that the agents
// opened.
type Files struct {
	View   *cache.View
	Server string // this server's own address
	// TLS returns the TLS settings for connections to another server, or nil for plaintext. TLS may be nil.
	TLS func(server string) *tls.Config
	// Stored has the output of ended ranks. If Stored is nil, output can be read only while its node is connected.
	Stored *logs.Store

	mu    sync.Mutex
	nodes map[string]*bulk
}

// The type `bulk` is the connection over which one agent sends files.
type bulk struct {
	mu      sync.Mutex
	stream  apipb.AgentService_ServeFilesServer
	next    int64
	readers map[int64]chan *apipb.ServeFilesRequest
	gone    chan struct{}
}

// ServeFiles handles an agent's connection for files. On this connection, the
// server sends requests and the agent sends data.
func (d *AgentService) ServeFiles(stream apipb.AgentService_ServeFilesServer) error {
	hello, err := stream.Recv()
	if err != nil {
		return err
	}
	b := &bulk{stream: stream, readers: map[int64]chan *apipb.ServeFilesRequest{}, gone: make(chan struct{})}
	node := hello.GetRef().GetNodeId()
	if node == "" {
		return ares.Errorf(ares.Invalid, "ref: node_id is required in the first message").At("ref")
	}
	if err = d.Store.CheckSession(stream.Context(), node, hello.GetRef().GetSession()); err != nil {
		return err // another holder of the certificate must not get the requests that are for the connected agent
	}
	d.Files.attach(node, b)
	defer d.Files.detach(node, b)
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil // the agent has left; gone notifies the readers
		}
		b.deliver(m)
	}
}

func (f *Files) attach(node string, b *bulk) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil {
		f.nodes = map[string]*bulk{}
	}
	f.nodes[node] = b
}

func (f *Files) detach(node string, b *bulk) {
	f.mu.Lock()
	if f.nodes[node] == b {
		delete(f.nodes, node)
	}
	f.mu.Unlock()
	close(b.gone)
}

// connected returns the connection of a node's agent, or nil if the agent is not connected to this server.
func (f *Files) connected(node string) *bulk {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[node]
}

// The method `deliver` passes an agent's message to the reader that requested the log. The
// reader's channel holds as many messages as the window allows, so the channel is never full while
// the agent respects the window. If an agent exceeds the window, the method ends the log stream.
func (b *bulk) deliver(m *apipb.ServeFilesRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch := b.readers[m.StreamId]
	if ch == nil {
		return
	}
	select {
	case ch <- m:
	default:
		delete(b.readers, m.StreamId)
		close(ch)
	}
}

func (b *bulk) send(m *apipb.ServeFilesResponse) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream.Send(m)
}

func (b *bulk) open(q *apipb.LogQuery, window int32) (int64, chan *apipb.ServeFilesRequest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	ch := make(chan *apipb.ServeFilesRequest, window+2)
	b.readers[b.next] = ch
	err := b.stream.Send(&apipb.ServeFilesResponse{StreamId: b.next, Log: q, Credit: window})
	return b.next, ch, err
}

func (b *bulk) close(id int64) {
	b.mu.Lock()
	_, open := b.readers[id]
	delete(b.readers, id)
	b.mu.Unlock()
	if open {
		_ = b.send(&apipb.ServeFilesResponse{StreamId: id, Cancel: true}) // if the stream is broken, it ends anyway
	}
}

// Logs sends the output of one rank. Logs gets the output from the rank's node, or from the server
// to which that node is connected. If that fails after the end of the rank, Logs continues with the stored output.
func (f *Files) Logs(ctx context.Context, q LogQuery, send func(LogPart) error) error {
	a, h := q.Seat()
	if h == nil {
		return nil // nothing has run yet, so there is no output
	}
	var unsent error
	err := f.fromNode(ctx, q, a, h, func(p LogPart) error {
		if unsent = send(p); unsent == nil && p.Offset != nil {
			q.Offset = p.Offset
		}
		return unsent
	})
	if err == nil || unsent != nil || ctx.Err() != nil || !hasEnded(a, h) {
		return err
	}
	return f.fromStore(ctx, q, a, h, err, send)
}

// fromNode sends what the rank's node has.
func (f *Files) fromNode(ctx context.Context, q LogQuery, a *ares.Attempt, h *ares.SeatStatus, send func(LogPart) error) error {
	b := f.connected(h.Node)
	if b == nil {
		return f.elsewhere(ctx, q, h.Node, send)
	}
	id, ch, err := b.open(q.forAgent(a, h), q.window())
	if err != nil {
		return away(h.Node)
	}
	defer b.close(id)
	isOld := q.selects() // until the agent says where the output begins, which an older agent does not
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.gone:
			return away(h.Node)
		case m, ok := <-ch:
			switch {
			case !ok:
				return away(h.Node)
			case m.Error != "":
				return ares.Errorf(ares.NotFound, "read the log of job %s, rank %d, on node %s: %s", q.Job, h.Rank, h.Node, ares.Truncate(ares.Printable(m.Error), maxReasonText))
			case m.End:
				return nil
			}
			if isOld = isOld && m.Offset == nil; isOld {
				return ares.Errorf(ares.FeatureDisabled, "node %s runs an older version of the agent, which can send only the whole output of one rank: update the agent, or read the output without tail, since, timestamps, grep and all ranks", h.Node)
			}
			if err := send(LogPart{Data: m.Data, Offset: m.Offset, Lines: m.Lines, CompleteUntil: m.CompleteUntil}); err != nil {
				return err
			}
			if err := b.send(&apipb.ServeFilesResponse{StreamId: id, Credit: 1}); err != nil {
				return away(h.Node)
			}
		}
	}
}

// The method `elsewhere` forwards a log request to the server to which the node is connected. The request
// carries the caller's own token. A forwarded request is not forwarded again.
func (f *Files) elsewhere(ctx context.Context, q LogQuery, node string, send func(LogPart) error) error {
	n := f.View.Node(node)
	if n == nil || n.Session == nil || n.Session.Server == f.Server || isForwarded(ctx) {
		return away(node)
	}
	conn, err := f.dial(n.Session.Server)
	if err != nil {
		return away(node)
	}
	defer func() { _ = conn.Close() }()
	stream, err := apipb.NewJobServiceClient(conn).StreamLogs(asForwarded(ctx), q.forServer())
	if err != nil {
		return apipb.FromStatus(err)
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return apipb.FromStatus(err)
		}
		if err := send(LogPart{Data: m.Data, Offset: m.Offset, Lines: m.Lines, CompleteUntil: m.CompleteUntil}); err != nil {
			return err
		}
	}
}

// dial returns a connection to another server.
func (f *Files) dial(server string) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if f.TLS != nil {
		if config := f.TLS(server); config != nil {
			creds = credentials.NewTLS(config)
		}
	}
	return grpc.NewClient(server, grpc.WithTransportCredentials(creds))
}

// asForwarded returns the context for a call to another server on behalf of the caller.
func asForwarded(ctx context.Context) context.Context {
	in, _ := metadata.FromIncomingContext(ctx)
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs(forwarded, "1"))
	if token := in.Get("authorization"); len(token) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token[0])
	}
	return ctx
}

// The constant `forwarded` is the name of the metadata that marks a request of another server.
const forwarded = "ares-forwarded"

func isForwarded(ctx context.Context) bool {
	in, _ := metadata.FromIncomingContext(ctx)
	return len(in.Get(forwarded)) > 0
}

func away(node string) error {
	return ares.Errorf(ares.Unavailable, "node %s is not connected: its logs can be read when it reconnects", node)
}
