//go:build linux

package main

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// output stores what the job writes, in two files of at most half the limit each. What
// cannot be stored is dropped and noted, for a full disk must not stop the job.
type output struct {
	half    int64
	file    int    // the current file, -1 if none could be opened
	name    string // of the current file
	prev    string // of the one before
	offset  int64  // of the stream, where the current file ends
	size    int64  // of the current file
	unsaid  int64  // dropped since the last note
	why     error
	dropped atomic.Int64
	done    chan struct{} // closed at the end of the output; nil if there never was any
}

// settleTime is how long the end of the output is waited for when the job is dead. Only a
// hung disk, or without a cgroup a process that escaped, can make it last.
const settleTime = 2 * time.Second

func (o *output) begin(pipe int, limit int64) {
	o.half, o.file, o.done = limit/2, -1, make(chan struct{})
	go func() {
		defer close(o.done)
		o.pump(pipe)
	}()
}

// settle waits for the last of the output.
func (o *output) settle() {
	if o.done == nil {
		return
	}
	select {
	case <-o.done:
	case <-time.After(settleTime):
	}
}

func (o *output) pump(pipe int) {
	// A job that prints nothing has an empty log, not none. Should this fail, the first
	// write tries again and notes what is lost.
	_ = o.rotate()
	buf := make([]byte, 32<<10)
	for {
		n, err := syscall.Read(pipe, buf)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || n == 0 {
			break
		}
		o.note()
		o.write(buf[:n])
	}
	o.note()
}

// note says in the log itself that something is missing, once there is room again.
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
	o.unsaid = lost // the note itself is no loss
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

// rotate begins a new file. The oldest goes first: its room may be needed.
func (o *output) rotate() error {
	if o.prev != "" {
		if err := os.Remove(o.prev); err != nil && !os.IsNotExist(err) {
			return err
		}
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
	return nil
}

// sacrifice frees room for the result, which matters more than old output.
func (o *output) sacrifice() {
	if o.prev != "" {
		_ = os.Remove(o.prev)
	} else if o.name != "" {
		_ = os.Truncate(o.name, 0)
	}
}

// reserveSize is more than any result needs: its only long field is MaxReason.
const reserveSize = 4 << 10

// reserveResult takes room for the result before the job starts. A job must not end
// without a trace because its own output has filled the disk.
func reserveResult() error {
	return os.WriteFile(seat.ReserveFile, make([]byte, reserveSize), 0o600)
}

// writeResult makes the result appear all at once, and only when it is on the disk.
func writeResult(r *seat.Result, out *output) error {
	err := overwrite(seat.ReserveFile, r.Encode())
	if err != nil { // some file systems need room even to overwrite
		out.sacrifice()
		err = overwrite(seat.ReserveFile, r.Encode())
	}
	if err != nil {
		return err
	}
	if err = os.Rename(seat.ReserveFile, seat.ResultFile); err != nil {
		return err
	}
	dir, err := os.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func overwrite(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
