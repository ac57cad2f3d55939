package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// newTrust returns a Trust with a new certificate authority.
func newTrust(tb testing.TB, st *store.Store) *pipeline.Trust {
	tb.Helper()
	authority, err := pki.NewAuthority(time.Now())
	must(tb, err)
	t := &pipeline.Trust{Authority: authority, Store: st, NodeLife: time.Hour, Now: time.Now}
	must(tb, t.Load(tb.Context()))
	return t
}

// The type `lasting` is an agent service whose stream lasts until the test ends it.
type lasting struct {
	apipb.UnimplementedAgentServiceServer
	opened chan struct{}
	door   *service.AgentService
}

func (w *lasting) WatchSeats(_ *apipb.WatchSeatsRequest, s apipb.AgentService_WatchSeatsServer) error {
	w.opened <- struct{}{}
	<-s.Context().Done()
	return s.Context().Err()
}

func (w *lasting) OpenSession(ctx context.Context, req *apipb.OpenSessionRequest) (*apipb.OpenSessionResponse, error) {
	return w.door.OpenSession(ctx, req)
}

func (w *lasting) ServeFiles(s apipb.AgentService_ServeFilesServer) error {
	return (&service.AgentService{Files: &service.Files{}}).ServeFiles(s)
}

// JoinSession reads the first message, as the real one does: it names the node.
func (w *lasting) JoinSession(s apipb.AgentService_JoinSessionServer) error {
	_, err := s.Recv()
	return err
}

// RunRankSession reads the first message, as the real one does.
func (w *lasting) RunRankSession(s apipb.AgentService_RunRankSessionServer) error {
	_, err := s.Recv()
	return err
}

func (w *lasting) RenewSession(context.Context, *apipb.RenewSessionRequest) (*apipb.RenewSessionResponse, error) {
	return &apipb.RenewSessionResponse{}, nil
}

// The type `fortress` is a test server whose gRPC listener uses TLS.
type fortress struct {
	*house
	at     string
	agents *lasting
	clock  atomic.Int64 // how far the test clock is ahead of the real one
}

func newFortress(t *testing.T, change ...func(*Config)) *fortress {
	f := &fortress{agents: &lasting{opened: make(chan struct{}, 1)}}
	f.house = newHouse(t, append(change, func(c *Config) {
		c.AgentService = f.agents
		f.agents.door = &service.AgentService{Store: c.Store, View: c.View, Server: "here", TTL: func(int) time.Duration { return time.Minute }, Now: time.Now}
		c.Trust.Now = func() time.Time { return time.Now().Add(time.Duration(f.clock.Load())) }
	})...)
	serving, err := pki.IssueServing(f.cfg.Trust.Authority, t.TempDir(), []string{"127.0.0.1"}, slog.New(slog.DiscardHandler))
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f.at = l.Addr().String()
	s := f.GRPC(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, GetCertificate: serving.Certificate, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: f.cfg.Trust.Authority.Pool(),
	})))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // returns after Stop
	}()
	t.Cleanup(func() {
		s.Stop()
		<-done
	})
	return f
}

func (f *fortress) connect(config *tls.Config) *grpc.ClientConn {
	f.t.Helper()
	conn, err := grpc.NewClient(f.at, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	must(f.t, err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// The method `anonymous` returns a connection without a client certificate.
func (f *fortress) anonymous() *grpc.ClientConn {
	return f.connect(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: f.cfg.Trust.Authority.Pool()})
}

func (f *fortress) token(node string) string {
	f.t.Helper()
	made, err := apipb.NewTrustServiceClient(f.anonymous()).CreateJoinToken(as(f.t.Context(), adminToken), &apipb.CreateJoinTokenRequest{NodeId: node})
	must(f.t, err)
	return made.GetToken()
}

// The method `join` makes a node join the cluster, and returns the node and its connection.
func (f *fortress) join(name string) (*pki.Node, *grpc.ClientConn) {
	f.t.Helper()
	n, err := pki.OpenNode(f.t.TempDir(), name, time.Now)
	must(f.t, err)
	must(f.t, f.joinBy(n, f.token(name)))
	return n, f.connect(n.Client(nil))
}

// leafOf returns the certificate that a node presents.
func leafOf(t *testing.T, n *pki.Node) *x509.Certificate {
	t.Helper()
	shown, err := n.Client(nil).GetClientCertificate(nil)
	must(t, err)
	return shown.Leaf
}

func (f *fortress) joinBy(n *pki.Node, token string) error {
	request, err := n.Request()
	must(f.t, err)
	got, err := apipb.NewTrustServiceClient(f.anonymous()).JoinNode(f.t.Context(), &apipb.JoinNodeRequest{Token: token, NodeId: n.Name, Request: request})
	if err != nil {
		return err
	}
	return n.Store(got.GetCertificate(), got.GetAuthority())
}

func refusedAs(t *testing.T, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Errorf("got %v, want %v", err, code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestJoin(t *testing.T) {
	f := newFortress(t)
	token := f.token("")
	first, err := pki.OpenNode(t.TempDir(), "n1", time.Now)
	must(t, err)
	second, err := pki.OpenNode(t.TempDir(), "n1", time.Now)
	must(t, err)
	must(t, f.joinBy(first, token))
	must(t, f.joinBy(first, token)) // the answer may have been lost
	refusedAs(t, f.joinBy(second, token), codes.Unauthenticated, "already used by node n1")
	for _, bad := range []string{"", "x", "ares-join.a.b.c", token[:len(token)-1], token + "0"} {
		refusedAs(t, f.joinBy(second, bad), codes.InvalidArgument, "ares node token create")
	}
	refusedAs(t, f.joinBy(second, strings.Replace(token, ".", ".x", 1)), codes.Unauthenticated, "is unknown or no longer valid")
	must(t, f.joinBy(second, f.token("n1")))
	if strings.Contains(f.log.String(), strings.Split(token, ".")[2]) {
		t.Error("the log has a secret")
	}

	trust := apipb.NewTrustServiceClient(f.connect(first.Client(nil)))
	request, err := first.Request()
	must(t, err)
	next, err := trust.RenewCertificate(t.Context(), &apipb.RenewCertificateRequest{Request: request})
	must(t, err)
	must(t, first.Store(next.GetCertificate(), next.GetAuthority()))
	_, err = trust.CreateJoinToken(t.Context(), &apipb.CreateJoinTokenRequest{})
	refusedAs(t, err, codes.PermissionDenied)
	_, err = apipb.NewTrustServiceClient(f.anonymous()).RenewCertificate(t.Context(), &apipb.RenewCertificateRequest{Request: request})
	refusedAs(t, err, codes.Unauthenticated)
	_, err = apipb.NewTrustServiceClient(f.anonymous()).RenewCertificate(as(t.Context(), nodeToken), &apipb.RenewCertificateRequest{Request: request})
	refusedAs(t, err, codes.FailedPrecondition, "only a node with a certificate can renew it")
}

// TestNodeSpeaksForItself calls every agent method of the API with the certificate of node n1.
// The certificate must be accepted only for n1. Calls that name no node must be rejected too.
func TestNodeSpeaksForItself(t *testing.T) {
	f := newFortress(t)
	_, conn := f.join("n1")
	methods := apipb.File_apipb_agent_proto.Services().ByName("AgentService").Methods()
	if methods.Len() < 13 {
		t.Fatalf("only %d methods", methods.Len())
	}
	for i := range methods.Len() {
		m := methods.Get(i)
		for node, want := range map[string]bool{"n1": true, "n2": false, "": false} {
			full := "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			done := make(chan struct{})
			go func() { // the long stream has reported that it was accepted
				defer close(done)
				select {
				case <-f.agents.opened:
					cancel()
				case <-ctx.Done():
				}
			}()
			err := say(ctx, conn, full, m, inNameOf(m.Input(), node))
			cancel()
			<-done
			if got := status.Code(err) != codes.PermissionDenied; got != want {
				t.Errorf("%s in the name of %q: %v", m.Name(), node, err)
			}
		}
	}
}

func say(ctx context.Context, conn *grpc.ClientConn, full string, m protoreflect.MethodDescriptor, req proto.Message) error {
	answer := dynamicpb.NewMessage(m.Output())
	if !m.IsStreamingClient() && !m.IsStreamingServer() {
		return conn.Invoke(ctx, full, req, answer)
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: m.IsStreamingClient()}, full)
	if err != nil {
		return err
	}
	if err = s.SendMsg(req); err != nil {
		return s.RecvMsg(answer)
	}
	_ = s.CloseSend() // RecvMsg returns the error
	return s.RecvMsg(answer)
}

// inNameOf makes a request on behalf of a node.
func inNameOf(kind protoreflect.MessageDescriptor, node string) proto.Message {
	m := dynamicpb.NewMessage(kind)
	for _, c := range []struct {
		in, field protoreflect.Name
		value     any
	}{
		{"ref", "node_id", node},
		{"node", "node_id", node},
		{"result", "outcome", "succeeded"},
		{"seat", "job_id", "job-aaaaaaaaaaaaaaaaaaaaaaaa"},
		{"seat", "fence", int64(1)},
	} {
		if fd := kind.Fields().ByName(c.in); fd != nil {
			inner := m.Mutable(fd).Message()
			inner.Set(inner.Descriptor().Fields().ByName(c.field), protoreflect.ValueOf(c.value))
		}
	}
	return m
}

func TestRevocationEndsStreams(t *testing.T) {
	f := newFortress(t)
	n1, conn := f.join("n1")
	_, other := f.join("n2")
	agents := apipb.NewAgentServiceClient(conn)
	ref := &apipb.SessionRef{NodeId: "n1", Session: 1}
	stream, err := agents.WatchSeats(t.Context(), &apipb.WatchSeatsRequest{Ref: ref})
	must(t, err)
	<-f.agents.opened

	// The variable `beside` represents a second server with the same store. This server reads the
	// revocations from the store itself.
	beside := &pipeline.Trust{Authority: f.cfg.Trust.Authority, Store: f.store, NodeLife: time.Hour, Now: time.Now}
	must(t, beside.Load(t.Context()))
	_, err = beside.Identify(t.Context(), leafOf(t, n1))
	must(t, err)
	changed := beside.Changed()

	admin := apipb.NewTrustServiceClient(f.anonymous())
	_, err = admin.RevokeNode(as(t.Context(), adminToken), &apipb.RevokeNodeRequest{NodeId: "n1", Reason: "stolen"})
	must(t, err)
	_, err = stream.Recv() // the stream ends long before the next regular check, which is a minute later
	refusedAs(t, err, codes.Unauthenticated, "revoked")
	_, err = agents.RenewSession(t.Context(), &apipb.RenewSessionRequest{Ref: ref})
	refusedAs(t, err, codes.Unauthenticated, "revoked")
	request, err := n1.Request()
	must(t, err)
	_, err = apipb.NewTrustServiceClient(conn).RenewCertificate(t.Context(), &apipb.RenewCertificateRequest{Request: request})
	refusedAs(t, err, codes.Unauthenticated, "revoked")
	_, err = apipb.NewAgentServiceClient(other).RenewSession(t.Context(), &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: "n2", Session: 1}})
	if err != nil {
		t.Errorf("another node: %v", err)
	}

	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- beside.Run(running) }()
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("the other server does not hear of it")
	}
	stop()
	must(t, <-ended)
	if _, err = beside.Identify(t.Context(), leafOf(t, n1)); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("the other server says %v", err)
	}

	must(t, f.joinBy(n1, f.token("n1")))
	_, err = apipb.NewAgentServiceClient(f.connect(n1.Client(nil))).RenewSession(t.Context(), &apipb.RenewSessionRequest{Ref: ref})
	if err != nil {
		t.Errorf("after joining again: %v", err)
	}
	list, err := admin.ListRevocations(as(t.Context(), adminToken), &apipb.ListRevocationsRequest{})
	must(t, err)
	if len(list.GetRevocations()) != 1 || list.GetRevocations()[0].GetReason() != "stolen" || list.GetRevocations()[0].GetRevokedBy() != "token:admin" {
		t.Errorf("the list has %v", list)
	}
}

// TestRevocationEndsTheSession checks that a revocation ends the session
// immediately and permanently. A server that has not yet read the revocation
// still accepts the certificate, but opens no session with it.
func TestRevocationEndsTheSession(t *testing.T) {
	f := newFortress(t)
	n1, conn := f.join("n1")
	open := func(conn *grpc.ClientConn) error {
		_, err := apipb.NewAgentServiceClient(conn).OpenSession(t.Context(), &apipb.OpenSessionRequest{
			Node: &apipb.NodeInfo{NodeId: "n1", SessionCut: true}, Instance: "0123456789abcdef",
		})
		return err
	}
	seen := func(what string, is func(*cache.NodeEntry) bool) {
		t.Helper()
		now, err := f.store.Revision(t.Context())
		must(t, err)
		must(t, f.view.WaitFor(t.Context(), now))
		if n := f.view.Node("n1"); n == nil || !is(n) {
			t.Fatalf("%s: %+v", what, n)
		}
	}
	must(t, open(conn))
	seen("it has come, and says of itself what is the server's to say", func(n *cache.NodeEntry) bool { return n.Session != nil && !n.Node.SessionCut })
	_, err := f.store.Revoke(t.Context(), store.Revocation{Node: "n1", At: time.Now()}, time.Now()) // as another server would
	must(t, err)
	seen("revoked", func(n *cache.NodeEntry) bool { return n.Session == nil && n.Node.SessionCut })
	refusedAs(t, open(conn), codes.Unauthenticated, "revoked")
	seen("it tried again", func(n *cache.NodeEntry) bool { return n.Session == nil })
	must(t, f.joinBy(n1, f.token("n1")))
	must(t, open(f.connect(n1.Client(nil))))
	_, err = apipb.NewTrustServiceClient(f.anonymous()).RevokeNode(as(t.Context(), adminToken), &apipb.RevokeNodeRequest{NodeId: "n1"})
	must(t, err)
	seen("revoked by the API", func(n *cache.NodeEntry) bool { return n.Session == nil && n.Node.SessionCut })
}

// TestCertificateEnds checks that a connection stays open when its certificate
// expires, but its calls and streams fail.
func TestCertificateEnds(t *testing.T) {
	f := newFortress(t)
	f.Recheck = 10 * time.Millisecond
	_, conn := f.join("n1")
	agents := apipb.NewAgentServiceClient(conn)
	ref := &apipb.SessionRef{NodeId: "n1", Session: 1}
	stream, err := agents.WatchSeats(t.Context(), &apipb.WatchSeatsRequest{Ref: ref})
	must(t, err)
	<-f.agents.opened
	// Advance the clock in steps and read the revocations at each step, so that
	// the certificate expires while the revocations are still fresh.
	for ahead := pipeline.StaleAfter / 2; ahead < time.Hour; ahead += pipeline.StaleAfter / 2 {
		f.clock.Store(int64(ahead))
		must(t, f.cfg.Trust.Load(t.Context())) // with the clock at that time
	}
	f.clock.Store(int64(time.Hour + time.Second))
	_, err = stream.Recv()
	refusedAs(t, err, codes.Unauthenticated, "expired at")
	_, err = agents.RenewSession(t.Context(), &apipb.RenewSessionRequest{Ref: ref})
	refusedAs(t, err, codes.Unauthenticated, "expired at")
	f.clock.Store(int64(time.Hour + time.Second + pipeline.StaleAfter + time.Second))
	_, err = agents.RenewSession(t.Context(), &apipb.RenewSessionRequest{Ref: ref})
	refusedAs(t, err, codes.Unavailable, "cannot be checked")
}

// TestForeignCertificates checks that neither another authority's certificate
// nor a server's certificate is accepted for a node.
func TestForeignCertificates(t *testing.T) {
	f := newFortress(t)
	key, err := pki.NewKey()
	must(t, err)
	request, err := pki.Request(key)
	must(t, err)
	stranger, err := pki.NewAuthority(time.Now())
	must(t, err)
	foreign, err := stranger.IssueNode(request, "n1", 9, time.Now(), time.Hour)
	must(t, err)
	server, err := f.cfg.Trust.Authority.IssueServer(key.Public(), []string{"n1"}, time.Now())
	must(t, err)
	for what, der := range map[string][]byte{"another authority's": foreign, "a server's": server} {
		leaf, err := x509.ParseCertificate(der)
		must(t, err)
		conn := f.connect(&tls.Config{
			MinVersion: tls.VersionTLS13, RootCAs: f.cfg.Trust.Authority.Pool(),
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = apipb.NewAgentServiceClient(conn).RenewSession(ctx, &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: "n1"}})
		cancel()
		if err == nil {
			t.Errorf("%s certificate was taken", what)
		}
	}
}

func TestNodeTokenIsForThisMachine(t *testing.T) {
	h := newHouse(t)
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }
	for _, c := range []struct {
		from, to net.Addr
		token    string
		allow    bool
		want     ares.Code
	}{
		{at("127.0.0.1"), at("127.0.0.1"), nodeToken, false, ""},
		{at("10.0.0.1"), at("10.0.0.1"), nodeToken, false, ""},
		{&net.UnixAddr{Name: "x"}, &net.UnixAddr{Name: "x"}, nodeToken, false, ""},
		{at("10.0.0.2"), at("10.0.0.1"), nodeToken, false, ares.Forbidden},
		{at("10.0.0.2"), nil, nodeToken, false, ares.Forbidden},
		{at("10.0.0.2"), at("10.0.0.1"), nodeToken, true, ""},
		{at("10.0.0.2"), at("10.0.0.1"), adminToken, false, ""},
		{at("10.0.0.2"), at("10.0.0.1"), "wrong", true, ares.Unauthentic},
	} {
		h.cfg.Trust.AllowNodeToken = c.allow
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: c.from, LocalAddr: c.to})
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+c.token))
		method := apipb.AgentService_RenewSession_FullMethodName
		if c.token == adminToken {
			method = apipb.ClusterService_ListNodes_FullMethodName
		}
		if _, err := admit(ctx, h.Pipeline, method); ares.CodeOf(err) != c.want {
			t.Errorf("%s from %v to %v: %v", c.token, c.from, c.to, err)
		}
	}
}

// TestRemovedNodeIsRevoked checks that the certificate of a removed node is
// revoked.
func TestRemovedNodeIsRevoked(t *testing.T) {
	f := newFortress(t)
	_, conn := f.join("n1")
	opened, err := f.store.OpenSession(t.Context(), ares.Node{ID: "n1", CPUs: 1, MemoryMB: 1}, "0123456789abcdef", "s", time.Minute, 0)
	must(t, err)
	must(t, f.store.CloseSession(t.Context(), "n1", opened.Revision))
	_, err = apipb.NewClusterServiceClient(f.anonymous()).RemoveNode(as(t.Context(), adminToken), &apipb.RemoveNodeRequest{NodeId: "n1"})
	must(t, err)
	_, err = apipb.NewAgentServiceClient(conn).RenewSession(t.Context(), &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: "n1"}})
	refusedAs(t, err, codes.Unauthenticated, "revoked")
}

func TestRevocationsGrowOld(t *testing.T) {
	f := newFortress(t)
	n, _ := f.join("n1")
	tr := &pipeline.Trust{Now: time.Now}
	if _, err := tr.Identify(t.Context(), leafOf(t, n)); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("before the first reading: %v", err)
	}
	if tr.Changed() != nil {
		t.Error("a channel before the first reading")
	}
}
