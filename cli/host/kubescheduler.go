package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// kubeScheduler is the program that schedules the pods of a Kubernetes cluster. It is a program of its own, because it
// contains the scheduler of Kubernetes.
const kubeScheduler = "ares-kube-scheduler"

// execKubeScheduler replaces this process by the scheduler for Kubernetes. That program is beside this one, or in PATH.
func execKubeScheduler(kubeconfig, name string) error {
	path, err := findKubeScheduler()
	if err != nil {
		return err
	}
	args := []string{path}
	for _, flag := range []struct{ name, value string }{{"--kubeconfig", kubeconfig}, {"--scheduler-name", name}} {
		if flag.value != "" {
			args = append(args, flag.name+"="+flag.value)
		}
	}
	return fmt.Errorf("run %s: %w", path, syscall.Exec(path, args, os.Environ())) // Exec returns only if it fails
}

func findKubeScheduler() (string, error) {
	self, err := os.Executable() // without the links that lead to it
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), kubeScheduler)
	if _, err = os.Stat(beside); err == nil {
		return beside, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if path, err := exec.LookPath(kubeScheduler); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("the program %s is neither in %s nor in PATH: build it with `make kube-scheduler`, or leave --kubeconfig and --scheduler-name out to run a server", kubeScheduler, filepath.Dir(self))
}
