//go:build linux

package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A job without an image sees the machine's /dev. What covers the files of other jobs' GPUs there only hides these paths. The filter is a
// program (eBPF) at the job's cgroup that the kernel asks at each opening of a device, whatever the path of its file is. The processes of
// the job and of its sessions cannot leave the cgroup. For a job in an image, the OCI runtime makes such a filter.

// A deviceRule allows a job to open character devices: one, or all of the majors from first to last.
type deviceRule struct {
	first, last uint32 // majors
	minor       uint32
	anyMinor    bool
}

// basicDevices are the devices that every program may need: null, zero, full, random, urandom, tty, ptmx and the terminals.
var basicDevices = []deviceRule{
	{first: 1, last: 1, minor: 3}, {first: 1, last: 1, minor: 5}, {first: 1, last: 1, minor: 7}, {first: 1, last: 1, minor: 8}, {first: 1, last: 1, minor: 9},
	{first: 5, last: 5, minor: 0}, {first: 5, last: 5, minor: 2}, {first: 136, last: 143, anyMinor: true},
}

// maxDeviceRules limits the length of the program.
const maxDeviceRules = 2000

// deviceRules returns the rules for basicDevices and for the files that match the patterns, without those of the hidden files. A hidden
// device stays closed if another file for it matches a pattern, because the rules are about the device.
func deviceRules(patterns, hidden []string) ([]deviceRule, error) {
	closed := map[deviceRule]bool{}
	for _, path := range hidden {
		switch r, err := deviceRuleOf(path); {
		case err == nil:
			closed[r] = true
		case !errors.Is(err, errNoDevice) && !errors.Is(err, syscall.ENOENT): // its number is unknown, so the filter might allow it
			return nil, err
		}
	}
	rules := slices.Clone(basicDevices)
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("isolation.devices: %q: %w", pattern, err)
		}
		for _, path := range files {
			r, err := deviceRuleOf(path)
			if err == nil && !closed[r] && !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	if len(rules) > maxDeviceRules {
		return nil, fmt.Errorf("jobs can be allowed to open at most %d devices, and %d match isolation.devices: use narrower patterns", maxDeviceRules, len(rules))
	}
	return rules, nil
}

var errNoDevice = errors.New("it is not a character device")

// deviceRuleOf returns the rule that allows what a device file leads to.
func deviceRuleOf(path string) (deviceRule, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return deviceRule{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFCHR {
		return deviceRule{}, &os.PathError{Op: "filter", Path: path, Err: errNoDevice}
	}
	major := unix.Major(st.Rdev)
	return deviceRule{first: major, last: major, minor: unix.Minor(st.Rdev)}, nil
}

// bpfInstruction is the kernel's struct bpf_insn on a little-endian machine, which all machines are that Ares supports.
type bpfInstruction struct {
	code      uint8
	registers uint8 // destination in the lower half, source in the upper half
	offset    int16
	constant  int32
}

// deviceProgram returns the program that allows what the rules allow. It denies block devices, and the creation of device files.
func deviceProgram(rules []deviceRule) []bpfInstruction {
	const (
		load       = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W
		move       = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_X
		set        = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K
		and        = unix.BPF_ALU64 | unix.BPF_AND | unix.BPF_K
		unequal    = unix.BPF_JMP | unix.BPF_JNE | unix.BPF_K
		equal      = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		less       = unix.BPF_JMP | unix.BPF_JLT | unix.BPF_K
		greater    = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
		end        = unix.BPF_JMP | unix.BPF_EXIT
		character  = 2       // BPF_DEVCG_DEV_CHAR, in the lower 16 bits of the first word
		mknod      = 1 << 16 // BPF_DEVCG_ACC_MKNOD
		answer     = 0       // register of the result: 1 allows, 0 denies
		input      = 1       // register with the address of struct bpf_cgroup_dev_ctx: the access, the major, the minor
		access     = 2
		scratch    = 3
		major      = 4
		minor      = 5
		ofAccess   = 0
		ofMajor    = 4
		ofMinor    = 8
		sourceBits = 4
	)
	verdict := func(n int32) []bpfInstruction { return []bpfInstruction{{set, answer, 0, n}, {end, 0, 0, 0}} }
	program := []bpfInstruction{
		{load, access | input<<sourceBits, ofAccess, 0},
		{load, major | input<<sourceBits, ofMajor, 0},
		{load, minor | input<<sourceBits, ofMinor, 0},
		{move, scratch | access<<sourceBits, 0, 0},
		{and, scratch, 0, mknod},
		{equal, scratch, 2, 0},
	}
	program = append(program, verdict(0)...)
	program = append(program, bpfInstruction{and, access, 0, 0xffff}, bpfInstruction{equal, access, 2, character})
	program = append(program, verdict(0)...)
	for _, r := range rules {
		switch {
		case r.anyMinor:
			program = append(program, bpfInstruction{less, major, 3, int32(r.first)}, bpfInstruction{greater, major, 2, int32(r.last)})
		default:
			program = append(program, bpfInstruction{unequal, major, 3, int32(r.first)}, bpfInstruction{unequal, minor, 2, int32(r.minor)})
		}
		program = append(program, verdict(1)...)
	}
	return append(program, verdict(0)...)
}

// filterDevices makes the kernel deny the processes of a cgroup all devices but those of the rules. The filter ends with the cgroup.
func filterDevices(group string, rules []deviceRule) error {
	dir, err := unix.Open(group, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: group, Err: err}
	}
	defer unix.Close(dir)
	program, err := loadDeviceProgram(deviceProgram(rules))
	if err != nil {
		return err
	}
	defer unix.Close(program) // the cgroup keeps it
	attach := struct{ group, program, kind, flags uint32 }{uint32(dir), uint32(program), unix.BPF_CGROUP_DEVICE, unix.BPF_F_ALLOW_MULTI}
	if _, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attach), unsafe.Sizeof(attach)); err != nil {
		return fmt.Errorf("attach a filter of devices to the cgroup %s: %w", group, err)
	}
	return nil
}

func loadDeviceProgram(program []bpfInstruction) (int, error) {
	license := []byte("Apache-2.0\x00")
	var pins runtime.Pinner // the kernel gets the addresses as numbers
	defer pins.Unpin()
	pins.Pin(&program[0])
	pins.Pin(&license[0])
	load := struct { // the beginning of the kernel's union bpf_attr
		kind, count       uint32
		program, license  uint64
		logLevel, logSize uint32
		log               uint64
		version, flags    uint32
	}{kind: unix.BPF_PROG_TYPE_CGROUP_DEVICE, count: uint32(len(program)), program: address(&program[0]), license: address(&license[0])}
	fd, err := bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&load), unsafe.Sizeof(load))
	if err != nil {
		return -1, fmt.Errorf("load a filter of devices (eBPF): %w", err)
	}
	return fd, nil
}

func address[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func bpf(command int, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EAGAIN, unix.EINTR: // a signal interrupted the verifier
		default:
			return -1, errno
		}
	}
}

// probeDevices tests the filter of devices, and returns the reason why it does not work, or "" if it works.
func (r *Runner) probeDevices() string {
	switch {
	case os.Geteuid() != 0:
		return "the agent is not root"
	case r.cgroup == "":
		return "jobs have no cgroups of version 2: " + r.why
	}
	trial := seat.Cgroup(filepath.Join(string(r.cgroup), "probe."+strconv.Itoa(os.Getpid())))
	err := os.MkdirAll(string(trial), 0o755)
	if err == nil {
		err = errors.Join(filterDevices(string(trial), basicDevices), trial.Remove())
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// filterDevicesOf gives a job its filter of devices, before the job's first process is in the cgroup.
func filterDevicesOf(o *seat.Order) error {
	if !o.Sandbox.FilterDevices || o.Container.Runtime != "" {
		return nil
	}
	rules, err := deviceRules(o.Sandbox.Devices, o.Sandbox.Hide)
	if err != nil {
		return err
	}
	return filterDevices(o.Cgroup+"/"+seat.JobGroup, rules)
}
