// Package namespaces runs the tests of a package in network, mount and process
// namespaces of their own. There all ports are free, /run is empty, and every
// process ends with the tests.
package namespaces

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"
)

// The constant `stage` is the name of the environment variable that selects the
// role of the process. The variable is empty in the process that `go test`
// starts. It is "init" in the first process of the namespaces, and "tests" in
// the process that runs the tests.
const stage = "ARES_TEST_NAMESPACE_STAGE"

// Run moves into new namespaces, runs the tests there, and returns the exit code
// for TestMain. Without root permissions, Run uses a user namespace. If
// needsRoot is true, the tests do not work in a user namespace, and Run fails
// instead.
func Run(m *testing.M, needsRoot bool) int {
	switch os.Getenv(stage) {
	case "tests":
		return m.Run()
	case "init":
		return initialise()
	default:
		return enter(needsRoot)
	}
}

// This function starts the test binary again as the first process of new
// namespaces. When the calling process dies, the kernel kills the first process
// of the namespaces. All other processes in the namespaces then die too.
func enter(needsRoot bool) int {
	runtime.LockOSThread() // the death signal is tied to the thread
	cmd := again("init")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
	}
	if os.Getuid() != 0 {
		if needsRoot {
			fmt.Fprintln(os.Stderr, `these tests need root permissions: sudo env "PATH=$PATH" go test …`)
			return 1
		}
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := cmd.Run()
	if code, ok := errors.AsType[*exec.ExitError](err); ok {
		return code.ExitCode()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "these tests need namespaces of their own: %v\nrun them as root, or allow user namespaces\n", err)
		return 1
	}
	return 0
}

// `initialise` prepares the namespaces and runs the tests. The process that
// runs `initialise` is the first process of the namespaces. It therefore also
// reaps every orphaned process.
func initialise() int {
	for _, m := range []struct {
		kind, at string
		flags    uintptr
	}{
		{"", "/", syscall.MS_REC | syscall.MS_PRIVATE},
		{"proc", "/proc", 0},
		{"tmpfs", "/run", 0}, // names of network namespaces are files there, and sockets of services
	} {
		if err := syscall.Mount(m.kind, m.at, m.kind, m.flags, ""); err != nil {
			fmt.Fprintf(os.Stderr, "mount %s at %s: %v\n", m.kind, m.at, err)
			return 1
		}
	}
	cmd := again("tests")
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig) // it may have ended already
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "wait for the tests:", err)
			return 1
		case pid == cmd.Process.Pid && status.Signaled():
			fmt.Fprintln(os.Stderr, "the tests were ended by", status.Signal())
			return 1
		case pid == cmd.Process.Pid:
			return status.ExitStatus()
		}
	}
}

func again(as string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), stage+"="+as)
	return cmd
}
