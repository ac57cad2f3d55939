//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The node counts starts that fail because of the machine, and takes itself out of service after a few. So what an image or the size of a job
// does to the runtime must be the job's own failure: otherwise a user could take one node after another out of service.

// faultBefore returns what in the image the runtime, which is root, must not follow, or "". The image has no mounts yet.
func faultBefore() string {
	root, err := openat2(atFDCWD, seat.RootDir, syscall.O_DIRECTORY, 0)
	if err != nil {
		return "" // the runtime says what is wrong
	}
	defer syscall.Close(root)
	// The runtime reads these inside of the container, and would wait forever for a pipe or a terminal.
	for _, path := range [...]string{"/etc/passwd", "/etc/group"} {
		if kind, err := placeOf(root, path); err != nil || kind != syscall.S_IFREG && kind != 0 {
			return "the image's " + path + " is not a file of the image: build the image again"
		}
	}
	// The runtime creates these, and what is mounted in them later can be shared with other jobs, who could change the path meanwhile.
	points, _ := seat.ReadFile(seat.PointsFile) // missing without devices
	for path := range strings.SplitSeq(string(points), "\n") {
		if isCovered(path) { // the node's specification says so, and no link of the image
			continue
		}
		kind := uint32(0)
		for at := path; kind == 0 && err == nil && len(at) > 1; at = at[:max(strings.LastIndexByte(at, '/'), 0)] {
			kind, err = placeOf(root, at)
		}
		if err != nil {
			return "the image has a link on the path " + path + ", where the node puts a file for the job's devices: build the image without it (" + err.Error() + ")"
		}
	}
	return ""
}

var errPlace = errors.New("it leads out of the image or nowhere")

// placeOf returns the kind of file that a path of the image leads to, or 0 if there is none. It returns an error if the path leads to, or
// might lead to, a place at which something else is mounted later.
func placeOf(root int, path string) (kind uint32, err error) {
	const resolve = resolveInRoot | resolveNoMagic
	fd, err := openat2(root, path, 0, resolve)
	if err == syscall.ENOENT {
		if fd, err = openat2(root, path, syscall.O_NOFOLLOW, resolve); err == syscall.ENOENT {
			return 0, nil
		}
		closeFD(&fd)
		return 0, errPlace
	}
	if err != nil {
		return 0, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err = syscall.Fstat(fd, &st); err != nil {
		return 0, err
	}
	there, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	_, inside, ok := strings.Cut(there, "/"+seat.RootDir)
	if err != nil || !ok || isCovered(inside) {
		return 0, errPlace
	}
	return st.Mode & syscall.S_IFMT, nil
}

// isCovered reports whether something else than the image is at a path of the container.
func isCovered(path string) bool {
	for _, dir := range [...]string{"/proc/", "/sys/", "/dev/", "/tmp/", seat.SandboxDir + "/"} {
		if strings.HasPrefix(path+"/", dir) {
			return true
		}
	}
	return false
}

// The method `blame` says whose fault it is that a container could not be made.
func (s *supervisor) blame(what string, err error) birth {
	switch group := s.order.MemoryGroup; {
	case errors.Is(err, errLate):
	case group != "" && seat.OOMKills(group) > 0:
		return birth{outcome: seat.OutOfMemory, reason: s.outOfMemory() + ", which is too little for the start of a container: raise memory_mb"}
	default:
		if why := faultOfImage(err.Error()); why != "" {
			return failed(why)
		}
	}
	return unable(what, err)
}

// faultOfImage returns why the image is at fault for what the runtime says, or "". It knows what runc says. Everything else counts as the
// machine's fault, and the agent finds out whether other containers work there.
func faultOfImage(complaint string) string {
	if strings.Contains(complaint, "unable to find user") || strings.Contains(complaint, "unable to find group") {
		return "the image's /etc/passwd or /etc/group cannot be read: build the image again (" + complaint + ")"
	}
	_, point, found := strings.Cut(complaint, ` to rootfs at "`)
	point, why, _ := strings.Cut(point, `"`)
	if !found {
		return ""
	}
	for _, errno := range [...]syscall.Errno{syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG} {
		if strings.Contains(why, errno.Error()) {
			return "the image has a directory or a link that leads nowhere at " + point + ", where the node puts a file for the job's devices: build the image without it (" + errno.Error() + ")"
		}
	}
	return ""
}
