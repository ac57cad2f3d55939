//go:build linux

package main

import (
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// beginInside is the first process of a container, with the job's user, without capabilities and with no_new_privs. It restricts itself as
// the job's thread does for jobs without an image, and executes the job's command. It never returns. With Container.Root, it has capabilities
// in a user namespace of the job, and so have commands beside the job.
func beginInside(how string) {
	syscall.CloseOnExec(seat.InsideStatusFD)
	err := awaitRoot(how)
	if err == nil {
		err = executeInside(how)
	}
	why := err.Error()
	_, _ = syscall.Write(seat.InsideStatusFD, []byte(why[:min(len(why), seat.MaxReason)]))
	os.Exit(127) //nolint:mnd // as a shell does
}

// awaitRoot restricts a process of a job with Container.Root to its user namespace, and says whether it is in it. What fails here is the
// machine's fault. The supervisor answers with the order.
func awaitRoot(how string) error {
	if how == seat.Inside {
		return nil
	}
	err := enteredRoot()
	if err == nil {
		err = becomeRoot()
	}
	if how == seat.BesideRoot {
		_ = syscall.Close(seat.InsideUserFD)
		return err
	}
	if err != nil {
		return &explained{string(rootFailed) + err.Error()}
	}
	_, err = syscall.Write(seat.InsideStatusFD, []byte{rootReady})
	return err
}

func executeInside(how string) error {
	heedSignals()
	insideImage := insideImage
	if how == seat.BesideRoot {
		insideImage = func(err error) error { return err } // the supervisor completes it
	}
	in := os.NewFile(seat.InsideFD, "order")
	b, err := io.ReadAll(io.LimitReader(in, seat.MaxFile))
	if err != nil {
		return err
	}
	_ = in.Close()
	order, err := seat.DecodeInside(b)
	if err != nil {
		return err
	}
	order.Env = withRuntimeEnv(order.Env, os.Environ())
	path, err := lookPath(order.Argv[0], order.Dir, order.Env)
	if err != nil {
		return insideImage(err)
	}
	if err = syscall.Chdir(order.Dir); err != nil {
		return insideImage(&os.PathError{Op: "enter", Path: order.Dir, Err: err})
	}
	if order.Terminal {
		if err = ioctl(0, ioctlTerminal, 0); err != nil {
			return os.NewSyscallError("ioctl(TIOCSCTTY)", err)
		}
	}
	// If the supervisor is killed, nobody enforces the job's deadlines any more.
	if err = prctl(syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL)); err != nil {
		return os.NewSyscallError("prctl(PR_SET_PDEATHSIG)", err)
	}
	if order.Seccomp {
		if err = installFilter(order.UserNamespaces); err != nil {
			return err
		}
	}
	return insideImage(&explained{explain(path, syscall.Exec(path, order.Argv, order.Env))})
}

// libraryPath is a list of directories. Those of the job's devices are searched after those of the job, so that the job finds both.
const libraryPath = "LD_LIBRARY_PATH"

// withRuntimeEnv adds the variables that the runtime has set for the job's devices. The job's own win.
func withRuntimeEnv(env, devices []string) []string {
	at := map[string]int{"GOMAXPROCS": -1}
	for i, v := range env {
		name, _, _ := strings.Cut(v, "=")
		at[name] = i
	}
	for _, v := range devices {
		name, value, _ := strings.Cut(v, "=")
		switch i, has := at[name]; {
		case !has:
			env = append(env, v)
		case name != libraryPath:
		case strings.HasSuffix(env[i], "="):
			env[i] = v
		case !strings.Contains(env[i]+":", value+":"):
			env[i] += ":" + value
		}
	}
	return env
}

type explained struct{ text string }

func (e *explained) Error() string { return e.text }

// insideImage adds that the image is meant, because the advice for other jobs is about the node.
func insideImage(err error) error {
	text := strings.TrimSuffix(err.Error(), installHint)
	return &explained{text + ", in the image: check command, args and working_dir of the job"}
}
