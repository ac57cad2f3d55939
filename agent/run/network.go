//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// dialInside connects to a port of a job that has a network of its own. It checks the owner of the port as for other jobs, because a job
// that may create namespaces can have processes in several networks.
func (p *Proc) dialInside(ctx context.Context, port uint16) (conn net.Conn, err error) {
	network, err := p.openNetwork()
	if err != nil {
		return nil, err
	}
	defer network.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The goroutine never unlocks its thread. So the thread ends with it, and no other goroutine runs in the job's network.
		runtime.LockOSThread()
		if err = unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the network of the job: %w", err)
			return
		}
		conn, err = p.dialHere(ctx, port)
	}()
	<-done
	return conn, err
}

// openNetwork opens the network namespace of a process of the job. The process may end meanwhile, and its PID may belong to another
// process. A process that is in the job's cgroup after the namespace was opened was the job's before, too.
func (p *Proc) openNetwork() (*os.File, error) {
	pids, err := p.pids()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		network, err := os.Open(filepath.Join("/proc", pid, "ns/net"))
		if err != nil {
			continue // it has ended
		}
		if still, err := p.pids(); err == nil && slices.Contains(still, pid) {
			return network, nil
		}
		if err = network.Close(); err != nil {
			return nil, err
		}
	}
	return nil, errors.Join(ErrEnded, errors.New("no process of the job is left"))
}

// The method `pids` returns the PIDs of the job's processes.
func (p *Proc) pids() ([]string, error) {
	procs, err := os.ReadFile(filepath.Join(p.order.Cgroup, seat.JobGroup, "cgroup.procs"))
	if err != nil {
		return nil, ErrEnded
	}
	return strings.Fields(string(procs)), nil
}
