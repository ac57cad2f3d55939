package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

const defaultServer = client.DefaultAddress

// dir is the data directory in use.
func (a *app) dir() string {
	return firstOf(a.dataDir, os.Getenv("ARES_DATA_DIR"), server.DefaultDataDir())
}

func (a *app) tokenPath() string { return filepath.Join(a.dir(), server.AdminTokenFile) }

// endpoints is server.json, by which a server on this machine says where it
// listens.
type endpoints struct {
	GRPC    string `json:"grpc"`
	HTTP    string `json:"http"`
	Metrics string `json:"metrics,omitempty"`
	CA      string `json:"ca,omitempty"`
}

func (a *app) endpoints() endpoints {
	var e endpoints
	data, err := os.ReadFile(filepath.Join(a.dir(), server.EndpointsFile))
	if err == nil {
		_ = json.Unmarshal(data, &e) // a broken file is as good as none
	}
	return e
}

// addresses are the servers to talk to: by flag, by environment, by the data
// directory, or the default.
func (a *app) addresses() []string {
	if len(a.servers) > 0 {
		return a.servers
	}
	if env := os.Getenv("ARES_SERVER"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{server.Local(firstOf(a.endpoints().GRPC, defaultServer))}
}

// own says whether addresses are those of the data directory's own server, and
// by which authority it is verified, "" where it has no TLS of its own.
func (a *app) own(addresses []string) (authority string, own bool) {
	e := a.endpoints()
	if len(addresses) != 1 || e.GRPC == "" || addresses[0] != server.Local(e.GRPC) && addresses[0] != server.Local(e.HTTP) {
		return "", false
	}
	if e.CA == "" {
		return "", onThisMachine(addresses)
	}
	return filepath.Join(a.dir(), e.CA), true
}

// stopped says that no server runs in a data directory that was named: the
// default address would be somebody else's.
func (a *app) stopped() bool {
	if a.dataDir == "" && os.Getenv("ARES_DATA_DIR") == "" || len(a.servers) > 0 || os.Getenv("ARES_SERVER") != "" {
		return false
	}
	_, err := os.Stat(filepath.Join(a.dir(), server.EndpointsFile))
	return errors.Is(err, fs.ErrNotExist)
}

// trusted says whether addresses may be sent the token of this machine's own
// server: on this machine, or of that server as its authority proves.
func (a *app) trusted(addresses []string) bool {
	_, own := a.own(addresses)
	return own || onThisMachine(addresses)
}

// connect makes the client. The token of this machine's own server is sent to
// that only.
func (a *app) connect() (*client.Client, error) {
	if a.stopped() {
		return nil, ares.Errorf(ares.Unavailable, "no server runs in the data directory %s", a.dir())
	}
	return a.connectTo(client.Options{Addresses: a.addresses()})
}

// connectTo makes a client with options that lack token and TLS.
func (a *app) connectTo(o client.Options) (*client.Client, error) {
	for i, addr := range o.Addresses {
		o.Addresses[i] = strings.TrimSpace(addr)
		if strings.Contains(addr, "://") && !strings.HasPrefix(addr, "unix:") {
			return nil, usagef("--server %s: give the gRPC address as host:port, such as %s", addr, defaultServer)
		}
	}
	config, err := a.tlsConfig(o.Addresses)
	if err != nil {
		return nil, err
	}
	o.TLS = config
	switch {
	case a.tokenFile != "":
		o.TokenFile = a.tokenFile
	case os.Getenv("ARES_TOKEN") != "":
		o.Token = os.Getenv("ARES_TOKEN")
	case os.Getenv("ARES_TOKEN_FILE") != "":
		o.TokenFile = os.Getenv("ARES_TOKEN_FILE")
	case a.trusted(o.Addresses):
		if _, missing := os.Stat(a.tokenPath()); !errors.Is(missing, fs.ErrNotExist) {
			o.TokenFile = a.tokenPath()
		}
	}
	c, err := client.New(o)
	if err != nil && config == nil && !onThisMachine(o.Addresses) {
		return nil, usagef("%s; add --tls or --tls-ca FILE", err)
	}
	return c, err
}

// program is how this program was called: by its path, where it is not in PATH.
func program() string {
	if path := os.Args[0]; strings.HasSuffix(path, "/ares") {
		return path
	}
	return "ares"
}

// again is how to call this program for the same server.
func (a *app) again() string {
	words := []string{program()}
	if a.dataDir != "" {
		words = append(words, "--data-dir", a.dataDir)
	}
	if len(a.servers) > 0 {
		words = append(words, "--server", strings.Join(a.servers, ","))
	}
	if a.tokenFile != "" {
		words = append(words, "--token-file", a.tokenFile)
	}
	return commandLine(words)
}

// tlsConfig is how to speak to addresses, nil for plaintext.
func (a *app) tlsConfig(addresses []string) (*tls.Config, error) {
	ca := firstOf(a.tlsCA, os.Getenv("ARES_TLS_CA"))
	on, _ := strconv.ParseBool(os.Getenv("ARES_TLS"))
	if ca == "" && !a.tls && !on {
		if ca, _ = a.own(addresses); ca == "" {
			return nil, nil
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, ares.Errorf(ares.Invalid, "read the certificate authorities: %s", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, ares.Errorf(ares.Invalid, "%s holds no PEM certificate", ca)
	}
	return config, nil
}

func onThisMachine(addresses []string) bool {
	for _, addr := range addresses {
		host, _, err := net.SplitHostPort(addr)
		if strings.HasPrefix(addr, "unix:") || err == nil && host == "localhost" {
			continue
		}
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return false
		}
	}
	return true
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
