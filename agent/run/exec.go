//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// Command is a command to run beside a job.
type Command = seat.Exec

// MaxExecs is the number of commands that may run beside one rank at the same time.
const MaxExecs = seat.MaxExecs

// Exec is a command that runs beside a job. Its process is in the job's cgroup and ends with the job. The command ends when the Exec is
// closed, or when this process ends.
type Exec struct {
	// Input is the command's standard input. Closing it ends the input; for a terminal, use EndInput.
	Input *os.File
	// Output and Errors are the command's standard output and error. Errors is nil for a command with a terminal.
	Output, Errors *Output

	conn     *net.UnixConn
	terminal *os.File // nil without a terminal; the same file as Input
}

// execTime is the maximum time for the start of a command, whose program may be on a slow disk.
const execTime = 30 * time.Second

// Exec runs a command beside the job, with the job's user, isolation, limits and environment. With a terminal, `size` is its size.
func (p *Proc) Exec(ctx context.Context, cmd Command, size TerminalSize) (*Exec, error) {
	if err := cmd.Check(); err != nil {
		return nil, err
	}
	if err := p.addContainer(&cmd); err != nil {
		return nil, err
	}
	f, err := p.execFiles(&cmd, size)
	if err != nil {
		return nil, fmt.Errorf("prepare the files of the command: %w", err)
	}
	defer closeAll(f.theirs...)
	x := &Exec{Input: f.input, terminal: f.terminal, Output: f.output, Errors: f.errors}
	if err = p.requestExec(ctx, x, f.theirs); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// requestExec sends the request to the supervisor, and waits until the command runs.
func (p *Proc) requestExec(ctx context.Context, x *Exec, files []int) error {
	ctx, cancel := context.WithTimeout(ctx, execTime)
	defer cancel()
	conn, err := p.dial(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return ErrEnded
	}
	if err != nil {
		return err
	}
	x.conn = conn.(*net.UnixConn)
	stop := context.AfterFunc(ctx, func() { _ = x.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4<<10)
	n := 0
	if _, _, err = x.conn.WriteMsgUnix([]byte(seat.ExecRequest), syscall.UnixRights(files...), nil); err == nil {
		n, err = x.conn.Read(buf)
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the supervisor did not start the command: %w", ctx.Err())
	case err != nil:
		return ErrEnded
	}
	switch verb, rest, _ := strings.Cut(string(buf[:n]), " "); verb {
	case "ok":
		return nil
	case "refused": // the reason says all that the user needs
		return errors.New(clean(rest, seat.MaxReason))
	default:
		if strings.HasPrefix(rest, "unknown request") {
			return errors.New("it was started by an earlier version of the agent, which has no sessions: restart the job")
		}
		return errors.New(clean(rest, seat.MaxReason))
	}
}

// Wait waits until the command has ended, and returns its exit code, or the signal that ended it. ErrEnded means that it ended with the job.
func (x *Exec) Wait(ctx context.Context) (code int, signal syscall.Signal, err error) {
	stop := context.AfterFunc(ctx, func() { _ = x.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var buf [64]byte
	n, err := x.conn.Read(buf[:])
	if ctx.Err() != nil {
		return 0, 0, ctx.Err()
	}
	if err != nil {
		return 0, 0, ErrEnded
	}
	verb, rest, _ := strings.Cut(string(buf[:n]), " ")
	number, err := strconv.Atoi(rest)
	switch {
	case err == nil && verb == "exited":
		return number, 0, nil
	case err == nil && verb == "signaled":
		return 0, syscall.Signal(number), nil
	}
	return 0, 0, ErrEnded
}

// Signal sends a signal to the command and its process group.
func (x *Exec) Signal(sig syscall.Signal) error {
	_, err := x.conn.Write([]byte("signal " + strconv.Itoa(int(sig))))
	return err
}

// EndInput ends the standard input of the command.
func (x *Exec) EndInput() error {
	if x.terminal == nil {
		return x.Input.Close()
	}
	const endOfTransmission = 4
	_, err := x.Input.Write([]byte{endOfTransmission})
	return err
}

// EndOutput lets Output and Errors end as soon as they have returned what the command has printed until now. It is called when the command
// has ended: processes that it left behind may keep the files open.
func (x *Exec) EndOutput() {
	x.Output.end()
	if x.Errors != nil {
		x.Errors.end()
	}
}

// Close ends the command if it still runs, and closes the files.
func (x *Exec) Close() error {
	var errs []error
	if x.conn != nil {
		errs = append(errs, x.conn.Close())
	}
	if err := x.Input.Close(); !errors.Is(err, os.ErrClosed) {
		errs = append(errs, err)
	}
	errs = append(errs, x.Output.close())
	if x.Errors != nil {
		errs = append(errs, x.Errors.close())
	}
	return errors.Join(errs...)
}

// Output is what a command prints.
type Output struct{ file *os.File }

// Read returns io.EOF if the command has closed its output, or if it has ended and everything that it printed was read.
func (o *Output) Read(b []byte) (int, error) {
	n, err := o.file.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = o.rest(b)
	}
	if errors.Is(err, syscall.EIO) { // a terminal that no process has open any more
		err = io.EOF
	}
	return n, err
}

// rest reads without waiting.
func (o *Output) rest(b []byte) (n int, err error) {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	bad := raw.Control(func(fd uintptr) {
		for {
			if n, err = syscall.Read(int(fd), b); err != syscall.EINTR {
				return
			}
		}
	})
	if bad != nil || err == syscall.EAGAIN || n <= 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), err
}

func (o *Output) end() { _ = o.file.SetReadDeadline(time.Unix(1, 0)) }

func (o *Output) close() error {
	if err := o.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// The type `execFiles` holds the files of a command that is about to start.
type execFiles struct {
	input, terminal *os.File
	output, errors  *Output
	theirs          []int // for the supervisor: the command, then standard input, output and error
}

func (p *Proc) execFiles(cmd *Command, size TerminalSize) (f execFiles, err error) {
	defer func() {
		if err != nil {
			closeAll(f.theirs...)
			f.closeOurs()
		}
	}()
	spec, err := specPipe(cmd.Encode())
	if err != nil {
		return f, err
	}
	f.theirs = []int{spec}
	if cmd.Terminal {
		if f.terminal, err = openTerminal(size, p.order.User, &f.theirs); err != nil {
			return f, err
		}
		f.input, f.output = f.terminal, &Output{f.terminal}
		return f, nil
	}
	if f.input, err = pipeTo(&f.theirs, false); err != nil {
		return f, err
	}
	for _, out := range []**Output{&f.output, &f.errors} {
		file, err := pipeTo(&f.theirs, true)
		if err != nil {
			return f, err
		}
		*out = &Output{file}
	}
	return f, nil
}

func (f *execFiles) closeOurs() {
	if f.input != nil {
		_ = f.input.Close()
	}
	for _, o := range []*Output{f.output, f.errors} {
		if o != nil {
			_ = o.close()
		}
	}
}

// specPipe returns a pipe that holds the given text, and nothing else.
func specPipe(text []byte) (int, error) {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return -1, os.NewSyscallError("pipe2", err)
	}
	n, err := syscall.Write(pipe[1], text)
	_ = syscall.Close(pipe[1])
	if err == nil && n < len(text) {
		err = errors.New("this machine's pipes are too small: raise fs.pipe-user-pages-soft")
	}
	if err != nil {
		_ = syscall.Close(pipe[0])
		return -1, fmt.Errorf("pass the command: %w", err)
	}
	return pipe[0], nil
}

// pipeTo adds one end of a new pipe to the list `theirs`, and returns the other one. Only our own end does not block.
func pipeTo(theirs *[]int, weRead bool) (*os.File, error) {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	our, their := pipe[1], pipe[0]
	if weRead {
		our, their = pipe[0], pipe[1]
	}
	if err := syscall.SetNonblock(our, true); err != nil {
		closeAll(our, their)
		return nil, err
	}
	*theirs = append(*theirs, their)
	return os.NewFile(uintptr(our), "session"), nil
}
