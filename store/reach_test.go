package store_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// This function returns a self-signed certificate for 127.0.0.1, together with its files.
func authority(t *testing.T) (pair tls.Certificate, roots *x509.CertPool, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	cert, private := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	for file, data := range map[string][]byte{certFile: cert, keyFile: private} {
		if err = os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if pair, err = tls.X509KeyPair(cert, private); err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return pair, roots, certFile, keyFile
}

// This function checks that opening a store fails with an error that contains
// the given texts.
func opens(t *testing.T, cfg store.Config, wants ...string) {
	t.Helper()
	cfg.Timeout = time.Second
	s, err := store.Open(t.Context(), cfg)
	if err == nil {
		_ = s.Close()
		t.Errorf("%v opened", cfg.Endpoints)
		return
	}
	causes := []error{context.DeadlineExceeded, rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrPermissionDenied}
	if ares.CodeOf(err) != ares.Unavailable || !slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
		t.Errorf("%v: %v; want it to be unavailable, and because of what the client said", cfg.Endpoints, err)
	}
	for _, want := range append(wants, cfg.Endpoints...) {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", cfg.Endpoints, err, want)
		}
	}
	if cfg.Password != "" && strings.Contains(err.Error(), cfg.Password) {
		t.Errorf("it tells the password: %v", err)
	}
}

// TestAnEtcdThatCannotBeReachedIsExplained checks the error for an unreachable etcd. The test
// uses a real etcd, whose client reports only a timeout.
func TestAnEtcdThatCannotBeReachedIsExplained(t *testing.T) {
	pair, roots, certFile, keyFile := authority(t)
	_, strangers, _, _ := authority(t)
	plain := storetest.External(t).Endpoints[0]
	nobody := "127.0.0.1:1"
	trusting := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	whole := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	one := func(endpoint string, c *tls.Config) store.Config {
		return store.Config{Endpoints: []string{endpoint}, TLS: c}
	}

	opens(t, one("http://"+nobody, nil), "did not answer within 1s", "the connection was refused: check that etcd runs there")
	opens(t, one(nobody, trusting), "the connection was refused")
	opens(t, store.Config{Endpoints: []string{"http://" + nobody}, Username: "ares", Password: "s3cret"}, "the connection was refused")
	opens(t, one("https://nowhere.invalid:2379", nil), "its host name is unknown")
	opens(t, store.Config{Endpoints: []string{"http://" + nobody, "http://nowhere.invalid:1"}}, "refused", "unknown")

	opens(t, one(strings.Replace(plain, "http", "https", 1), trusting), "it does not speak TLS: write http://")

	secure := storetest.ExternalWith(t, "https", "--cert-file", certFile, "--key-file", keyFile).Endpoints[0]
	opens(t, one(strings.Replace(secure, "https", "http", 1), nil), "it speaks TLS: write https://")
	opens(t, one(secure, nil), "unknown authority: set etcd.ca_file")
	opens(t, one(secure, &tls.Config{RootCAs: strangers, MinVersion: tls.VersionTLS12}), "unknown authority")

	asking := storetest.ExternalWith(t, "https", "--cert-file", certFile, "--key-file", keyFile, "--client-cert-auth", "--trusted-ca-file", certFile).Endpoints[0]
	opens(t, one(asking, trusting), "requires one", "set etcd.cert_file and key_file")
	if s, err := store.Open(t.Context(), one(asking, whole)); err != nil || s.Close() != nil {
		t.Error(err)
	}
}

// TestAnEtcdThatRefusesIsExplained checks the error for an etcd that rejects
// the user. The test uses an etcd with users and roles.
func TestAnEtcdThatRefusesIsExplained(t *testing.T) {
	e := storetest.External(t)
	c, err := clientv3.New(clientv3.Config{Endpoints: e.Endpoints, DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for _, do := range []func() error{
		func() error { _, bad := c.UserAdd(ctx, "root", "r00t"); return bad },
		func() error { _, bad := c.UserGrantRole(ctx, "root", "root"); return bad },
		func() error { _, bad := c.UserAdd(ctx, "ares", "s3cret"); return bad },
		func() error { _, bad := c.AuthEnable(ctx); return bad },
	} {
		if err = do(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user, password string) store.Config {
		return store.Config{Endpoints: e.Endpoints, Username: user, Password: password}
	}
	opens(t, as("", ""), "it requires a user: set etcd.username")
	opens(t, as("ares", "wr0ng"), `it rejects user "ares" or the password`)
	opens(t, as("nobody", "s3cret"), `it rejects user "nobody" or the password`)
	opens(t, as("ares", "s3cret"), `user "ares" may not read and write there: grant it a role`)
	if s, err := store.Open(ctx, as("root", "r00t")); err != nil || s.Close() != nil {
		t.Error(err)
	}
}

// TestAnEtcdThatHangsUpAfterTheHandshake uses an etcd that closes the connection after the handshake. The error must
// not say that this etcd has no TLS.
func TestAnEtcdThatHangsUpAfterTheHandshake(t *testing.T) {
	pair, roots, _, _ := authority(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			_ = conn.Close()
		}
	})
	opens(t, store.Config{Endpoints: []string{"https://" + l.Addr().String()}, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		"speaks TLS and hangs up", "set etcd.cert_file and key_file")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
