package security

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
)

// This method returns an attempt to join the cluster as a node with a join
// token.
func (s *scene) join(name, token, node string) attempt {
	conn := s.dial(s.t)
	return attempt{name: name, try: func(ctx context.Context, _ names, id string) (result, error) {
		key, err := pki.NewKey()
		if err != nil {
			return result{}, err
		}
		request, err := pki.Request(key)
		if err != nil {
			return result{}, err
		}
		got, err := apipb.NewTrustServiceClient(conn).JoinNode(metadata.AppendToOutgoingContext(ctx, "x-request-id", id), &apipb.JoinNodeRequest{Token: token, NodeId: node, Request: request})
		return said(err, got), nil
	}}
}

// This method joins a node with a valid token and returns the node's
// certificate.
func (s *scene) joined(node, token string) tls.Certificate {
	s.t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := pki.Request(key)
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := apipb.NewTrustServiceClient(s.dial(s.t)).JoinNode(s.t.Context(), &apipb.JoinNodeRequest{Token: token, NodeId: node, Request: request})
	if err != nil {
		s.t.Fatalf("join %s: %v", node, err)
	}
	return tls.Certificate{Certificate: [][]byte{got.GetCertificate(), got.GetAuthority()}, PrivateKey: key}
}

func (s *scene) joinToken(node string) string {
	s.t.Helper()
	return s.do(s.t, http.MethodPost, "/api/v1/join-tokens", fmt.Sprintf(`{"node_id":%q,"ttl_seconds":600}`, node))["token"].(string)
}

// This method returns attempts that misuse a node's certificate, an untrusted
// certificate or a join token.
func (s *scene) nodes() []attempt {
	token := s.joinToken("mine")
	mine := s.joined("mine", token)
	revokedNode := s.joined("fallen", s.joinToken("fallen"))
	s.do(s.t, http.MethodPost, "/api/v1/nodes/fallen:revoke", `{"reason":"taken over"}`)
	withdrawn := s.do(s.t, http.MethodPost, "/api/v1/join-tokens", `{"ttl_seconds":600}`)
	record := withdrawn["join_token"].(map[string]any)
	s.do(s.t, http.MethodDelete, "/api/v1/join-tokens/"+record["id"].(string), "")
	fresh, anybody := s.joinToken("promised"), s.do(s.t, http.MethodPost, "/api/v1/join-tokens", `{"ttl_seconds":600}`)["token"].(string)
	out := []attempt{
		s.join("a join token replayed", token, "mine"), s.join("a join token replayed for another node", token, "other"), s.join("a join token for another node", fresh, "other"),
		s.join("an open join token for a node that is known", anybody, "mine"), s.join("an open join token for a node that was revoked", anybody, "fallen"), s.join("an open join token for a path", anybody, "../other"), s.join("an open join token for no name", anybody, ""), s.join("an open join token for a long name", anybody, strings.Repeat("n", 64)),
		s.join("a join token withdrawn", withdrawn["token"].(string), "x"), s.join("a join token cut", anybody[:len(anybody)-1], "x"), s.join("a service token to join", s.red, "x"), s.join("the node token to join", s.node, "x"), s.join("a join token with more", anybody+"a", "x"), s.join("no join token", "", "x"), s.join("a very long join token", strings.Repeat("a", 513), "x"),
	}
	good, fallen := s.dial(s.t, mine), s.dial(s.t, revokedNode)
	for _, m := range methods(s.t) {
		if m.verdict == open {
			continue
		}
		everybodys := strings.HasSuffix(m.name, "/WhoAmI") || strings.HasSuffix(m.name, "/CanI") || strings.HasSuffix(m.name, "/GetAuthority")
		for _, by := range []struct {
			name  string
			conn  *grpc.ClientConn
			codes []string
		}{{"a node's certificate", good, nil}, {"a revoked certificate", fallen, []string{"Unauthenticated", "PermissionDenied"}}} {
			if by.conn == fallen && m.joins() {
				by.codes = nil
			}
			out = append(out, attempt{name: by.name + " calls " + m.name, answered: everybodys && by.conn == good, codes: by.codes, try: func(ctx context.Context, n names, id string) (result, error) {
				return m.call(ctx, by.conn, id, n.in(m.request, id))
			}})
		}
	}
	return append(out, s.strangers()...)
}

// This method returns attempts that use a certificate that the server's
// certificate authority did not issue.
func (s *scene) strangers() []attempt {
	key, err := pki.NewKey()
	if err != nil {
		s.t.Fatal(err)
	}
	request, err := pki.Request(key)
	if err != nil {
		s.t.Fatal(err)
	}
	other, err := pki.NewAuthority(time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	leaf, err := other.IssueNode(request, "mine", 1, time.Now(), time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	poser, err := tls.LoadX509KeyPair(s.CertFile, s.KeyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []attempt
	for name, cert := range map[string]tls.Certificate{
		"a certificate of another authority": {Certificate: [][]byte{leaf, other.Certificate.Raw}, PrivateKey: key},
		"the server's own certificate":       poser,
	} {
		conn := s.dial(s.t, cert)
		out = append(out, attempt{name: name, unheard: true, try: func(ctx context.Context, _ names, id string) (result, error) {
			_, err := apipb.NewAgentServiceClient(conn).RenewSession(metadata.AppendToOutgoingContext(ctx, "x-request-id", id), &apipb.RenewSessionRequest{Ref: &apipb.SessionRef{NodeId: "mine", Session: 1}})
			got := said(err)
			if status.Code(err) == codes.Unavailable { // the handshake fails
				got.refused, got.broken = true, false
			}
			return got, nil
		}})
	}
	return out
}
