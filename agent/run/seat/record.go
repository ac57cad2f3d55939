//go:build linux

package seat

import (
	"errors"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A file consists of the magic line, records of the form "key length\nvalue\n", and a record "crc" with the checksum of everything before
// it. Values in a spec or result file may contain any byte. Unknown keys are skipped, so that a newer agent and an older supervisor
// understand each other.
const (
	magic   = "ares-seat 1\n"
	crcHead = "crc 8\n"
	crcSize = len(crcHead) + 8 + 1
)

// MaxFile is the maximum size of a spec or result file. For comparison, Linux allows about 2 MiB of arguments.
const MaxFile = 8 << 20

// MaxReason is the maximum length of a reason, so that a result fits into the space reserved for it.
const MaxReason = 1 << 10

// ErrTorn means that a file is incomplete or was damaged later.
var ErrTorn = errors.New("the file is incomplete or damaged")

type field struct{ key, value string }

type encoder struct{ b []byte }

func newEncoder() *encoder { return &encoder{b: []byte(magic)} }

func (e *encoder) str(key, value string) {
	e.b = append(e.b, key...)
	e.b = append(e.b, ' ')
	e.b = strconv.AppendInt(e.b, int64(len(value)), 10)
	e.b = append(e.b, '\n')
	e.b = append(e.b, value...)
	e.b = append(e.b, '\n')
}

func (e *encoder) num(key string, value int64) { e.str(key, strconv.FormatInt(value, 10)) }

func (e *encoder) finish() []byte {
	e.b = append(e.b, trailer(e.b)...)
	return e.b
}

func trailer(body []byte) string {
	sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 16)
	return crcHead + "00000000"[len(sum):] + sum + "\n"
}

func decode(b []byte) ([]field, error) {
	if len(b) < len(magic)+crcSize || string(b[:len(magic)]) != magic {
		return nil, ErrTorn
	}
	body := b[:len(b)-crcSize]
	if string(b[len(b)-crcSize:]) != trailer(body) {
		return nil, ErrTorn
	}
	var fields []field
	rest := string(body[len(magic):])
	for rest != "" {
		head, after, ok := strings.Cut(rest, "\n")
		key, size, ok2 := strings.Cut(head, " ")
		n, err := strconv.Atoi(size)
		if !ok || !ok2 || err != nil || n < 0 || n >= len(after) || after[n] != '\n' {
			return nil, ErrTorn
		}
		fields = append(fields, field{key, after[:n]})
		rest = after[n+1:]
	}
	return fields, nil
}

// Encode returns the content of SpecFile.
func (o *Order) Encode() []byte {
	e := newEncoder()
	e.str("job", o.Job)
	e.num("fence", o.Fence)
	e.num("rank", int64(o.Rank))
	e.num("attempt", int64(o.Attempt))
	for _, a := range o.Argv {
		e.str("arg", a)
	}
	for _, v := range o.Env {
		e.str("env", v)
	}
	e.str("dir", o.Dir)
	if o.User != nil {
		e.num("uid", int64(o.User.UID))
		e.num("gid", int64(o.User.GID))
		for _, g := range o.User.Groups {
			e.num("group", int64(g))
		}
	}
	o.encodeSandbox(e)
	o.encodeContainer(e)
	e.num("lost_after", int64(o.LostAfter))
	e.num("max_runtime", int64(o.MaxRuntime))
	e.num("grace", int64(o.Grace))
	e.num("renewed_at", int64(o.RenewedAt))
	e.num("log_limit", o.LogLimit)
	e.str("cgroup", o.Cgroup)
	if o.InSlot {
		e.str("slot", "on")
	}
	if o.Stdin {
		e.str("stdin", "on")
	}
	if o.Terminal {
		e.str("terminal", "on")
	}
	e.str("mark", o.Mark)
	e.str("progress", o.Progress)
	e.str("checkpoint", o.Checkpoint)
	e.str("job_socket", o.JobSocket)
	return e.finish()
}

// DecodeOrder parses the output of Encode.
func DecodeOrder(b []byte) (Order, error) {
	fields, err := decode(b)
	if err != nil {
		return Order{}, err
	}
	var o Order
	var d numbers
	var user User
	for _, f := range fields {
		switch f.key {
		case "job":
			o.Job = f.value
		case "fence":
			o.Fence = d.num(f)
		case "rank":
			o.Rank = int(d.num(f))
		case "attempt":
			o.Attempt = int(d.num(f))
		case "arg":
			o.Argv = append(o.Argv, f.value)
		case "env":
			o.Env = append(o.Env, f.value)
		case "dir":
			o.Dir = f.value
		case "uid":
			user.UID, o.User = d.id(f), &user
		case "gid":
			user.GID, o.User = d.id(f), &user
		case "group":
			user.Groups = append(user.Groups, d.id(f))
		case "lost_after":
			o.LostAfter = time.Duration(d.num(f))
		case "max_runtime":
			o.MaxRuntime = time.Duration(d.num(f))
		case "grace":
			o.Grace = time.Duration(d.num(f))
		case "renewed_at":
			o.RenewedAt = BootTime(d.num(f))
		case "log_limit":
			o.LogLimit = d.num(f)
		case "cgroup":
			o.Cgroup = f.value
		case "slot":
			o.InSlot = true
		case "stdin":
			o.Stdin = true
		case "terminal":
			o.Terminal = true
		case "mark":
			o.Mark = f.value
		case "progress":
			o.Progress = f.value
		case "checkpoint":
			o.Checkpoint = f.value
		case "job_socket":
			o.JobSocket = f.value
		default:
			o.decodeSandbox(f, &d)
		}
	}
	if d.bad {
		return Order{}, ErrTorn
	}
	return o, o.Check()
}

// Encode returns the content of ResultFile.
func (r *Result) Encode() []byte {
	e := newEncoder()
	reason := r.Reason
	if len(reason) > MaxReason {
		reason = strings.ToValidUTF8(reason[:MaxReason], "")
	}
	e.str("outcome", string(r.Outcome))
	e.str("reason", reason)
	e.num("exit_code", int64(r.ExitCode))
	e.num("signal", int64(r.Signal))
	if !r.Started.IsZero() {
		e.num("started", r.Started.UnixNano())
	}
	e.num("ended", r.Ended.UnixNano())
	e.num("cpu", int64(r.CPU))
	e.num("peak_memory", r.PeakMemory)
	e.str("contained", strconv.FormatBool(r.Contained))
	e.num("log_dropped", r.LogDropped)
	return e.finish()
}

// DecodeResult parses the output of Result.Encode.
func DecodeResult(b []byte) (Result, error) {
	fields, err := decode(b)
	if err != nil {
		return Result{}, err
	}
	var r Result
	var d numbers
	for _, f := range fields {
		switch f.key {
		case "outcome":
			r.Outcome = Outcome(f.value)
		case "reason":
			r.Reason = f.value
		case "exit_code":
			r.ExitCode = int(d.num(f))
		case "signal":
			r.Signal = syscall.Signal(d.num(f))
		case "started":
			r.Started = time.Unix(0, d.num(f))
		case "ended":
			r.Ended = time.Unix(0, d.num(f))
		case "cpu":
			r.CPU = time.Duration(d.num(f))
		case "peak_memory":
			r.PeakMemory = d.num(f)
		case "contained":
			r.Contained = f.value == "true"
		case "log_dropped":
			r.LogDropped = d.num(f)
		}
	}
	if d.bad || r.Outcome == "" {
		return Result{}, ErrTorn
	}
	return r, nil
}

// The type `numbers` parses numbers and remembers whether any of them was invalid.
type numbers struct{ bad bool }

func (n *numbers) num(f field) int64 {
	v, err := strconv.ParseInt(f.value, 10, 64)
	if err != nil {
		n.bad = true
	}
	return v
}

// The method `id` parses a user or group ID. An ID that is too large must not wrap around to 0, which is
// root.
func (n *numbers) id(f field) uint32 {
	v := n.num(f)
	if v != int64(uint32(v)) {
		n.bad = true
	}
	return uint32(v)
}

// ReadAll reads a file of up to MaxFile bytes.
func ReadAll(f *os.File) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		err = ErrTorn
	}
	return b, err
}
