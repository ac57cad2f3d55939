package host

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
)

// defaultEtcd is the address at which a worker without ETCD_ENDPOINTS looks for an etcd, to say how to use it.
const defaultEtcd = "localhost:2379"

// WorkerCommand returns the root command of the program under its name `worker`.
func WorkerCommand(app *command.App) *cobra.Command {
	a := &commands{app}
	var f serverFlags
	var n nodeFlags
	c := &cobra.Command{
		Use: "worker", Short: "Run a node agent, and a server if none runs", Args: command.ExactArgs(),
		Example: "  ARES_MOCK_GPU=v100-4 worker",
		Long: `Run a node agent until it is interrupted, and print each step of its jobs.

If a server answers at the address of --server, at the address in the data directory, or at
` + command.DefaultServer + `, the agent joins this server, like "ares agent". Otherwise the command also runs a
server, like "ares up". This server uses the etcd at ETCD_ENDPOINTS. If that variable is not set, it
uses its embedded store. If an etcd answers at ` + defaultEtcd + `, the command says how to use it. With a
flag of the server, such as --http-addr, the command always runs a server.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.serverConfig(&f)
			if err != nil {
				return err
			}
			join := a.namesServer() || n.join != ""
			if !join && !f.runsServer() {
				if join, err = a.answers(cmd.Context(), answerTime); err != nil {
					return err
				}
			}
			if join {
				return a.runWorker(cmd.Context(), &cfg, &n)
			}
			return a.runWorkerWithServer(cmd.Context(), cfg, &n)
		},
	}
	f.add(c)
	n.add(c)
	c.Flags().StringVar(&n.join, "join", "", "join token from \"ares node token create\"")
	return c
}

// runsServer reports whether the user set a flag that only a server has.
func (f *serverFlags) runsServer() bool {
	return f.http != "" || f.grpc != "" || f.metrics != "" || f.advertise != "" || f.record != ""
}

// workerDir returns the state directory of a worker. Each worker of a machine has its own, so that several workers can use
// the data directory of one server.
func workerDir(dataDir, node string) string { return filepath.Join(dataDir, "agent-"+node) }

// lockWorker keeps a second worker from using the same state directory. Both would have the same identity, and each would
// take the jobs of the other one for its own.
func lockWorker(dir, node string) (unlock func(), err error) {
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the worker's directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "worker.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the worker's directory: %w", err)
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, exit.Usagef("a worker with the name %s already runs on this machine: stop it, or choose another name with WORKER_ID or --node", node)
	}
	return func() { _ = lock.Close() }, nil
}

// runWorker runs an agent that joins a running server.
func (a *commands) runWorker(ctx context.Context, general *server.Config, n *nodeFlags) error {
	cfg, err := a.agentConfig(n, general)
	if err != nil {
		return err
	}
	if n.join == "" && !a.joined(cfg.Dir) {
		cfg.Dir = workerDir(a.Dir(), cfg.Node)
	}
	unlock, err := lockWorker(cfg.Dir, cfg.Node)
	if err != nil {
		return err
	}
	defer unlock()
	w := &workerPrinter{out: a.Out, name: cfg.Node}
	cfg.Watch = w.watch
	w.printf("Worker %s starting...\n", cfg.Node)
	ag, err := agent.New(ctx, cfg)
	if err != nil {
		return err
	}
	w.found(ag)
	return ag.Run(ctx)
}

// runWorkerWithServer runs an agent and its own server.
func (a *commands) runWorkerWithServer(ctx context.Context, cfg server.Config, n *nodeFlags) error {
	log := cfg.NewLog(a.Err)
	node, err := n.config(cfg.DataDir, &cfg, a.Version, log)
	if err != nil {
		return err
	}
	node.Dir = workerDir(cfg.DataDir, node.Node)
	unlock, err := lockWorker(node.Dir, node.Node)
	if err != nil {
		return err
	}
	defer unlock()
	w := &workerPrinter{out: a.Out, name: node.Node}
	w.printf("Worker %s starting...\n", node.Node)
	stored, err := chooseStore(ctx, w, &cfg, defaultEtcd)
	if err != nil {
		return err
	}
	w.printf("No server answers at %s, so this worker also runs a server, with %s.\n", strings.Join(a.Addresses(), ", "), stored)
	node.Watch = w.watch
	server.TuneMemory()
	return server.Up(ctx, cfg, node, log, func(s *server.Server, ag *agent.Agent) {
		w.found(ag)
		a.announce(s)
	})
}

// chooseStore decides where the server of a worker keeps its state, and describes it. It uses an etcd only if one is
// configured: another user of this machine could have started the etcd that answers at `address`, and whoever can write to
// the store chooses the commands that the worker runs. A server that has used one store must not start with another, empty
// one without being told to.
func chooseStore(ctx context.Context, w *workerPrinter, cfg *server.Config, address string) (string, error) {
	if len(cfg.Etcd.Endpoints) > 0 {
		return "the etcd at " + strings.Join(cfg.Etcd.Endpoints, ", "), nil
	}
	embedded := "its embedded store"
	if server.HasEmbeddedStore(cfg.DataDir) {
		return embedded, nil
	}
	if etcdAnswers(ctx, "http://"+address) {
		w.printf("An etcd answers at %s. To use it: ETCD_ENDPOINTS=%s worker\n", address, address)
	}
	if _, err := os.Stat(filepath.Join(cfg.DataDir, server.RevisionMarkFile)); err == nil {
		return "", exit.Usagef("the server of %s used an etcd before: set ETCD_ENDPOINTS to its address, or choose another --data-dir to begin with an empty store", cfg.DataDir)
	}
	return embedded, nil
}

// etcdAnswers reports whether a healthy etcd answers at a URL.
func etcdAnswers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := (&http.Client{Timeout: time.Second}).Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(body), `"health":"true"`)
}

// workerPrinter prints the steps of a worker and its jobs.
type workerPrinter struct {
	name string

	mu         sync.Mutex
	out        io.Writer
	node       *agent.Agent // nil until the devices are known
	registered bool
}

func (w *workerPrinter) printf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	output.Printf(w.out, format, args...)
}

// The method `found` prints the number of devices. If the node has registered meanwhile, it prints that too.
func (w *workerPrinter) found(ag *agent.Agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.node = ag
	output.Printf(w.out, "Detected %d GPUs\n", len(ag.Node().Devices))
	if profile := ag.MockProfile(); profile != "" {
		output.Printf(w.out, "  mock profile     %s\n", otherProfiles(profile))
	}
	if w.registered {
		w.printRegistered()
	}
}

func (w *workerPrinter) printRegistered() {
	devices := w.node.Node().Devices
	output.Printf(w.out, "Worker %s registered with %d GPUs\n", w.name, len(devices))
	for _, d := range devices {
		output.Printf(w.out, "  - GPU-%d: %s (%d MB)\n", d.Index, output.Clean(d.Model), d.MemoryMB)
	}
	output.Printf(w.out, "Worker %s waiting for jobs...\n", w.name)
}

// The method `watch` prints one step.
func (w *workerPrinter) watch(c agent.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job := output.Clean(c.Job)
	if c.Ranks > 1 {
		job += fmt.Sprintf(" rank %d", c.Rank)
	}
	line := ""
	switch c.Step {
	case agent.StepRegistered:
		first := !w.registered
		w.registered = true
		if w.node != nil && first {
			w.printRegistered()
		}
		return
	case agent.StepFound:
		line = "Found job " + job
		if c.Attempt > 0 && c.Attempt <= c.Of {
			line += fmt.Sprintf(" (attempt %d/%d)", c.Attempt, c.Of)
		} else if c.Attempt > 0 {
			line += fmt.Sprintf(" (attempt %d)", c.Attempt)
		}
	case agent.StepClaimed:
		line = fmt.Sprintf("ACQUIRED LEASE (token=%d) for %s", c.Fence, job)
	case agent.StepRunning:
		line = fmt.Sprintf("Job %s → RUNNING", job)
	case agent.StepProgress:
		line = fmt.Sprintf("Progress %s (token valid)", output.Clean(c.Text))
	case agent.StepEnded:
		line = fmt.Sprintf("Job %s → SUCCEEDED", job)
		if !c.OK {
			line = fmt.Sprintf("Job %s → FAILED (%s)", job, output.Clean(c.Text))
		}
	case agent.StepCommitted:
		line = fmt.Sprintf("RESULT COMMITTED (token validated) for %s", job)
	case agent.StepDropped:
		line = fmt.Sprintf("%d lines are missing here, because the output was blocked", c.Dropped)
	case agent.StepRejected:
		line = fmt.Sprintf("RESULT REJECTED for %s: %s", job, output.Clean(c.Text))
	}
	if line != "" {
		output.Printf(w.out, "Worker %s: %s\n", w.name, line)
	}
}
