package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/loopback"
	"github.com/ares-scheduler/ares/policy/roles"
)

// MetricsConfig configures who can read /metrics.
type MetricsConfig struct {
	// AllowLoopback lets everybody on this machine read /metrics without a
	// token, also while jobs run on this machine. The metrics show all tenants.
	// It applies only if metrics_addr is a loopback address. Default false.
	AllowLoopback bool `yaml:"allow_loopback"`
}

// guardMetrics requires a token for /metrics. No token is needed on a loopback address while no job can run on this machine,
// or if the configuration allows it. A job could otherwise read the metrics of all tenants.
func (s *Server) guardMetrics(next http.Handler) http.Handler {
	host, _, err := net.SplitHostPort(s.Endpoints.Metrics)
	local := err == nil && loopback.Host(host)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local && (s.cfg.Metrics.AllowLoopback || !s.hasNodeHere()) {
			// A web page whose name resolves to the loopback address could otherwise read the metrics in a browser.
			if host := rest.Hostname(r.Host); !loopback.Host(host) && !slices.ContainsFunc(s.cfg.Hosts, func(own string) bool { return rest.Hostname(own) == host }) {
				s.Audit.Refuse(r.Context(), audit.Entry{Action: "GET_METRICS", Source: r.RemoteAddr, Door: "metrics", Code: string(ares.Forbidden)})
				http.Error(w, "the host name "+strconv.Quote(ares.Clip(host))+" is not allowed without a token: use localhost or 127.0.0.1, or add the name to the server's hosts", http.StatusMisdirectedRequest)
				return
			}
			next.ServeHTTP(w, r)
			return
		}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		who, err := s.auth.Check(r.Context(), token)
		if err != nil {
			s.Audit.Refuse(r.Context(), audit.Entry{Action: "GET_METRICS", Source: r.RemoteAddr, Door: "metrics", Code: string(ares.CodeOf(err))})
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if !roles.Allows(who.Identity(), roles.ClusterRead, "", "") { // the metrics show every tenant
			s.Audit.Refuse(r.Context(), audit.Entry{
				Action: "GET_METRICS", User: who.Identity().Name, Source: r.RemoteAddr, Door: "metrics", Code: string(ares.Forbidden),
			})
			http.Error(w, "reading metrics needs at least the role viewer in all tenants", http.StatusForbidden)
			return
		}
		conn := pipeline.ConnectionOf(r.Context())
		conn.Authenticated()
		defer conn.Begin()()
		next.ServeHTTP(w, r)
	})
}

// hasNodeHere reports whether jobs can run on this machine. A node counts if its address is a loopback address, which is the
// default, or an address of this machine. If the address does not show where the node is, the node counts everywhere. This is
// the case for a missing address and for a host name. A node without a session counts too, because its jobs go on while its
// agent restarts.
func (s *Server) hasNodeHere() bool {
	if s.withAgent.Load() {
		return true
	}
	own := map[netip.Addr]bool{}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // the answer is not known, so a token is needed
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			at, _ := netip.AddrFromSlice(n.IP)
			own[at.Unmap()] = true
		}
	}
	nodes, _ := s.View.Nodes()
	for _, n := range nodes {
		at, err := netip.ParseAddr(n.Node.Address)
		if at = at.Unmap().WithZone(""); err != nil || at.IsLoopback() || at.IsUnspecified() || own[at] {
			return true
		}
	}
	return false
}
