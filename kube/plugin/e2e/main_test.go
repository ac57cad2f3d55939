package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// schedulerName is the schedulerName of the pods that the shared scheduler places.
const schedulerName = "topology-aware-scheduler"

// What all tests share. TestMain sets it before the first test.
var (
	cluster *kubetest.Cluster
	program string            // the path of ares-kube-scheduler
	account string            // the kubeconfig of the scheduler's service account
	ares    *kubetest.Process // the scheduler of schedulerName
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "ares-kube-e2e")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program, err = schedulerProgram(dir); err != nil {
		return 1, err
	}
	ctx := context.Background()
	audit, err := auditFlags(dir)
	if err != nil {
		return 1, err
	}
	if cluster, err = kubetest.Launch(ctx, kubetest.WithPodGroups(kubetest.Options{Dir: filepath.Join(dir, "cluster"), APIServerArgs: audit, NodeLease: nodeLease})); err != nil {
		return 1, err
	}
	defer cluster.Stop()
	if err = cluster.CreateGroupKinds(ctx); err != nil {
		return 1, err
	}
	if err = cluster.StartWorkloads(ctx); err != nil {
		return 1, err
	}
	if account, err = cluster.ServiceAccountKubeconfig("kube-system", "topology-scheduler"); err != nil {
		return 1, err
	}
	for _, name := range []string{"rbac.yaml", "configmap.yaml"} {
		if err = applyFile(ctx, filepath.Join(repository, "deploy", name)); err != nil {
			return 1, err
		}
	}
	if ares, err = launchScheduler("ares-kube-scheduler", schedulerName); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// nodeLease is how long a silent node counts as ready. It is longer than a restart of the API server.
const nodeLease = 15 * time.Second

// repository is the root of the repository, seen from this package.
const repository = "../../.."

// schedulerProgram returns the path of the scheduler: that of ARES_TEST_KUBE_SCHEDULER, or one that it builds.
func schedulerProgram(dir string) (string, error) {
	if path := os.Getenv("ARES_TEST_KUBE_SCHEDULER"); path != "" {
		return filepath.Abs(path)
	}
	path := filepath.Join(dir, "ares-kube-scheduler")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "../cmd/ares-kube-scheduler")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the scheduler: %w\n%s", err, out)
	}
	return path, nil
}

// launchScheduler starts a scheduler for the pods with the given schedulerName. It decides alone, without an election.
func launchScheduler(process, scheduler string, flags ...string) (*kubetest.Process, error) {
	flags = append([]string{"--kubeconfig=" + account, "--scheduler-name=" + scheduler, "--leader-elect=false", "--secure-port=0"}, flags...)
	return cluster.StartProcess(process, program, flags...)
}
