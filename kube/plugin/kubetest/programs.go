package kubetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Names of the programs that `make kube-tools` builds.
const (
	APIServer     = "kube-apiserver"
	KubeScheduler = "kube-scheduler"
	Controllers   = "controllers"
	KWOK          = "kwok"
	Kubelet       = "kubelet"
	Containerd    = "containerd"
	Shim          = "containerd-shim-runc-v2"
	Ctr           = "ctr"
	Workloads     = "workloads" // the controllers of JobSet and LeaderWorkerSet
)

// Program returns the path of a program that the Makefile builds into .bin/kube, or into the directory named by
// ARES_TEST_KUBE_BIN.
func Program(name string) (string, error) {
	dir := os.Getenv("ARES_TEST_KUBE_BIN")
	if dir == "" {
		root, err := repository()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(root, ".bin", "kube")
	}
	return existing(filepath.Join(dir, name), "make kube-tools", "ARES_TEST_KUBE_BIN")
}

// minorVersion returns the minor version of the API server: 37 for 1.37.1.
func minorVersion() (int, error) {
	program, err := Program(APIServer)
	if err != nil {
		return 0, err
	}
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", program, err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "Kubernetes v%d.%d.", &major, &minor); err != nil {
		return 0, fmt.Errorf("%s --version says %q: %w", program, out, err)
	}
	return minor, nil
}

// AresScheduler returns the path of bin/ares-kube-scheduler, or the one that ARES_TEST_KUBE_SCHEDULER names.
func AresScheduler() (string, error) {
	return named("ARES_TEST_KUBE_SCHEDULER", "bin/ares-kube-scheduler", "make kube-scheduler")
}

func etcdProgram() (string, error) {
	return named("ARES_TEST_ETCD", ".bin/etcd", "make tools")
}

// named returns the path in an environment variable, or the default path below the root of the repository.
func named(env, path, remedy string) (string, error) {
	if other := os.Getenv(env); other != "" {
		return existing(other, remedy, env)
	}
	root, err := repository()
	if err != nil {
		return "", err
	}
	return existing(filepath.Join(root, path), remedy, env)
}

func existing(path, remedy, env string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(abs)
	}
	if err != nil {
		return "", fmt.Errorf("%w: run `%s` at the root of the repository, or set %s", err, remedy, env)
	}
	return abs, nil
}

// File returns the path of a file of the repository.
func File(path string) (string, error) {
	root, err := repository()
	return filepath.Join(root, path), err
}

// repository returns the root of the repository: the directory above the working directory that holds tools/k8s.
func repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "tools", "k8s", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above %s holds tools/k8s: run this inside the repository", start)
		}
	}
}
