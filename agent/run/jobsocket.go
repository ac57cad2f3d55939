//go:build linux

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The socket of a job's processes, JobSocket in JobDir of the seat's directory, lets them ask the agent for things of their own attempt. Three
// things keep others away: its mode, its directory, which other jobs do not see, and above all the check that the process at the other
// end is in the seat's cgroup, before a byte of it is read.

// JobCallers is the maximum number of open connections to the socket of one seat.
const JobCallers = 128

// JobSocket accepts the connections of a seat's processes. It is a net.Listener. Its methods may be called concurrently.
type JobSocket struct {
	proc *Proc
	*net.UnixListener

	mu     sync.Mutex
	open   map[*jobConn]bool
	closed bool
}

// jobConn is the connection of a process of the job.
type jobConn struct {
	*net.UnixConn
	socket *JobSocket
}

// jobCaller is the address of a process of the job. The seat is all that matters of it.
type jobCaller struct{ key Key }

func (jobCaller) Network() string  { return "unix" }
func (c jobCaller) String() string { return c.key.String() }

// CallerOf returns the seat to whose processes an address belongs.
func CallerOf(addr net.Addr) (Key, bool) {
	c, ok := addr.(jobCaller)
	return c.key, ok
}

// probeJobSocket returns why this machine cannot tell which process is at the other end of a socket, or "". A process ID alone could be
// used again before its cgroup is read.
func probeJobSocket() string {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err).Error()
	}
	defer closeAll(pair[0], pair[1])
	pid, pidfd, err := peerOf(pair[0])
	if err != nil {
		return "SO_PEERPIDFD, which needs Linux 6.5: " + err.Error()
	}
	defer closeAll(pidfd)
	if pid != strconv.Itoa(os.Getpid()) {
		return "/proc/self/fdinfo does not show the process of a pidfd"
	}
	return ""
}

// NoJobSocket returns why the seats of this machine have no socket for their processes, or "" if they have one.
func (r *Runner) NoJobSocket() string {
	if ok, why := r.Contained(); !ok {
		return why
	}
	return r.noJobSocket
}

// placeJobSocket sets the path at which the job finds its socket.
func (r *Runner) placeJobSocket(o *seat.Order) {
	switch {
	case !o.Contained() || r.noJobSocket != "":
	case o.Sandbox.Private:
		o.JobSocket = seat.SandboxJob + "/" + seat.JobSocket
	default:
		o.JobSocket = filepath.Join(r.dir, seatPath(o.Key, seat.JobDir), seat.JobSocket)
	}
}

// ListenJob makes the socket for the job's processes. A socket that an earlier agent has made is replaced in one step. The error is
// fs.ErrNotExist if the seat has no such socket, because of its machine or because an earlier version started it.
func (p *Proc) ListenJob() (*JobSocket, error) {
	if p.order.JobSocket == "" || !p.order.Contained() || p.r.noJobSocket != "" {
		return nil, fs.ErrNotExist
	}
	dir, err := p.r.root.OpenRoot(seatsDir + "/" + p.order.Key.String())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := p.listenIn(dir, int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("make the socket of the job's processes: %w", err)
	}
	return &JobSocket{proc: p, UnixListener: l, open: map[*jobConn]bool{}}, nil
}

// listenIn makes the socket in the seat's directory, which the job cannot write to, and then moves it to its place. So nobody can connect to
// a socket that is not finished, and there is one at each moment.
func (p *Proc) listenIn(dir *os.Root, at int) (*net.UnixListener, error) {
	const made = seat.JobSocket + ".new"
	if err := dir.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), made)
	defer f.Close()
	if err = unix.Fchmod(fd, 0o600); err != nil { // the file that bind creates gets this mode
		return nil, os.NewSyscallError("fchmod", err)
	}
	// A path is limited to 108 bytes, and that through the file descriptor is short.
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", at, made)}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if u := p.order.User; u != nil {
		if err = dir.Lchown(made, int(u.UID), int(u.GID)); err != nil {
			return nil, err
		}
	}
	if err = unix.Listen(fd, JobCallers); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	l, err := net.FileListener(f) // with a copy of the file
	if err != nil {
		return nil, err
	}
	if err = dir.Rename(made, seat.JobDir+"/"+seat.JobSocket); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l.(*net.UnixListener), nil
}

// Accept returns the next connection of a process of the job. It closes all others.
func (s *JobSocket) Accept() (net.Conn, error) {
	for {
		conn, err := s.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if c, ok := s.admit(conn); ok {
			return c, nil
		}
		_ = conn.Close()
	}
}

func (s *JobSocket) admit(conn *net.UnixConn) (*jobConn, bool) {
	if !s.proc.isOwn(conn) {
		return nil, false
	}
	return s.add(conn)
}

// The method `add` counts a connection. It returns false if there are too many.
func (s *JobSocket) add(conn *net.UnixConn) (*jobConn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= JobCallers {
		return nil, false
	}
	c := &jobConn{conn, s}
	s.open[c] = true
	return c, true
}

// Close closes the socket and all of its connections.
func (s *JobSocket) Close() error {
	err := s.UnixListener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		err = errors.Join(err, c.UnixConn.Close())
	}
	clear(s.open)
	return err
}

// RemoteAddr identifies the seat; see CallerOf.
func (c *jobConn) RemoteAddr() net.Addr { return jobCaller{c.socket.proc.order.Key} }

func (c *jobConn) Close() error {
	c.socket.mu.Lock()
	defer c.socket.mu.Unlock()
	delete(c.socket.open, c)
	return c.UnixConn.Close()
}

// isOwn reports whether the process at the other end is in the seat's cgroup.
func (p *Proc) isOwn(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	own := false
	err = raw.Control(func(fd uintptr) { own = p.isPeer(int(fd)) })
	return err == nil && own
}

func (p *Proc) isPeer(fd int) bool {
	pid, pidfd, err := peerOf(fd)
	if err != nil {
		return false
	}
	defer closeAll(pidfd)
	if p.r.owners.hasLeft(&p.order) {
		return false // another seat has the cgroups now
	}
	pids, err := p.pids()
	if err != nil {
		return false
	}
	found := false
	for _, other := range pids {
		found = found || other == pid
	}
	// If the process still exists, its ID was its own all the time.
	return found && unix.PidfdSendSignal(pidfd, 0, nil, 0) == nil
}

// peerOf returns the process that has connected a socket, and a pidfd of it, which the caller closes.
func peerOf(fd int) (pid string, pidfd int, err error) {
	if pidfd, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err != nil {
		return "", -1, os.NewSyscallError("getsockopt(SO_PEERPIDFD)", err)
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(pidfd))
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid = strings.TrimSpace(id)
		}
	}
	if n, bad := strconv.Atoi(pid); err == nil && (bad != nil || n <= 0) {
		err = errors.New("the process has ended, or is in another PID namespace")
	}
	if err != nil {
		closeAll(pidfd)
		return "", -1, err
	}
	return pid, pidfd, nil
}
