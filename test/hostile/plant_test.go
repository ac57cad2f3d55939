package hostile

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/ares-scheduler/ares/test/live"
)

// plant is one server, a process of its own, that shows a certificate of the test's.
type plant struct {
	dir, http, grpc, metrics string
	roots                    *x509.CertPool
	admin, node              string // tokens
	web                      *http.Client
	server                   *exec.Cmd
}

// startPlant starts it; config is added to its file.
func startPlant(t *testing.T, config string, env ...string) *plant {
	t.Helper()
	p := &plant{dir: t.TempDir(), http: live.FreeAddr(t), grpc: live.FreeAddr(t), metrics: live.FreeAddr(t)}
	p.certify(t)
	p.web = &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(p.web.CloseIdleConnections)
	text := fmt.Sprintf("data_dir: %s\nhttp_addr: %s\ngrpc_addr: %s\nmetrics_addr: %s\ntls: {cert_file: %s, key_file: %s}\nlog: {level: debug}\n%s",
		p.path("server"), p.http, p.grpc, p.metrics, p.path("tls.crt"), p.path("tls.key"), config)
	p.write(t, "server.yaml", text)
	p.server = p.start(t, "server", env, "server", "--config", p.path("server.yaml"))
	live.Await(t, time.Minute, "the server to be ready", func() (bool, string) {
		resp, err := p.web.Get("https://" + p.http + "/api/v1/ready")
		if err != nil {
			return false, err.Error()
		}
		return resp.StatusCode == http.StatusOK, fmt.Sprint(resp.Status, resp.Body.Close())
	})
	p.admin, p.node = p.read(t, "server/admin.token"), p.read(t, "server/node.token")
	return p
}

func (p *plant) path(name string) string { return filepath.Join(p.dir, name) }

func (p *plant) write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p.path(name)
}

func (p *plant) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(p.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// certify makes the certificate that the server shows.
func (p *plant) certify(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	p.roots = x509.NewCertPool()
	p.roots.AddCert(cert)
	p.write(t, "tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	p.write(t, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

// start runs bin/ares until the test ends. What it prints is in NAME.log.
func (p *plant) start(t *testing.T, name string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	log, err := os.Create(p.path(name + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(live.Program(t, "ARES_TEST_BIN", "../../bin/ares", "make build"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GOTRACEBACK=all"}, env...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // gone already is as good
		_ = cmd.Wait()
		_ = log.Close()
		if data, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("end of the log of %s:\n%s", name, data[max(0, len(data)-3000):])
		}
	})
	return cmd
}

// run is one command of the CLI, as the administrator.
func (p *plant) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), live.Program(t, "ARES_TEST_BIN", "../../bin/ares", "make build"),
		append(args, "--server", p.grpc, "--tls-ca", p.path("tls.crt"), "--token-file", p.path("server/admin.token"))...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// answer is what a request over REST got.
type answer struct {
	code   int
	header http.Header
	body   string
}

// ask makes a request over REST.
func (p *plant) ask(ctx context.Context, token, method, path, body string, header http.Header) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "https://"+p.http+path, strings.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("make a request: %w", err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	maps.Copy(req.Header, header) // as they are spelled
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := p.web.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(data)}, err
}

// do makes a request that must succeed, as the administrator.
func (p *plant) do(t *testing.T, method, path, body string) map[string]any {
	t.Helper()
	got, err := p.ask(t.Context(), p.admin, method, path, body, nil)
	if err != nil || got.code/100 != 2 {
		t.Fatalf("%s %s: %v %d %s", method, path, err, got.code, got.body)
	}
	out := map[string]any{}
	if err := json.NewDecoder(bytes.NewReader([]byte(got.body))).Decode(&out); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, got.body)
	}
	return out
}

// token makes a service token.
func (p *plant) token(t *testing.T, name, tenant, role string, seconds int) string {
	t.Helper()
	body := fmt.Sprintf(`{"name":%q,"tenant_id":%q,"bindings":[{"role":%q,"tenant_id":%q}],"lifetime_seconds":%d}`, name, tenant, role, tenant, seconds)
	return p.do(t, http.MethodPost, "/api/v1/tokens", body)["token"].(string)
}

// dial opens a gRPC connection, with a certificate if there is one.
func (p *plant) dial(t *testing.T, certificates ...tls.Certificate) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: p.roots, Certificates: certificates})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
