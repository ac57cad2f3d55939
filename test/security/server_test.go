package security

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
)

// testServer is a server process that presents the test's certificate. It also
// holds the addresses and tokens for calls to the server.
type testServer struct {
	*cluster.Cluster
	server              *cluster.Server
	http, grpc, metrics string // addresses
	roots               *x509.CertPool
	admin, node         string // tokens
	web                 *http.Client
}

// startServer starts a server. It adds the text in the parameter `config` to
// the configuration file of the server.
func startServer(t *testing.T, config string) *testServer {
	t.Helper()
	p := &testServer{Cluster: cluster.Start(t, cluster.Certificate(), cluster.Env("GOTRACEBACK=all"), cluster.Config("log: {level: debug}\n"+config))}
	p.server = p.StartServer("server")
	p.http, p.grpc, p.metrics, p.roots = p.server.At.HTTP, p.server.At.GRPC, p.server.At.Metrics, p.Trust().RootCAs
	p.web = &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(p.web.CloseIdleConnections)
	p.admin, p.node = p.server.File(server.AdminTokenFile), p.server.File(server.NodeTokenFile)
	return p
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// This method runs one command of the CLI as the administrator.
func (p *testServer) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.Ares,
		append(args, "--server", p.grpc, "--tls-ca", p.CertFile, "--token-file", filepath.Join(p.server.Dir, server.AdminTokenFile))...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Dir}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The type `answer` holds the server's answer to a REST request.
type answer struct {
	code   int
	header http.Header
	body   string
}

// This method makes a request over REST.
func (p *testServer) ask(ctx context.Context, token, method, path, body string, header http.Header) (answer, error) {
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

// This method makes a request as the administrator. The request must succeed.
func (p *testServer) do(t *testing.T, method, path, body string) map[string]any {
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

// This method makes a service token.
func (p *testServer) token(t *testing.T, name, tenant, role string, seconds int) string {
	t.Helper()
	body := fmt.Sprintf(`{"name":%q,"tenant_id":%q,"bindings":[{"role":%q,"tenant_id":%q}],"lifetime_seconds":%d}`, name, tenant, role, tenant, seconds)
	return p.do(t, http.MethodPost, "/api/v1/tokens", body)["token"].(string)
}

// `dial` opens a gRPC connection, with a client certificate if one is given.
func (p *testServer) dial(t *testing.T, certificates ...tls.Certificate) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(p.grpc, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: p.roots, Certificates: certificates})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
