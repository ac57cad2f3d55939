package command

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/loopback"
	"github.com/ares-scheduler/ares/server"
)

const DefaultServer = client.DefaultAddress

// Dir returns the path of the data directory.
func (a *App) Dir() string {
	return cmp.Or(a.DataDir, os.Getenv("ARES_DATA_DIR"), server.DefaultDataDir())
}

func (a *App) TokenPath() string { return filepath.Join(a.Dir(), server.AdminTokenFile) }

// Endpoints is the content of server.json, in which a server on this machine publishes its
// addresses.
type Endpoints struct {
	GRPC    string `json:"grpc"`
	HTTP    string `json:"http"`
	Metrics string `json:"metrics,omitempty"`
	CA      string `json:"ca,omitempty"`
}

func (a *App) Endpoints() Endpoints {
	var e Endpoints
	data, err := os.ReadFile(filepath.Join(a.Dir(), server.EndpointsFile))
	if err == nil {
		_ = json.Unmarshal(data, &e) // a broken file is treated like a missing one
	}
	return e
}

// Addresses returns the addresses of the servers to connect to. The addresses come from the first of these
// sources that has a value: the flag, the environment variable, the context, the data directory, the default.
func (a *App) Addresses() []string {
	if len(a.Servers) > 0 {
		return a.Servers
	}
	if env := os.Getenv("ARES_SERVER"); env != "" {
		return strings.Split(env, ",")
	}
	if c := a.usedContext(); c != nil {
		return slices.Clone(c.Servers)
	}
	return []string{server.Local(cmp.Or(a.Endpoints().GRPC, DefaultServer))}
}

// ownServer reports whether the addresses are those of the server whose data is in the data
// directory. ownServer also returns the path of the CA certificate that verifies the server, or ""
// if the server does not issue its own certificate.
func (a *App) ownServer(addresses []string) (authority string, own bool) {
	e := a.Endpoints()
	if len(addresses) != 1 || e.GRPC == "" || addresses[0] != server.Local(e.GRPC) && addresses[0] != server.Local(e.HTTP) {
		return "", false
	}
	if e.CA == "" {
		return "", OnThisMachine(addresses)
	}
	return filepath.Join(a.Dir(), e.CA), true
}

// IsStopped reports whether the user named a data directory whose server is not running. If that
// server is not running, the default address may belong to another server.
func (a *App) IsStopped() bool {
	if a.DataDir == "" && os.Getenv("ARES_DATA_DIR") == "" || len(a.Servers) > 0 || os.Getenv("ARES_SERVER") != "" || a.usedContext() != nil {
		return false
	}
	_, err := os.Stat(filepath.Join(a.Dir(), server.EndpointsFile))
	return errors.Is(err, fs.ErrNotExist)
}

// IsTrusted reports whether the token of this machine's server may be sent to the given addresses. The token may be sent if the
// addresses are on this machine, or if TLS verifies that they belong to that server.
func (a *App) IsTrusted(addresses []string) bool {
	_, own := a.ownServer(addresses)
	return own || OnThisMachine(addresses)
}

// Connect creates a client for the servers that Addresses returns. Connect sends the token of this
// machine's server only to that server.
func (a *App) Connect() (*client.Client, error) {
	if _, err := a.ActiveContext(); err != nil {
		return nil, err
	}
	if a.IsStopped() {
		return nil, ares.Errorf(ares.Unavailable, "no server is running with the data directory %s", a.Dir())
	}
	return a.ConnectTo(client.Options{Addresses: a.Addresses()})
}

// ConnectTo creates a client from options, to which it adds the token and TLS.
func (a *App) ConnectTo(o client.Options) (*client.Client, error) {
	for i, addr := range o.Addresses {
		o.Addresses[i] = strings.TrimSpace(addr)
		if strings.Contains(addr, "://") && !strings.HasPrefix(addr, "unix:") {
			return nil, exit.Usagef("--server %s: use the gRPC address as host:port, such as %s", addr, DefaultServer)
		}
	}
	config, err := a.TLSConfig(o.Addresses)
	if err != nil {
		return nil, err
	}
	o.TLS = config
	switch {
	case a.TokenFile != "":
		o.TokenFile = a.TokenFile
	case os.Getenv("ARES_TOKEN") != "":
		o.Token = os.Getenv("ARES_TOKEN")
	case os.Getenv("ARES_TOKEN_FILE") != "":
		o.TokenFile = os.Getenv("ARES_TOKEN_FILE")
	case a.usedContext() != nil:
		if o.Token, o.TokenFile, err = a.contextToken(o.Addresses); err != nil {
			return nil, err
		}
	case a.IsTrusted(o.Addresses):
		if _, missing := os.Stat(a.TokenPath()); !errors.Is(missing, fs.ErrNotExist) {
			o.TokenFile = a.TokenPath()
		}
	}
	c, err := client.New(o)
	if err != nil && config == nil && !OnThisMachine(o.Addresses) {
		return nil, exit.Usagef("%s; add --tls or --tls-ca FILE", err)
	}
	return c, err
}

// TLSConfig returns the TLS configuration for the given addresses, or nil for plaintext.
func (a *App) TLSConfig(addresses []string) (*tls.Config, error) {
	ca := cmp.Or(a.TLSCA, os.Getenv("ARES_TLS_CA"))
	on, _ := strconv.ParseBool(os.Getenv("ARES_TLS"))
	if c := a.usedContext(); c != nil && ca == "" && !a.TLS && !on && c.Serves(addresses) {
		ca, on = c.CA, !OnThisMachine(addresses)
	}
	if ca == "" && !a.TLS && !on {
		if ca, _ = a.ownServer(addresses); ca == "" {
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
		return nil, ares.Errorf(ares.Invalid, "%s contains no PEM certificate", ca)
	}
	return config, nil
}

// OnThisMachine reports whether all addresses are loopback addresses.
func OnThisMachine(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(addr string) bool { return !loopback.Addr(addr) })
}
