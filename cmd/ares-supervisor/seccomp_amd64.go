//go:build linux

package main

// These are the numbers of the system calls that the filter knows, for this architecture. Package syscall lacks the newer ones.
const (
	auditArch      = 0xc000003e // AUDIT_ARCH of this architecture
	sysClone       = 56
	sysClone3      = 435
	sysUnshare     = 272
	sysPersonality = 135
	sysPtrace      = 101
	sysSocket      = 41
	sysSetns       = 308
	sysSeccomp     = 317
)

// deniedCalls lists the system calls that no job may make.
var deniedCalls = []uint32{
	163, // acct
	248, // add_key
	321, // bpf
	227, // clock_settime
	174, // create_module
	176, // delete_module
	300, // fanotify_init
	313, // finit_module
	177, // get_kernel_syms
	175, // init_module
	426, // io_uring_enter
	427, // io_uring_register
	425, // io_uring_setup
	173, // ioperm
	172, // iopl
	320, // kexec_file_load
	246, // kexec_load
	250, // keyctl
	212, // lookup_dcookie
	180, // nfsservctl
	304, // open_by_handle_at
	298, // perf_event_open
	178, // query_module
	179, // quotactl
	443, // quotactl_fd
	169, // reboot
	249, // request_key
	171, // setdomainname
	170, // sethostname
	164, // settimeofday
	168, // swapoff
	167, // swapon
	139, // sysfs
	103, // syslog
	156, // _sysctl
	134, // uselib
	323, // userfaultfd
	136, // ustat
	153, // vhangup
}

// deniedNamespaceCalls lists the system calls that are of use only in a user namespace of the job.
var deniedNamespaceCalls = []uint32{
	161, // chroot
	431, // fsconfig
	432, // fsmount
	430, // fsopen
	433, // fspick
	165, // mount
	442, // mount_setattr
	429, // move_mount
	428, // open_tree
	467, // open_tree_attr
	155, // pivot_root
	308, // setns
	166, // umount2
}
