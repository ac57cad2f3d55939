package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/test/cluster"
)

// TestPlainBuild builds ./cmd/worker and ./cmd/scheduler as the source documents do, without the build tag that puts the
// supervisor into the program. The worker then builds the supervisor itself. `go run cmd/worker/main.go` runs the same
// program.
func TestPlainBuild(t *testing.T) {
	dir := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cmd/worker/main.go", "cmd/scheduler/main.go"} { // a single file, as for `go run`
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, filepath.Base(filepath.Dir(file))), file)
		cmd.Dir = root
		if out, failed := cmd.CombinedOutput(); failed != nil {
			t.Fatalf("%s: %s\n%s", file, failed, out)
		}
	}
	data := filepath.Join(dir, "data")
	if err = os.MkdirAll(filepath.Join(data, "store"), 0o700); err != nil { // the embedded store, whatever runs on this machine
		t.Fatal(err)
	}
	env := append(os.Environ(), "ARES_DATA_DIR="+data, "ARES_MOCK_GPU=v100-4", "WORKER_ID=worker-1", "ETCD_ENDPOINTS=", "LOG_LEVEL=DEBUG", "ARES_ISOLATION_MODE=none",
		"ARES_HTTP_ADDR=127.0.0.1:0", "ARES_GRPC_ADDR=127.0.0.1:0", "ARES_METRICS_ADDR=127.0.0.1:0", "ARES_SERVER=", "ARES_SUPERVISOR=", "ARES_TOKEN=")
	worker := cluster.NewProcess(t, t.TempDir(), cluster.Command{Name: "worker", Argv: []string{filepath.Join(dir, "worker")}, Env: env, Dir: root, Split: true})
	defer worker.End()
	await(t, worker, `Worker worker-1 waiting for jobs\.\.\.`)
	cmd := exec.Command(filepath.Join(dir, "scheduler"))
	cmd.Env, cmd.Dir = env, root
	out, err := cmd.CombinedOutput()
	if err != nil || !regexp.MustCompile(`GPU placement for job \S+: \[0 1\] \(score: 160\.0, 1 NVLink connections\)`).Match(out) {
		t.Fatalf("%v\n%s", err, out)
	}
	await(t, worker, `RESULT COMMITTED`)
	worker.Stop(syscall.SIGINT, patience)
	if state := worker.Exit(patience); !state.Success() {
		t.Errorf("the worker ended with %s", state)
	}
}

// The function `await` waits until a process has printed a line.
func await(t *testing.T, p *cluster.Process, line string) {
	t.Helper()
	want := regexp.MustCompile(line)
	ask := time.NewTicker(askEvery)
	defer ask.Stop()
	late := time.After(2 * patience)
	for !want.MatchString(p.Out()) {
		select {
		case <-p.Ended():
			t.Fatalf("%s ended\n%s%s", p.Name, p.Out(), p.Log())
		case <-late:
			t.Fatalf("no %q:\n%s%s", line, p.Out(), p.Log())
		case <-ask.C:
		}
	}
}
