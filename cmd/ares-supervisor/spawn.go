//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// defaultPath is the PATH of jobs that do not set one.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The method `spawn` starts the job's process in its cgroup: before its first instruction, the process is there. The method runs on the job's thread and may hang,
// for example when the program is on a network disk that does not answer. While the method `spawn` runs, the loop
// enforces the deadlines.
func (s *supervisor) spawn() birth {
	o := &s.order
	files, err := openJobFiles(o)
	if err != nil {
		return unable("open the job's input and output", err)
	}
	defer files.close()
	if err := errors.Join(noNewPrivs(), setLimits(o), s.apart()); err != nil {
		return unable("set the job apart", err)
	}
	attr, group, err := s.attributes()
	if err != nil {
		return failed(err.Error())
	}
	defer closeFiles([]int{group})
	if o.Terminal {
		attr.Setctty, attr.Ctty = true, 0
	}
	env := environment(o)
	var path string
	err = s.asUser(func() (err error) {
		if err = makeDirInTmp(o); err != nil {
			return err
		}
		path, err = lookPath(o.Argv[0], o.Dir, env)
		return err
	})
	if err != nil {
		return failed(s.apartToo(err.Error()))
	}
	// gofail: var supervisorBeforeExec struct{}

	// Rule R4 requires this last check of the clock before exec. In the meantime, the job may have been placed on
	// another node.
	now := seat.Now()
	if now >= o.DecideAt(o.RenewedAt) {
		return birth{outcome: seat.Fenced, reason: errLate.Error()}
	}
	wall := time.Now()
	pid, machine, err := s.fork(path, o.Argv, &syscall.ProcAttr{
		Dir: o.Dir, Env: env, Sys: attr,
		Files: []uintptr{uintptr(files.stdin), uintptr(files.output), uintptr(files.output)},
	})
	if errors.Is(machine, errLate) {
		return birth{outcome: seat.Fenced, reason: errLate.Error()}
	}
	if machine != nil {
		return unable("limit the job", machine)
	}
	if err != nil {
		return failed(s.apartToo(explain(path, err)))
	}
	s.hasSecretFiles = hasSecretFiles(o)
	o.Secrets = nil // only the job has them from now on
	read, in := files.take(o)
	s.out.begin(read, o.LogLimit, s.process.buffer[:])
	return birth{pid: pid, at: now, wall: wall, input: in}
}

// The method `attributes` returns how a process of the job is forked. The second result is a file that must be closed after the fork, or -1.
func (s *supervisor) attributes() (*syscall.SysProcAttr, int, error) {
	o := &s.order
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if o.User != nil {
		attr.Credential = &syscall.Credential{Uid: o.User.UID, Gid: o.User.GID, Groups: o.User.Groups}
	}
	if s.member.isJoined {
		// A process of another PID namespace does not see its parent, and ForkExec would take it for dead. The end of the container's first
		// process ends all others, and that process ends with its supervisor.
		attr.Pdeathsig, attr.Ptrace = 0, true
		return attr, -1, nil
	}
	if !o.Contained() {
		return attr, -1, nil
	}
	fd, err := syscall.Open(string(s.jobGroup()), syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, -1, errors.New("open the job's cgroup: " + err.Error())
	}
	if hidesClone3(o) {
		attr.Ptrace = true
	} else {
		attr.UseCgroupFD, attr.CgroupFD = true, fd
	}
	return attr, fd, nil
}

// The function `environment` returns the job's environment. The variables of Ares replace variables of the job that
// have the same names.
func environment(o *seat.Order) []string {
	const progress, checkpoint, mark, socket = "ARES_PROGRESS_FILE=", "ARES_CHECKPOINT_FILE=", seat.MarkEnv + "=", "ARES_JOB_SOCKET="
	env := make([]string, 0, len(o.Env)+5)
	hasTmp := o.Tmp == ""
	for _, v := range o.Env {
		hasTmp = hasTmp || strings.HasPrefix(v, "TMPDIR=")
		if !strings.HasPrefix(v, progress) && !strings.HasPrefix(v, secretsEnv) && !strings.HasPrefix(v, checkpoint) && !strings.HasPrefix(v, mark) && !strings.HasPrefix(v, socket) {
			env = append(env, v)
		}
	}
	if !hasTmp {
		env = append(env, "TMPDIR="+o.Tmp)
	}
	if o.JobSocket != "" {
		env = append(env, socket+o.JobSocket)
	}
	return append(withSecrets(env, o), progress+o.Progress, checkpoint+o.Checkpoint, mark+o.Mark)
}

func failed(reason string) birth { return birth{outcome: seat.SpawnError, reason: reason} }

// The function `unable` returns the result of a start that failed because of the machine. With this result, the job
// may run on another node.
func unable(what string, err error) birth {
	return birth{outcome: seat.Lost, reason: what + ": " + err.Error()}
}

// apartToo adds a hint to the error about a command that is not found or not permitted. The hint names the user of the
// job, and says whether the job has its own /tmp.
func (s *supervisor) apartToo(reason string) string {
	if s.order.User == nil {
		return reason
	}
	reason += " (for the job's own user, " + strconv.Itoa(int(s.order.User.UID))
	if s.order.Sandbox.OwnTmp {
		reason += ", who has a /tmp of its own"
	}
	return reason + ")"
}

// The function `explain` describes the error number that exec returns.
func explain(path string, err error) string {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return "start " + path + ": its interpreter does not exist (see its first line)"
	case errors.Is(err, syscall.ENOEXEC):
		return "start " + path + ": not a program for this machine (a script needs a #! line)"
	case errors.Is(err, syscall.E2BIG):
		return "start " + path + ": arguments and environment are too long"
	}
	return "start " + path + ": " + err.Error()
}

// installHint ends the error about a missing program.
const installHint = ": install it on the node, or write its full path"

// lookPath finds the program in the job's PATH, as a shell in the directory `dir` would.
func lookPath(name, dir string, env []string) (string, error) {
	switch st, err := os.Stat(dir); {
	case errors.Is(err, os.ErrNotExist):
		return "", errors.New("directory " + dir + " does not exist")
	case err != nil:
		return "", errors.New("directory " + dir + ": " + reason(err))
	case !st.IsDir():
		return "", errors.New(dir + " is not a directory")
	}
	if strings.Contains(name, "/") {
		_, err := executable(absolute(dir, name), name)
		return name, err
	}
	search := defaultPath
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			search = p
		}
	}
	var denied error
	for entry := range strings.SplitSeq(search, ":") {
		if entry == "" {
			entry = "."
		}
		path := absolute(dir, entry+"/"+name)
		found, err := executable(path, path)
		if err == nil {
			return path, nil
		}
		if found && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", errors.New("command not found: " + name + installHint)
}

func absolute(dir, name string) string {
	if name[0] == '/' {
		return name
	}
	return dir + "/" + name
}

// The function `executable` returns an error if a file cannot be executed. `found` says whether the file exists.
func executable(path, name string) (found bool, err error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, errors.New("command not found: " + name)
	case err != nil:
		return false, errors.New("command " + name + ": " + reason(err))
	case st.IsDir():
		return true, errors.New("command " + name + " is a directory")
	case st.Mode()&0o111 == 0:
		return true, errors.New("permission denied: " + name + " is not executable")
	}
	return true, nil
}

// The function `reason` returns the error without the operation and the path, because the caller has already named
// both.
func reason(err error) string {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
