package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// aresScheduler is the name by which pods ask for Ares.
const aresScheduler = "topology-aware-scheduler"

// side is one of the programs that are compared.
type side struct {
	name      string
	scheduler string // spec.schedulerName of its pods
	start     func(*kubetest.Cluster) (*kubetest.Process, error)
}

// sideOf returns a side by its name; ok is false if its program was not built.
func (s settings) sideOf(name string) (_ side, ok bool, err error) {
	switch name {
	case "kube-scheduler":
		return side{name, "default-scheduler", func(c *kubetest.Cluster) (*kubetest.Process, error) {
			return c.StartKubeScheduler(c.Kubeconfig)
		}}, true, nil
	case "bindings":
		return side{name, "bindings-only", func(c *kubetest.Cluster) (*kubetest.Process, error) {
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			return c.StartProcess(name, self, bindCommand, "-kubeconfig="+c.Kubeconfig, "-workers="+strconv.Itoa(s.workers))
		}}, true, nil
	case "ares":
		return side{name, aresScheduler, s.startAres}, s.ares != "", nil
	}
	return side{}, false, fmt.Errorf("-sides: unknown side %q: write kube-scheduler, bindings or ares", name)
}

func (s settings) startAres(c *kubetest.Cluster) (*kubetest.Process, error) {
	return c.StartProcess("ares-kube-scheduler", s.ares,
		"--kubeconfig="+c.Kubeconfig, "--scheduler-name="+aresScheduler, "--leader-elect=false")
}
