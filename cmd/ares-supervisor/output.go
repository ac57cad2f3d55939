//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The type `output` stores the job's output in two files. Each file may use half of the size limit. Output that cannot
// be stored is dropped and counted, because a full disk must not stop the job.
type output struct {
	half    int64
	file    int    // the current file, -1 if none could be opened
	name    string // name of the current file
	prev    string // name of the previous file
	offset  int64  // stream offset of the end of the current file
	size    int64  // size of the current file
	times   index  // says when the output of the current file was written
	unsaid  int64  // bytes dropped since the last note
	why     error
	dropped atomic.Int64
	done    chan struct{} // closed at the end of the output; nil if there is no output
}

// settleTime is how long the supervisor waits for the end of the output after the job is dead. Only two things can
// delay the end of the output: a disk that hangs, or a process that escaped because there is no cgroup.
const settleTime = 2 * time.Second

// The method `begin` starts to store the output from the pipe. The buffer is the process's: a new one for each seat would be most of what a
// short job makes the garbage collector do.
func (o *output) begin(pipe int, limit int64, buf []byte) {
	o.half, o.file, o.done = limit/2, -1, make(chan struct{})
	go func() {
		defer close(o.done)
		o.pump(pipe, buf)
	}()
}

// The method `settle` waits until the remaining output is stored. It returns false if that takes too long.
func (o *output) settle() bool {
	if o.done == nil {
		return true
	}
	select {
	case <-o.done:
		return true
	default:
	}
	select {
	case <-o.done:
		return true
	case <-time.After(settleTime):
		return false
	}
}

func (o *output) pump(pipe int, buf []byte) {
	// Create an empty log even if the job prints nothing. If the file cannot be created, the first write tries again,
	// and the log then says how much output was lost.
	_ = o.rotate()
	_ = syscall.SetNonblock(pipe, true) // for the runtime's poller; see the type `parking`
	in := os.NewFile(uintptr(pipe), "output")
	for {
		n, err := in.Read(buf)
		if err != nil {
			break
		}
		o.note()
		o.write(buf[:n])
	}
	o.note()
	_ = in.Close()
	o.times.close()
	if o.file >= 0 {
		_ = syscall.Close(o.file)
		o.file = -1
	}
}

// The method `note` writes into the log how much output was dropped, once the disk has space again.
func (o *output) note() {
	if o.unsaid == 0 {
		return
	}
	lost := o.unsaid
	text := "\n[ares: " + strconv.FormatInt(lost, 10) + " bytes of output dropped: " + o.why.Error() + "]\n"
	before := o.dropped.Load()
	o.write([]byte(text))
	if o.dropped.Load() == before {
		o.unsaid = 0
		return
	}
	o.unsaid = lost // a note that cannot be written does not count as lost output
	o.dropped.Store(before)
}

func (o *output) write(b []byte) {
	for len(b) > 0 {
		if o.file < 0 || o.size >= o.half {
			if err := o.rotate(); err != nil {
				o.drop(len(b), err)
				return
			}
		}
		o.times.stamp(o.offset, time.Now())
		n, err := syscall.Write(o.file, b[:min(int64(len(b)), o.half-o.size)])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			o.drop(len(b), err)
			return
		}
		b = b[n:]
		o.size += int64(n)
		o.offset += int64(n)
	}
}

func (o *output) drop(n int, err error) {
	o.unsaid += int64(n)
	o.why = err
	o.dropped.Add(int64(n))
}

// The method `rotate` begins a new log file. The method deletes the oldest file first, because its space may be needed.
func (o *output) rotate() error {
	if o.prev != "" {
		if err := os.Remove(o.prev); err != nil && !os.IsNotExist(err) {
			return err
		}
		_ = os.Remove(seat.IndexOf(o.prev))
		o.prev = ""
	}
	name := seat.LogName(o.offset)
	fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_APPEND|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if o.file >= 0 {
		_ = syscall.Close(o.file)
	}
	o.prev, o.name, o.file, o.size = o.name, name, fd, 0
	o.times.begin(name, o.half)
	return nil
}

// The method `sacrifice` deletes old output to free disk space for the result, because the result is more important.
func (o *output) sacrifice() {
	if o.name != "" {
		_ = os.Remove(seat.IndexOf(o.name))
	}
	if o.prev != "" {
		_ = os.Remove(o.prev)
		_ = os.Remove(seat.IndexOf(o.prev))
	} else if o.name != "" {
		_ = os.Truncate(o.name, 0)
	}
}

// reserveSize is the size of the reserved space, which is enough for any result. The only long field of a result is the
// reason, which is limited to MaxReason bytes.
const reserveSize = 4 << 10

// reserveResult reserves space for the result before the job starts. Without the reserved space, a job whose output
// fills the disk could end without a stored result.
func reserveResult() error {
	return seat.WriteFile(seat.ReserveFile, reserved[:], syscall.O_CREAT|syscall.O_TRUNC, 0o600)
}

var reserved [reserveSize]byte

// writeResult writes the result and syncs it to disk. The file is renamed before it is synced: a file system with a journal then writes the
// data and both names at once, and has nothing left to do for the directory. If the machine crashes meanwhile, the file may be incomplete.
// Its checksum shows that, and the seat has the outcome Lost, as it would without a file.
func writeResult(r *seat.Result, out *output) error {
	err := overwrite(seat.ReserveFile, seat.ResultFile, r.Encode())
	if err != nil { // some file systems need free space even to overwrite
		out.sacrifice()
		err = overwrite(seat.ReserveFile, seat.ResultFile, r.Encode())
	}
	if err != nil {
		return err
	}
	return withFile(".", syscall.O_DIRECTORY|syscall.O_RDONLY, fsync)
}

// The function `overwrite` writes a file, gives it another name, and syncs it.
func overwrite(name, final string, b []byte) error {
	return withFile(name, syscall.O_WRONLY|syscall.O_CREAT, func(fd int) error {
		for at := 0; at < len(b); {
			n, err := syscall.Pwrite(fd, b[at:], int64(at))
			if err != nil && err != syscall.EINTR {
				return err
			}
			at += max(n, 0)
		}
		if err := uninterrupted(func() error { return syscall.Ftruncate(fd, int64(len(b))) }); err != nil {
			return err
		}
		if err := os.Rename(name, final); err != nil {
			return err
		}
		return fsync(fd)
	})
}

func fsync(fd int) error { return uninterrupted(func() error { return syscall.Fsync(fd) }) }

// The function `uninterrupted` repeats a system call that a signal interrupted.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// withFile opens a file, calls the function `do` with its descriptor, and closes it.
func withFile(name string, flags int, do func(fd int) error) error {
	var fd int
	err := uninterrupted(func() (err error) {
		fd, err = syscall.Open(name, flags|syscall.O_CLOEXEC, 0o600)
		return err
	})
	if err == nil {
		err = do(fd)
		if cerr := syscall.Close(fd); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}
