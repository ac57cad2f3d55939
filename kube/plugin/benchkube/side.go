package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// side is one of the programs that are compared.
type side struct {
	name      string
	scheduler string // spec.schedulerName of its pods
	start     func(*kubetest.Cluster) (*kubetest.Process, error)
}

// sideOf returns a side by its name.
func (s settings) sideOf(name string) (side, error) {
	switch name {
	case "kube-scheduler":
		return side{name, "default-scheduler", func(c *kubetest.Cluster) (*kubetest.Process, error) {
			return c.StartKubeScheduler(c.Kubeconfig)
		}}, nil
	case "bindings":
		return side{name, "bindings-only", func(c *kubetest.Cluster) (*kubetest.Process, error) {
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			return c.StartProcess(name, self, bindCommand, "-kubeconfig="+c.Kubeconfig, "-workers="+strconv.Itoa(s.workers))
		}}, nil
	case "ares":
		return side{name, kubetest.AresSchedulerName, startAres}, nil
	}
	return side{}, fmt.Errorf("-sides: unknown side %q: write kube-scheduler, bindings or ares", name)
}

func startAres(c *kubetest.Cluster) (*kubetest.Process, error) {
	return c.StartAresScheduler("ares-kube-scheduler", c.Kubeconfig)
}
