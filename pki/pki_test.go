package pki

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func authorityAt(t testing.TB, at time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority(at)
	must(t, err)
	return a
}

func keyAndRequest(t testing.TB) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := NewKey()
	must(t, err)
	request, err := Request(key)
	must(t, err)
	return key, request
}

func refused(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("taken, want a refusal with %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestSealedAuthority(t *testing.T) {
	a := authorityAt(t, noon)
	secret, other := []byte(strings.Repeat("s", 32)), []byte(strings.Repeat("o", 32))
	open, err := a.Seal(nil)
	must(t, err)
	sealed, err := a.Seal(secret)
	must(t, err)
	if key, bad := x509.MarshalPKCS8PrivateKey(a.key); bad != nil || !bytes.Contains(open.Key, key) || bytes.Contains(sealed.Key, key[len(key)-32:]) {
		t.Error("the key is not where it should be, or is where it should not")
	}
	for what, c := range map[string]struct {
		kept   Sealed
		secret []byte
		want   string
	}{
		"open":                 {open, nil, ""},
		"sealed":               {sealed, secret, ""},
		"no secret":            {sealed, nil, "pki.secret_file"},
		"another secret":       {sealed, other, "another secret"},
		"a secret for nothing": {open, secret, "stored unencrypted"},
		"a short secret":       {sealed, []byte("short"), "32 or more"},
		"damaged":              {Sealed{Certificate: sealed.Certificate, Key: sealed.Key[:4], Salt: sealed.Salt}, secret, "damaged"},
		"another certificate":  {Sealed{Certificate: authorityAt(t, noon).Certificate.Raw, Key: open.Key}, nil, "does not belong"},
		"no key":               {Sealed{Certificate: open.Certificate}, nil, "key"},
		"no certificate":       {Sealed{Key: open.Key}, nil, "certificate"},
	} {
		got, bad := c.kept.Open(c.secret)
		switch {
		case c.want != "":
			refused(t, bad, c.want)
		case bad != nil || got.Hash() != a.Hash():
			t.Errorf("%s: %v", what, bad)
		}
	}
	if _, err = a.Seal([]byte("short")); err == nil {
		t.Error("sealed with a short secret")
	}
}

// TestNodeCertificates checks that a certificate contains the node's name and the store revision at which it was
// issued.
func TestNodeCertificates(t *testing.T) {
	a := authorityAt(t, noon)
	key, request := keyAndRequest(t)
	rapid.Check(t, func(rt *rapid.T) {
		node := rapid.StringMatching(`[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?`).Draw(rt, "node")
		revision := rapid.Int64Min(1).Draw(rt, "revision")
		life := time.Duration(rapid.Int64Range(int64(10*time.Second), int64(MaxNodeLife)).Draw(rt, "life"))
		der, err := a.IssueNode(request, node, revision, noon, life)
		if !ares.ValidName(node) {
			refused(t, err, "not a valid node name")
			return
		}
		must(t, err)
		cert, err := x509.ParseCertificate(der)
		must(t, err)
		gotNode, gotRevision, err := NodeOf(cert)
		must(t, err)
		if gotNode != node || gotRevision != revision {
			t.Fatalf("%s at %d became %s at %d", node, revision, gotNode, gotRevision)
		}
		due := RenewAt(cert)
		if want := noon.Add(life * 2 / 3); due.Sub(want).Abs() > 2*time.Second {
			t.Fatalf("a life of %s is renewed at %s, want %s", life, due, want)
		}
		_, err = cert.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: noon, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		must(t, err)
		_, err = cert.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: noon.Add(-time.Hour), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		must(t, err) // on a machine whose clock is slow by an hour
		if _, err = cert.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: noon, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
			t.Fatal("a node can pose as a server")
		}
		if cert.IsCA || !key.PublicKey.Equal(cert.PublicKey) {
			t.Fatalf("issued %+v", cert)
		}
	})
	server, err := a.IssueServer(key.Public(), []string{"a", "127.0.0.1"}, noon)
	must(t, err)
	cert, err := x509.ParseCertificate(server)
	must(t, err)
	if _, _, err = NodeOf(cert); ares.CodeOf(err) != ares.Unauthentic {
		t.Errorf("a server's certificate is a node's: %v", err)
	}
	if _, err = a.IssueNode(request, "n1", 0, noon, time.Hour); err == nil {
		t.Error("issued at no revision: no revocation would end it")
	}
}

// TestRequests checks that names in a certificate request are ignored. TestRequests also checks that a request is
// rejected if it is not signed with its own key.
func TestRequests(t *testing.T) {
	a := authorityAt(t, noon)
	key, request := keyAndRequest(t)
	greedy, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "n2"}, DNSNames: []string{"ares.example.com"}, URIs: []*url.URL{{Scheme: nodeScheme, Opaque: "n2"}},
	}, key)
	must(t, err)
	der, err := a.IssueNode(greedy, "n1", 1, noon, time.Hour)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	if node, _, _ := NodeOf(cert); node != "n1" || len(cert.DNSNames) != 0 {
		t.Errorf("issued for %s, %v", node, cert.DNSNames)
	}
	forged := bytes.Clone(request)
	forged[len(forged)-1] ^= 1
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	other, err := Request(large)
	must(t, err)
	for _, bad := range [][]byte{nil, []byte("x"), forged, other} {
		if _, err = a.IssueNode(bad, "n1", 1, noon, time.Hour); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("a bad request: %v", err)
		}
	}
	if _, err = a.IssueNode(request, "n1", 1, a.Certificate.NotAfter, time.Hour); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("an authority that has ended issues: %v", err)
	}
	der, err = a.IssueNode(request, "n1", 1, a.Certificate.NotAfter.Add(-time.Minute), time.Hour)
	must(t, err)
	if cert, err = x509.ParseCertificate(der); err != nil || cert.NotAfter.After(a.Certificate.NotAfter) {
		t.Errorf("a certificate outlives its authority: %v, %v", cert.NotAfter, err)
	}
}

func TestJoinTokens(t *testing.T) {
	a := authorityAt(t, noon)
	token, twin := NewJoinToken(a.Hash()), NewJoinToken(a.Hash())
	got, err := ParseJoinToken(" " + token.String() + "\n")
	if err != nil || got != token || !bytes.Equal(got.Hash(), token.Hash()) || bytes.Equal(token.Hash(), twin.Hash()) {
		t.Errorf("%+v became %+v, %v", token, got, err)
	}
	if strings.Contains(string(token.Hash()), token.Secret) {
		t.Error("the hash has the secret")
	}
	whole := token.String()
	for _, bad := range []string{
		"", "ares-join", whole[1:], whole + ".x", whole + "00", whole[:len(whole)-2], strings.Replace(whole, ".", "..", 1),
		strings.Replace(whole, token.ID, "../x", 1), strings.Replace(whole, token.Secret, "short", 1), strings.Replace(whole, token.Authority, "xyz", 1),
	} {
		if _, err = ParseJoinToken(bad); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzJoinToken(f *testing.F) {
	f.Add("ares-join.abc.def.0123")
	f.Add(NewJoinToken(strings.Repeat("0f", 32)).String())
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseJoinToken(text)
		if err != nil {
			return
		}
		again, err := ParseJoinToken(token.String())
		if err != nil || again != token {
			t.Errorf("%q became %+v and then %+v, %v", text, token, again, err)
		}
	})
}

// TestPinned connects to several kinds of servers, and checks that only the valid one is accepted.
func TestPinned(t *testing.T) {
	now := time.Now()
	a, stranger := authorityAt(t, now), authorityAt(t, now)
	key, request := keyAndRequest(t)
	show := func(by *Authority, hosts []string, rest ...[]byte) *tls.Certificate {
		der, err := by.IssueServer(key.Public(), hosts, now)
		must(t, err)
		return &tls.Certificate{Certificate: append([][]byte{der}, rest...), PrivateKey: key}
	}
	node, err := a.IssueNode(request, "n1", 1, now, time.Hour)
	must(t, err)
	own, root := []string{"127.0.0.1"}, a.Certificate.Raw
	for what, c := range map[string]struct {
		shown *tls.Certificate
		hash  string
		want  string
	}{
		"right":                       {show(a, own, root), a.Hash(), ""},
		"another fleet's token":       {show(a, own, root), stranger.Hash(), "matches the CA hash in the join token"},
		"another fleet's server":      {show(stranger, own, stranger.Certificate.Raw), a.Hash(), "matches the CA hash"},
		"without its authority":       {show(a, own), a.Hash(), "matches the CA hash"},
		"our authority pasted on":     {show(stranger, own, root), a.Hash(), "is not valid"},
		"for another name":            {show(a, []string{"elsewhere"}, root), a.Hash(), "is not valid"},
		"a node that poses as server": {&tls.Certificate{Certificate: [][]byte{node, root}, PrivateKey: key}, a.Hash(), "is not valid"},
		"no hash":                     {show(a, own, root), "zz", "not a valid CA hash: expected 64 hexadecimal digits"},
	} {
		err := shake(t, c.shown, PinnedTLS(c.hash, "127.0.0.1", time.Now))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		refused(t, err, c.want)
	}
	late := func() time.Time { return now.Add(ServerLife + time.Hour) }
	refused(t, shake(t, show(a, own, root), PinnedTLS(a.Hash(), "127.0.0.1", late)), "expired")
}

// The function `shake` performs a TLS handshake with a server that presents a certificate.
func shake(t *testing.T, shown *tls.Certificate, client *tls.Config) error {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*shown}})
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		far, bad := l.Accept()
		if bad != nil {
			return // the client reports the error
		}
		_ = far.(*tls.Conn).HandshakeContext(t.Context()) // the client reports the error
		_ = far.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	near, err := (&tls.Dialer{Config: client}).DialContext(ctx, "tcp", l.Addr().String())
	if err == nil {
		_ = near.Close()
	}
	_ = l.Close()
	<-done
	return err
}

// TestRenewalOfEarlierVersions checks certificates that begin only five minutes before their creation. Each must be renewed after its
// creation and before its end.
func TestRenewalOfEarlierVersions(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	for _, life := range []time.Duration{10 * time.Second, time.Hour, Backdate, 24 * time.Hour, MaxNodeLife} {
		cert := &x509.Certificate{NotBefore: made.Add(-5 * time.Minute), NotAfter: made.Add(life)}
		if due := RenewAt(cert); !due.Before(cert.NotAfter) || life > time.Minute*20 && due.Before(made) {
			t.Errorf("a certificate with a life of %s, made at %s, is renewed at %s", life, made, due)
		}
	}
}
