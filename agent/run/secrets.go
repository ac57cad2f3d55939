//go:build linux

package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

// secretsDir returns the directory for the secret files of a job without a sandbox. A job in a sandbox has a file system
// of its own in memory, which ends with the job's last process.
func (r *Runner) secretsDir(key Key) string {
	const tmpfsMagic = 0x01021994
	var st syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &st); err == nil && int64(st.Type) == tmpfsMagic {
		return r.inMemory(key)
	}
	return r.onDisk(key)
}

// The name contains the runner's random ID, so that two agents on one machine do not share it.
func (r *Runner) inMemory(key Key) string {
	return filepath.Join(memoryDir, "ares-secrets-"+r.id+"-"+key.String())
}

func (r *Runner) onDisk(key Key) string {
	return filepath.Join(r.dir, seatPath(key, "secrets"))
}

// removeSecrets removes the secret files of a job whose processes are dead. Usually the supervisor has done this. If the
// supervisor was killed, this is the only removal. An error does not keep the seat, because then a job could block its
// node; Forget tries again.
func (r *Runner) removeSecrets(key Key) {
	_ = os.RemoveAll(r.inMemory(key))
	_ = os.RemoveAll(r.onDisk(key))
}
