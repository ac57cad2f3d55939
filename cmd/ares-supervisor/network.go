//go:build linux

package main

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// furnishNetwork gives the job's thread, and the processes that it forks, a network namespace of their own, if the job must not reach the
// machine's network. Abstract sockets belong to the network namespace too. The namespace ends with the job's last process.
func furnishNetwork(o *seat.Order) error {
	if !o.Sandbox.OwnNetwork {
		return nil
	}
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return errors.New("make a network of the job's own (network: none): unshare(CLONE_NEWNET): " + err.Error())
	}
	return raiseLoopback()
}

// raiseLoopback switches the loopback interface on. Many programs connect to themselves, and a new namespace has it switched off.
func raiseLoopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return errors.New("switch on the loopback interface: " + err.Error())
	}
	defer syscall.Close(fd)
	request := struct { // the kernel's struct ifreq
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		rest  [22]byte
	}{name: [syscall.IFNAMSIZ]byte{'l', 'o'}, flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errors.New("switch on the loopback interface: " + errno.Error())
	}
	return nil
}

// verifyNetwork checks that the first process of a container is in the network namespace of the job's thread. A runtime that gives the
// container another network would give it more than the job may have.
func (s *supervisor) verifyNetwork(pid string) error {
	if !s.order.Sandbox.OwnNetwork {
		return nil
	}
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	its, err := os.Readlink("/proc/" + pid + "/ns/net")
	if err != nil {
		return err
	}
	if its != own {
		return errors.New("the runtime " + s.order.Container.Runtime + " has given the container another network than the job's own: the job was not started; set another runtime in images.runtime")
	}
	return nil
}

// probeNetwork tests for the agent whether a job can have a network of its own.
func probeNetwork() {
	if err := furnishNetwork(&seat.Order{Spec: seat.Spec{Sandbox: seat.Sandbox{OwnNetwork: true}}}); err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
}
