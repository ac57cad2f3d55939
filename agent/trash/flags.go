//go:build linux

package trash

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// The function `mutable` takes the flags that forbid changes (chattr +i and +a) from an entry and from its directory `dir`. Only root can set
// and remove them, so only a job that runs as root, without isolation, can leave such files. The function returns whether it removed a flag.
func mutable(dir int, name string) bool {
	changed := clearFlags(dir)
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return changed
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return changed // opening a device or a FIFO could have an effect, and these have no flags
	}
	// The descriptor names one file, so the entry cannot become another one in between.
	file, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return changed
	}
	defer func() { _ = unix.Close(file) }()
	return clearFlags(file) || changed
}

func clearFlags(fd int) bool {
	const forbidding = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND // the numbers are those of FS_IMMUTABLE_FL and FS_APPEND_FL
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&forbidding == 0 {
		return false
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags&^forbidding)) == nil
}
