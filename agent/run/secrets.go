//go:build linux

package run

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// memoryDir is a directory in memory on most machines. Secret files of jobs without a sandbox are there, so that they are
// never written to a disk.
const memoryDir = "/dev/shm"

// The function `secretsPipe` returns a pipe for the standard input of a supervisor, and a function that sends the secrets
// through it. The caller must call that function exactly once. Its argument says whether there is a supervisor. Both
// values do nothing for a job without secrets. A pipe keeps the values off the disk.
func secretsPipe(secrets []Secret) (read *os.File, pass func(ctx context.Context, launched bool) error, err error) {
	if len(secrets) == 0 {
		return nil, func(context.Context, bool) error { return nil }, nil
	}
	text := seat.EncodeSecrets(secrets)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return read, func(ctx context.Context, launched bool) error {
		defer clear(text)
		err := read.Close() // the supervisor has its own copy
		if launched {
			// The pipe holds less than the text may have, so this waits for the supervisor. If the supervisor ends, the
			// write fails.
			stop := context.AfterFunc(ctx, func() { _ = write.SetWriteDeadline(time.Unix(1, 0)) })
			defer stop()
			_, failed := write.Write(text)
			err = errors.Join(err, failed)
		}
		return errors.Join(err, write.Close())
	}, nil
}

// ErrNoMemory means that this machine has no file system in memory for the secret files of a job without a sandbox. The
// files are not written to a disk instead: after a crash of the machine, nobody would remove them from it.
var ErrNoMemory = errors.New("this node has no file system in memory for secret files: mount a tmpfs at " + memoryDir + ", or use environment variables")

// CheckSecrets returns ErrNoMemory if the spec has secret files that this machine cannot keep off its disks.
func (r *Runner) CheckSecrets(spec *Spec) error {
	if hasFiles(spec.Secrets) && !spec.Sandbox.Private && !isInMemory(r.memory) {
		return ErrNoMemory
	}
	return nil
}

func hasFiles(list []Secret) bool {
	return slices.ContainsFunc(list, func(x Secret) bool { return x.File != "" })
}

func isInMemory(dir string) bool {
	const tmpfsMagic, ramfsMagic = 0x01021994, 0x858458f6
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && (int64(st.Type) == tmpfsMagic || int64(st.Type) == ramfsMagic)
}

// secretsDir returns a new directory for the secret files of a job without a sandbox. A job in a sandbox has a file system
// of its own in memory, which ends with the job's last process. The name ends with a random text. Otherwise another user
// of the machine could create the directory first, and the job could not start.
func (r *Runner) secretsDir(key Key) string { return r.secretsPrefix(key) + rand.Text() }

// The name contains the runner's random ID, so that two agents on one machine do not share it.
func (r *Runner) secretsPrefix(key Key) string {
	return filepath.Join(r.memory, "ares-secrets-"+r.id+"-"+key.String()+"-")
}

// removeSecrets removes the secret files of a job whose processes are dead. Usually the supervisor has done this. If the
// supervisor was killed, this is the only removal. An error does not keep the seat, because then a job could block its
// node; Forget tries again. Directories of other users are left alone: removing them could take very long.
// With `none`, the seat's spec says that it has no secrets. Then only the names of earlier versions, whose specs do not say this, are looked for.
func (r *Runner) removeSecrets(key Key, none bool) {
	var dirs []string
	if !none {
		dirs, _ = filepath.Glob(r.secretsPrefix(key) + "*")
	}
	dirs = append(dirs, strings.TrimSuffix(r.secretsPrefix(key), "-")) // the name in an earlier version
	for _, dir := range dirs {
		if st, err := os.Lstat(dir); err == nil && st.IsDir() && st.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {
			_ = os.RemoveAll(dir)
		}
	}
	old := filepath.Join(r.dir, seatPath(key, "secrets")) // an earlier version may have written it
	if _, err := os.Lstat(old); err == nil {
		_ = os.RemoveAll(old)
	}
}
