package agent

import (
	"path/filepath"
	"slices"
	"syscall"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// The method `sandbox` returns the sandbox of a job that has its own user, as far as the machine supports it. The argument `ranks` is
// the number of the job's ranks on all nodes.
func (a *Agent) sandbox(job *ares.Spec, ranks int, scratch string, hide []string) run.Sandbox {
	i := a.isolation
	s := run.Sandbox{Seccomp: i.Seccomp && i.means.NoSeccomp == "", UserNamespaces: i.UserNamespaces, Scoped: ranks == 1, OwnNetwork: job.HasOwnNetwork()}
	if i.DeviceFilter && i.means.NoDevices == "" {
		s.FilterDevices, s.Devices = true, i.Devices
	}
	if s.OwnNetwork { // these reach other machines without a network interface
		hide = append(slices.Clone(hide), fabricDevices()...)
	}
	s.Hide = hide // for the device filter, also without mounts
	if !i.means.Sandbox {
		return s
	}
	s.Private, s.Scratch, s.WorkMB = true, scratch, int64(i.WorkMB)
	// A checkpoint must outlive the job's own /tmp. With a limit on /tmp, the job gets its own in any case, because the machine's
	// /tmp would evade the limit. A working directory in /tmp is in the job's own /tmp.
	s.OwnTmp = i.PrivateTmp && (i.TmpMB > 0 || i.DiskMB > 0 || !isUnderTmp(job.Checkpoint.Path))
	if s.OwnTmp {
		s.TmpMB = int64(i.TmpMB)
	}
	if s.TmpMB == 0 || s.WorkMB == 0 { // otherwise nothing of the job is on the disk
		s.DiskMB = int64(i.DiskMB)
	}
	s.ShmMB = i.shmMB(job.MemoryMB, machineMB())
	s.ShareShm = s.ShmMB > 0 && ranks > 1
	s.OwnUser = (i.mode == IsolateTenant || i.mode == IsolateJob) && i.named[job.Tenant] == nil
	return s
}

// fabricDevices returns the files of devices that send to other machines without a network interface: RDMA and its like. Such devices are
// shared between network namespaces.
func fabricDevices() []string {
	var files []string
	for _, pattern := range []string{"/dev/infiniband/*", "/dev/hfi1_*", "/dev/xpmem", "/dev/knem"} {
		found, _ := filepath.Glob(pattern) // the patterns are valid
		files = append(files, found...)
	}
	return files
}

// noNetwork returns the reason why jobs cannot have a network of their own on this machine, or "" if they can.
func (i *isolation) noNetwork() string {
	if i.mode == IsolateNone {
		return "jobs run as the agent's user"
	}
	return i.means.NoNetwork
}

// minDiskMB is the smallest file system of a rank. The file system itself needs a few MB.
const minDiskMB = 16

func (i *Isolation) checkDisk(p *ares.Problems) {
	if i.DiskMB != 0 && (i.DiskMB < minDiskMB || i.DiskMB > run.MaxDiskMB) {
		p.Add("isolation.disk_mb", "must be 0, or between %d and %d, got %d", minDiskMB, run.MaxDiskMB, i.DiskMB)
	}
	if i.DiskMB > 0 && !i.PrivateTmp {
		p.Add("isolation.disk_mb", "is used only with isolation.private_tmp")
	}
}

// noDisk returns the reason why isolation.disk_mb has no effect on this machine, or "" if it has one or is not set. If only the means for
// file systems are missing, ranks fail here and run on other nodes. Without users or mounts of their own, they run without this limit.
func (i *isolation) noDisk() string {
	switch {
	case i.DiskMB == 0:
		return ""
	case i.mode == IsolateNone:
		return "jobs run as the agent's user"
	case !i.means.Sandbox:
		return i.means.NoSandbox
	}
	return i.means.NoDisk
}

// shmMB returns the size of a job's /dev/shm, or 0 if the job uses the machine's.
func (i *isolation) shmMB(jobMB, machineMB int) int64 {
	mb := i.ShmMB
	if mb == 0 {
		mb = machineMB / 2
	}
	if i.ShmMB == 0 && jobMB > 0 {
		mb = min(mb, jobMB)
	}
	return int64(max(mb, 0))
}

// machineMB returns the real memory of this machine. The node's record may describe simulated devices and memory.
func machineMB() int {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return int(info.Totalram * uint64(info.Unit) >> 20)
}
