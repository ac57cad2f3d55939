//go:build linux

package main

// These are the numbers of the system calls that the filter knows, for this architecture. Package syscall lacks the newer ones.
const (
	auditArch      = 0xc00000b7 // AUDIT_ARCH of this architecture
	sysClone       = 220
	sysClone3      = 435
	sysUnshare     = 97
	sysPersonality = 92
	sysPtrace      = 117
	sysSocket      = 198
	sysSetns       = 268
	sysSeccomp     = 277
)

// deniedCalls lists the system calls that no job may make.
var deniedCalls = []uint32{
	89,  // acct
	217, // add_key
	280, // bpf
	112, // clock_settime
	106, // delete_module
	262, // fanotify_init
	273, // finit_module
	105, // init_module
	426, // io_uring_enter
	427, // io_uring_register
	425, // io_uring_setup
	294, // kexec_file_load
	104, // kexec_load
	219, // keyctl
	18,  // lookup_dcookie
	42,  // nfsservctl
	265, // open_by_handle_at
	241, // perf_event_open
	60,  // quotactl
	443, // quotactl_fd
	142, // reboot
	218, // request_key
	162, // setdomainname
	161, // sethostname
	170, // settimeofday
	225, // swapoff
	224, // swapon
	116, // syslog
	282, // userfaultfd
	58,  // vhangup
}

// deniedNamespaceCalls lists the system calls that are of use only in a user namespace of the job.
var deniedNamespaceCalls = []uint32{
	51,  // chroot
	431, // fsconfig
	432, // fsmount
	430, // fsopen
	433, // fspick
	40,  // mount
	442, // mount_setattr
	429, // move_mount
	428, // open_tree
	467, // open_tree_attr
	41,  // pivot_root
	268, // setns
	39,  // umount2
}
