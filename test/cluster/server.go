package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/live"
)

// Server is an `ares server` process.
type Server struct {
	*Process

	Dir     string // data directory
	At      server.Endpoints
	cluster *Cluster
}

// StartServer starts `ares server` on free ports and waits until it is ready.
func (c *Cluster) StartServer(name string) *Server {
	c.t.Helper()
	s := &Server{Dir: c.Path(name), cluster: c}
	s.At = server.Endpoints{HTTP: live.FreeAddr(c.t), GRPC: live.FreeAddr(c.t), Metrics: live.FreeAddr(c.t)}
	listen := s.At.GRPC
	config := ""
	if c.options.tls {
		listen = strings.Replace(listen, "127.0.0.1", "0.0.0.0", 1)
		config += "advertise_addr: " + s.At.GRPC + "\n"
	}
	if c.CertFile != "" {
		config += fmt.Sprintf("tls: {cert_file: %s, key_file: %s}\n", c.CertFile, c.KeyFile)
	}
	if len(c.Etcd) > 0 {
		config += "etcd: {endpoints: [" + strings.Join(c.Endpoints(), ", ") + "]}\n"
	}
	config = fmt.Sprintf("data_dir: %s\nhttp_addr: %s\ngrpc_addr: %s\nmetrics_addr: %s\n", s.Dir, s.At.HTTP, listen, s.At.Metrics) +
		config + c.options.config
	file := c.Path(name + ".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		c.t.Fatal(err)
	}
	s.Process = c.Run(name, c.options.env, c.Ares, "server", "--config", file)
	c.Servers = append(c.Servers, s)
	s.AwaitReady()
	return s
}

// AwaitReady waits until the server answers 200 at /api/v1/ready, and checks the
// endpoints that it reports.
func (s *Server) AwaitReady() {
	s.t.Helper()
	live.Await(s.t, Patience, s.Name+" to be ready", func() (bool, string) {
		select {
		case <-s.Ended():
			s.t.Fatalf("%s ended", s.Name)
		default:
		}
		status, _, err := s.Get("/api/v1/ready")
		return status == http.StatusOK, fmt.Sprint(status, err)
	})
	live.Await(s.t, Patience, "server.json of "+s.Name, func() (bool, string) {
		var said server.Endpoints
		data, err := os.ReadFile(filepath.Join(s.Dir, server.EndpointsFile))
		if err == nil {
			err = json.Unmarshal(data, &said)
		}
		port := s.At.GRPC[strings.LastIndex(s.At.GRPC, ":"):] // the host may be a wildcard address
		return err == nil && said.HTTP == s.At.HTTP && said.Metrics == s.At.Metrics && strings.HasSuffix(said.GRPC, port), fmt.Sprint(said, err)
	})
}

// `scheme` returns http or https, whichever the server's URLs use.
func (s *Server) scheme() string {
	if s.cluster.CertFile != "" {
		return "https://"
	}
	return "http://"
}

// URL returns the address of a REST path.
func (s *Server) URL(path string) string { return s.scheme() + s.At.HTTP + path }

// Get makes a REST GET request without a token.
func (s *Server) Get(path string) (status int, body string, err error) { return s.GetAs("", path) }

// GetAs makes a REST GET request with a token.
func (s *Server) GetAs(token, path string) (status int, body string, err error) {
	return s.get(token, s.URL(path))
}

// Metric returns one of the server's metrics, summed over its labels. The result
// is 0 if the metric does not exist or the server does not answer.
func (s *Server) Metric(name string) float64 {
	sum := 0.0
	for line := range strings.Lines(s.Metrics()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(key, "{"); base == name {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum
}

// Metrics returns all metrics of the server as text, or "" if the server does not
// answer.
func (s *Server) Metrics() string {
	token, _ := os.ReadFile(filepath.Join(s.Dir, server.AdminTokenFile)) // without it, the server does not answer
	_, body, _ := s.get(strings.TrimSpace(string(token)), s.scheme()+s.At.Metrics+"/metrics")
	return body
}

func (s *Server) get(token, url string) (status int, body string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.cluster.Trust()}}
	resp, err := web.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// ID is the server's name in the store.
func (s *Server) ID() string { return s.File("server.id") }

// File reads one of the small files in the server's directory, such as a token.
func (s *Server) File(name string) string {
	s.t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// Trust returns the TLS configuration of a client that trusts the servers. It
// returns nil if the servers do not use TLS.
func (c *Cluster) Trust() *tls.Config {
	file := c.CertFile
	if c.options.tls && len(c.Servers) > 0 {
		file = filepath.Join(c.Servers[0].Dir, "ca.crt")
	}
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil // the server has not created it yet
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	out.RootCAs.AppendCertsFromPEM(data)
	return out
}

// Client returns an administrator's client for the given servers, or for all
// servers if none is given. The client is closed when the test ends.
func (c *Cluster) Client(servers ...*Server) *client.Client {
	c.t.Helper()
	return c.ClientWith(client.Options{Attempts: 8, CallTimeout: 20 * time.Second}, servers...)
}

// ClientWith is like Client, with additional options. ClientWith sets the
// addresses and the TLS configuration. If the options have no token, it also
// sets the token.
func (c *Cluster) ClientWith(o client.Options, servers ...*Server) *client.Client {
	c.t.Helper()
	if len(servers) == 0 {
		servers = c.Servers
	}
	if o.Token == "" && o.TokenFile == "" {
		o.Token = servers[0].File(server.AdminTokenFile)
	}
	o.Addresses, o.TLS = grpcAddresses(servers), c.Trust()
	out, err := client.New(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = out.Close() })
	return out
}

func grpcAddresses(servers []*Server) []string {
	var out []string
	for _, s := range servers {
		out = append(out, s.At.GRPC)
	}
	return out
}
