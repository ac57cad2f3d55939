package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ares "github.com/ares-scheduler/ares"
)

var quiet = slog.New(slog.DiscardHandler)

func leafOf(t *testing.T, s *Serving) *x509.Certificate {
	t.Helper()
	shown, err := s.Certificate(nil)
	must(t, err)
	return shown.Leaf
}

// This function advances the fake clock of a synctest bubble. It then waits until all goroutines in the bubble are
// blocked.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}

// TestServerRenewsItself runs in a synctest bubble, where days pass without real time.
func TestServerRenewsItself(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := authorityAt(t, time.Now())
		hosts := []string{"127.0.0.1", "ares.example.com"}
		s, err := IssueServing(a, dir, hosts, quiet)
		must(t, err)
		first := leafOf(t, s)
		again, err := IssueServing(a, dir, hosts, quiet)
		must(t, err)
		if !leafOf(t, again).Equal(first) {
			t.Error("a restart makes a new certificate")
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		pass(t, ServerLife*2/3-time.Hour)
		if !leafOf(t, s).Equal(first) {
			t.Error("renewed too soon")
		}
		pass(t, time.Hour+2*lookEvery)
		second := leafOf(t, s)
		if second.Equal(first) || !s.Ends().After(first.NotAfter) {
			t.Errorf("not renewed at two thirds: ends %s", s.Ends())
		}
		kept, err := ReadCertificate(filepath.Join(dir, "server.crt"))
		if err != nil || !kept.Equal(second) {
			t.Errorf("the file has another: %v", err)
		}
		stop()
		must(t, <-ended)

		other, err := IssueServing(a, dir, append(hosts, "more.example.com"), quiet)
		must(t, err)
		if leafOf(t, other).VerifyHostname("more.example.com") != nil {
			t.Error("a new name is not in the certificate")
		}
		fewer, err := IssueServing(a, dir, hosts, quiet)
		must(t, err)
		if leafOf(t, fewer).VerifyHostname("more.example.com") == nil {
			t.Error("a name that was taken back is still in the certificate")
		}
		anew, err := IssueServing(authorityAt(t, time.Now()), dir, hosts, quiet)
		must(t, err)
		if leafOf(t, anew).CheckSignatureFrom(a.Certificate) == nil {
			t.Error("the certificate of another authority is shown")
		}
	})
}

// TestFailedRenewal checks that the old certificate stays in use while the directory cannot be written. A later check
// must renew the certificate.
func TestFailedRenewal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	synctest.Test(t, func(t *testing.T) {
		a := authorityAt(t, time.Now())
		s, err := IssueServing(a, dir, []string{"127.0.0.1"}, quiet)
		must(t, err)
		first := leafOf(t, s)
		must(t, os.Rename(dir, dir+".away"))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		pass(t, ServerLife*3/4)
		if !leafOf(t, s).Equal(first) {
			t.Error("another certificate is shown though it could not be kept")
		}
		must(t, os.Rename(dir+".away", dir))
		pass(t, 2*lookEvery)
		if leafOf(t, s).Equal(first) {
			t.Error("not renewed once it could be")
		}
		stop()
		must(t, <-ended)
	})
}

func TestGivenIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	a := authorityAt(t, time.Now())
	cert, key := filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key")
	if _, err := LoadServing(cert, key, quiet); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without files: %v", err)
	}
	_, err := IssueServing(a, dir, []string{"one"}, quiet)
	must(t, err)
	s, err := LoadServing(cert, key, quiet)
	must(t, err)
	if leafOf(t, s).VerifyHostname("one") != nil {
		t.Error("another certificate is shown")
	}
	_, err = IssueServing(a, dir, []string{"two"}, quiet)
	must(t, err)
	must(t, os.Chtimes(cert, time.Time{}, time.Now().Add(time.Hour)))
	must(t, s.reload())
	if leafOf(t, s).VerifyHostname("two") != nil {
		t.Error("the new certificate is not shown")
	}
	must(t, os.WriteFile(cert, []byte("torn"), 0o600))
	if err = s.reload(); err == nil {
		t.Error("a torn file is taken")
	}
	if leafOf(t, s).VerifyHostname("two") != nil {
		t.Error("what was good is not shown any more")
	}
}

func newNode(t *testing.T, dir, name string) *Node {
	t.Helper()
	n, err := OpenNode(dir, name, time.Now)
	must(t, err)
	return n
}

// This function issues a certificate for a node's key and stores the certificate.
func give(t *testing.T, a *Authority, n *Node, life time.Duration) {
	t.Helper()
	request, err := n.Request()
	must(t, err)
	der, err := a.IssueNode(request, n.Name, 7, time.Now(), life)
	must(t, err)
	must(t, n.Store(der, a.Certificate.Raw))
}

func TestNodeFiles(t *testing.T) {
	dir := t.TempDir()
	a := authorityAt(t, time.Now())
	n := newNode(t, dir, "n1")
	if n.Joined() {
		t.Error("joined before it has")
	}
	refused(t, n.NotJoinedReason(), "has not joined", "ares node token create --node n1", "--join")
	give(t, a, n, time.Hour)
	again := newNode(t, dir, "n1")
	if !again.Joined() || !again.Ends().Equal(n.Ends()) {
		t.Error("a restart does not find the certificate")
	}
	for _, name := range []string{"node.key", "node.crt"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	_, err := OpenNode(dir, "n2", time.Now)
	refused(t, err, "belongs to node n1, not to node n2")
	late, err := OpenNode(dir, "n1", func() time.Time { return n.Ends().Add(time.Second) })
	must(t, err)
	if late.Joined() {
		t.Error("joined after its certificate has ended")
	}
	refused(t, late.NotJoinedReason(), "expired at", "--join")

	request, err := n.Request()
	must(t, err)
	for what, der := range map[string][]byte{
		"another node's":      issue(t, a, request, "n2"),
		"of another key":      issue(t, a, func() []byte { _, r := keyAndRequest(t); return r }(), "n1"),
		"another authority's": issue(t, authorityAt(t, time.Now()), request, "n1"),
		"none":                []byte("x"),
	} {
		if n.Store(der, a.Certificate.Raw) == nil {
			t.Errorf("%s was taken", what)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "node.key")))
	_, err = OpenNode(dir, "n1", time.Now)
	refused(t, err, "do not belong together", "--join")
	must(t, os.WriteFile(filepath.Join(dir, "node.crt"), nil, 0o600))
	_, err = OpenNode(dir, "n1", time.Now)
	refused(t, err, "no PEM certificate", "--join")
	must(t, os.WriteFile(filepath.Join(dir, "node.key"), []byte("x"), 0o600))
	_, err = OpenNode(dir, "n1", time.Now)
	refused(t, err, "no PEM key")
}

func issue(t *testing.T, a *Authority, request []byte, node string) []byte {
	t.Helper()
	der, err := a.IssueNode(request, node, 7, time.Now(), time.Hour)
	must(t, err)
	return der
}

// TestNodeRenewsItself checks that a node renews its certificate after two thirds of the lifetime. The node must try
// again while no server answers. It must stop when it is rejected or when the certificate has expired.
func TestNodeRenewsItself(t *testing.T) {
	away := ares.Errorf(ares.Unavailable, "nobody is there")
	for what, c := range map[string]struct {
		fails int   // number of tries that fail
		with  error // error of the failed tries
		want  error
	}{
		"at once":      {},
		"after a time": {fails: 20, with: away},
		"never":        {fails: 1 << 30, with: away, want: away},
		"refused":      {fails: 1, with: ares.Errorf(ares.Unauthentic, "revoked")},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			a := authorityAt(t, time.Now())
			n := newNode(t, dir, "n1")
			give(t, a, n, DefaultNodeLife)
			began, ended := time.Now(), n.Ends()
			var asked []time.Duration
			err := n.Renew(t.Context(), func(_ context.Context, request []byte) (certificate, authority []byte, err error) {
				asked = append(asked, time.Since(began))
				if len(asked) <= c.fails {
					return nil, nil, c.with
				}
				der, err := a.IssueNode(request, "n1", 8, time.Now(), DefaultNodeLife)
				return der, a.Certificate.Raw, err
			})
			if asked[0] < DefaultNodeLife*2/3-time.Second || asked[0] > DefaultNodeLife*2/3+DefaultNodeLife/24+time.Minute {
				t.Errorf("%s: first asked after %s", what, asked[0])
			}
			switch {
			case ares.CodeOf(c.with) == ares.Unauthentic || c.want != nil:
				if !errors.Is(err, c.with) {
					t.Errorf("%s: %v", what, err)
				}
				if c.want != nil && n.Joined() {
					t.Errorf("%s: given up before the end, after %s", what, time.Since(began))
				}
			case err != nil || !n.Ends().After(ended):
				t.Errorf("%s: ends %s, %v", what, n.Ends(), err)
			}
			if !slices.IsSorted(asked) || len(asked) > 500 {
				t.Errorf("%s: asked %d times", what, len(asked))
			}
		})
	}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, dir, "n1")
		give(t, authorityAt(t, time.Now()), n, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := n.Renew(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped: %v", err)
		}
	})
}

// TestNodeTrusts checks that a node trusts no server before it has joined. If certificate authorities are configured,
// a joined node must trust only these. Otherwise it must trust the authority that issued its certificate.
func TestNodeTrusts(t *testing.T) {
	a := authorityAt(t, time.Now())
	key, _ := keyAndRequest(t)
	der, err := a.IssueServer(key.Public(), []string{"ares"}, time.Now())
	must(t, err)
	shown := &tls.Certificate{Certificate: [][]byte{der, a.Certificate.Raw}, PrivateKey: key}
	n := newNode(t, t.TempDir(), "n1")
	config := func(trust *tls.Config) *tls.Config {
		c := n.Client(trust)
		c.ServerName = "ares"
		return c
	}
	refused(t, shake(t, shown, config(nil)), "unknown authority")
	give(t, a, n, time.Hour)
	must(t, shake(t, shown, config(nil)))
	refused(t, shake(t, shown, config(&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: authorityAt(t, time.Now()).Pool()})), "unknown authority")
}

func TestHosts(t *testing.T) {
	got, err := Hosts([]string{"ares.example.com:9090", "10.1.2.3"}, []string{"192.168.7.7:1", "[::]:2"})
	must(t, err)
	for _, want := range []string{"localhost", "127.0.0.1", "::1", "ares.example.com", "10.1.2.3", "192.168.7.7"} {
		if !slices.Contains(got, want) {
			t.Errorf("%v lacks %s", got, want)
		}
	}
	if slices.Contains(got, "::") || !slices.IsSorted(got) {
		t.Errorf("got %v", got)
	}
}
