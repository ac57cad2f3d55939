//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A job's own file system is an ext4 file system in a file, which the supervisor mounts in the job's mount namespace only. The mount and its
// loop device therefore end with the job's last process, even if the agent or the machine fails in between, and no agent has to find them
// again. The file is in the job's working directory, so it is deleted with that directory.

// mkfs formats the file. It belongs to the package e2fsprogs. Tests change it.
var mkfs = "mkfs.ext4"

// formatTime is the maximum time of formatting. Only a few blocks are written, so only a disk that hangs takes as long.
const formatTime = time.Minute

// loopControl is the device that gives out loop devices. Tests change it.
var loopControl = "/dev/loop-control"

// noDisk returns the reason why jobs cannot have a file system of their own, or "" if they can.
func noDisk() string {
	if _, err := findMkfs(); err != nil {
		return err.Error()
	}
	if _, err := os.Stat(loopControl); err != nil {
		return "this machine has no loop devices: " + err.Error()
	}
	return ""
}

// findMkfs finds the program that formats a file. A service may have a PATH without the directories for administrators.
func findMkfs() (string, error) {
	for _, name := range []string{mkfs, filepath.Join("/usr/sbin", mkfs), filepath.Join("/sbin", mkfs)} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New(mkfs + " was not found: install e2fsprogs")
}

// makeDisk creates the file with the job's own file system. The file has holes, so it takes only as much of the disk as the job uses.
func makeDisk(ctx context.Context, s *Sandbox) (err error) {
	path := s.Disk()
	if path == "" {
		return nil
	}
	if why := noDisk(); why != "" {
		return errors.New("the job cannot have a file system of its own (isolation.disk_mb): " + why)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the job's file system: %w", err)
	}
	if err = errors.Join(f.Truncate(s.DiskMB<<20), f.Close()); err != nil {
		return fmt.Errorf("create the job's file system: %w", err)
	}
	program, err := findMkfs()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, formatTime)
	defer cancel()
	// There is no journal, because the file system is never mounted again. No blocks are kept for root. The records of files are not
	// zeroed, because a new file consists of zeros.
	c := exec.CommandContext(ctx, program, "-q", "-F", "-b", "4096", "-m", "0", "-N", strconv.FormatInt(seat.DiskFiles(s.DiskMB), 10),
		"-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", path)
	c.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("format the job's file system with %d MB: %w: %s", s.DiskMB, err, clean(strings.TrimSpace(string(out)), 300))
	}
	return nil
}
