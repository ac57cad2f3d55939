package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// A failpoint is a request to the API server at which the scheduler is killed, or loses its connection.
type failpoint struct {
	suffix string // of the request's path
	nth    int    // which of these requests, counted from 1
	after  bool   // after the API server has carried it out, but before the scheduler knows
	lives  bool   // the scheduler is not killed: only the connection breaks
}

// A gate is a proxy between a scheduler and the API server. It executes failpoints.
type gate struct {
	server *httptest.Server
	proxy  *httputil.ReverseProxy
	target *url.URL

	mu      sync.Mutex // held while a request of the armed kind is carried out, so that they go one after the other
	process *kubetest.Process
	armed   *failpoint
	count   int
	shut    bool // the process was killed: nothing of it may come through any more
	fired   chan struct{}
}

// openGate returns a gate, and the flag that lets a scheduler use it.
func (s *scene) openGate() (g *gate, flag string) {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", account)
	if err != nil {
		s.t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	g = &gate{target: target}
	g.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
	}
	g.server = httptest.NewServer(g)
	s.t.Cleanup(func() { g.server.CloseClientConnections(); g.server.Close() })
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: gate,
clusters: [{name: gate, cluster: {server: "` + g.server.URL + `"}}],
contexts: [{name: gate, context: {cluster: gate}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return g, "--kubeconfig=" + path
}

// arm sets the next failpoint. The result is closed when the process was killed.
func (g *gate) arm(process *kubetest.Process, f failpoint) (fired <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.process, g.armed, g.count, g.fired = process, &f, 0, make(chan struct{})
	return g.fired
}

// reopen lets the requests of the next process through.
func (g *gate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

// ServeHTTP passes a request on.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	if g.shut {
		g.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	if g.armed == nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, g.armed.suffix) {
		g.mu.Unlock()
		g.proxy.ServeHTTP(w, r)
		return
	}
	defer g.mu.Unlock()
	if g.count++; g.count < g.armed.nth {
		g.proxy.ServeHTTP(w, r)
		return
	}
	if g.armed.after {
		g.proxy.ServeHTTP(httptest.NewRecorder(), r)
	}
	if !g.armed.lives {
		g.process.Kill()
		g.shut = true
	}
	g.armed = nil
	close(g.fired)
	panic(http.ErrAbortHandler)
}
