//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/binary"
	"testing"
)

// evaluate runs a filter as the kernel does, on a system call with the given arguments. So the tests can make calls that must never reach
// a kernel.
func evaluate(t *testing.T, program []bpfInstruction, arch, call uint32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte
	binary.NativeEndian.PutUint32(data[dataCall:], call)
	binary.NativeEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.NativeEndian.PutUint64(data[dataArg0+8*i:], a)
	}
	var loaded uint32
	for at := 0; at < len(program); at++ {
		in := program[at]
		var met bool
		switch in.code {
		case bpfLoad:
			loaded = binary.NativeEndian.Uint32(data[in.k:])
			continue
		case bpfReturn:
			return in.k
		case bpfEqual:
			met = loaded == in.k
		case bpfAtLeast:
			met = loaded >= in.k
		case bpfAnyBit:
			met = loaded&in.k != 0
		default:
			t.Fatalf("instruction %d: unknown code %#x", at, in.code)
		}
		if met {
			at += int(in.jt)
		} else {
			at += int(in.jf)
		}
	}
	t.Fatal("the filter does not return")
	return 0
}

// TestFilterProgram checks the answer of the filter for calls that could evade it.
func TestFilterProgram(t *testing.T) {
	const i386, arm, high = 0x40000003, 0x40000028, uint64(1) << 32
	for _, namespaces := range []bool{false, true} {
		p := filterProgram(namespaces)
		spaces := func(closed uint32) uint32 {
			if namespaces {
				return retAllow
			}
			return closed
		}
		for _, c := range []struct {
			name       string
			arch, call uint32
			args       []uint64
			want       uint32
		}{
			{"a call of i386 (int 0x80)", i386, 1, nil, retKill},
			{"a call of 32-bit arm", arm, 1, nil, retKill},
			{"an x32 call", auditArch, x32Bit | sysClone, nil, retMissing},
			{"the x32 number of ptrace", auditArch, x32Bit | 521, nil, retMissing},
			{"a negative number", auditArch, 0xffffffff, nil, retMissing},
			{"read", auditArch, 0, nil, retAllow},
			{"clone3", auditArch, sysClone3, nil, spaces(retMissing)},
			{"clone of a thread", auditArch, sysClone, []uint64{0x3d0f00}, retAllow},
			{"clone with a user namespace", auditArch, sysClone, []uint64{0x10000000 | 17}, spaces(retDeny)},
			{"clone with a mount namespace and high bits", auditArch, sysClone, []uint64{high | 0x20000}, spaces(retDeny)},
			{"clone with a time namespace's bit", auditArch, sysClone, []uint64{0x80}, retAllow}, // a part of the exit signal
			{"unshare of files", auditArch, sysUnshare, []uint64{0x400}, retAllow},
			{"unshare of users", auditArch, sysUnshare, []uint64{0x10000000}, spaces(retDeny)},
			{"unshare of time", auditArch, sysUnshare, []uint64{0x80}, spaces(retDeny)},
			{"AF_VSOCK", auditArch, sysSocket, []uint64{familyVsock}, retDeny},
			{"AF_VSOCK with high bits", auditArch, sysSocket, []uint64{high | familyVsock}, retDeny},
			{"AF_UNIX", auditArch, sysSocket, []uint64{1}, retAllow},
			{"personality without random addresses", auditArch, sysPersonality, []uint64{0x40000}, retDeny},
			{"personality", auditArch, sysPersonality, []uint64{0xffffffff}, retAllow},
			{"PTRACE_TRACEME", auditArch, sysPtrace, []uint64{0, 0, 0, ptraceTraceExit}, retAllow},
			{"PTRACE_CONT with a signal", auditArch, sysPtrace, []uint64{7, 1, 0, ptraceTraceExit}, retAllow},
			{"PTRACE_SETOPTIONS", auditArch, sysPtrace, []uint64{ptraceSetOptions, 1, 0, 0x10001f}, retAllow},
			{"PTRACE_SETOPTIONS, exit", auditArch, sysPtrace, []uint64{ptraceSetOptions, 1, 0, ptraceTraceExit}, retDeny},
			{"PTRACE_SETOPTIONS, all", auditArch, sysPtrace, []uint64{ptraceSetOptions, 1, ^uint64(0), ^uint64(0)}, retDeny},
			{"PTRACE_SETOPTIONS with high bits, exit", auditArch, sysPtrace, []uint64{high | ptraceSetOptions, 1, 0, ptraceTraceExit}, retDeny},
			{"PTRACE_OLDSETOPTIONS, exit", auditArch, sysPtrace, []uint64{ptraceOldSetOptions, 1, 0, ptraceTraceExit}, retDeny},
			{"PTRACE_SEIZE", auditArch, sysPtrace, []uint64{ptraceSeize, 1, 0, 0x10001f}, retAllow},
			{"PTRACE_SEIZE, exit", auditArch, sysPtrace, []uint64{ptraceSeize, 1, 0, high | ptraceTraceExit}, retDeny},
		} {
			if got := evaluate(t, p, c.arch, c.call, c.args...); got != c.want {
				t.Errorf("namespaces %v, %s: %#x, want %#x", namespaces, c.name, got, c.want)
			}
		}
		for _, call := range deniedCalls {
			if got := evaluate(t, p, auditArch, call); got != retDeny {
				t.Errorf("namespaces %v, call %d: %#x", namespaces, call, got)
			}
		}
		for _, call := range deniedNamespaceCalls {
			if got := evaluate(t, p, auditArch, call); got != spaces(retDeny) {
				t.Errorf("namespaces %v, call %d: %#x", namespaces, call, got)
			}
		}
	}
}

// TestFilterDeniesItsListAndNothingElse compares the filter with its lists, for every number of a system call. The calls with a rule for
// their arguments are left out.
func TestFilterDeniesItsListAndNothingElse(t *testing.T) {
	ruled := map[uint32]bool{sysClone: true, sysClone3: true, sysUnshare: true, sysSocket: true, sysPtrace: true, sysPersonality: true}
	for _, namespaces := range []bool{false, true} {
		p, denied := filterProgram(namespaces), map[uint32]bool{}
		for _, call := range deniedCalls {
			denied[call] = true
		}
		for _, call := range deniedNamespaceCalls {
			denied[call] = denied[call] || !namespaces
		}
		for call := range uint32(1000) {
			want := uint32(retAllow)
			if denied[call] {
				want = retDeny
			}
			if got := evaluate(t, p, auditArch, call); got != want && !ruled[call] {
				t.Errorf("namespaces %t: call %d is answered with %#x, want %#x", namespaces, call, got, want)
			}
		}
	}
}
