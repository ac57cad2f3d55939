//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// secretsEnv is the variable that names the directory with the job's secret files.
const secretsEnv = "ARES_SECRETS_DIR="

// readSecrets reads the job's secrets from standard input, which is a pipe from the agent. Without secrets, standard
// input is /dev/null.
func readSecrets(o *seat.Order) error {
	if o.SecretCount == 0 {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(os.Stdin, seat.MaxFile))
	if err == nil {
		o.Secrets, err = seat.DecodeSecrets(b, o.SecretCount)
	}
	clear(b)
	return err
}

// furnishSecrets writes the job's secret files. Only the job's user can read them.
func furnishSecrets(o *seat.Order) error {
	if !hasSecretFiles(o) {
		return nil
	}
	uid, gid := -1, -1 // unchanged
	if o.User != nil {
		uid, gid = int(o.User.UID), int(o.User.GID)
	}
	if err := os.Mkdir(o.SecretsDir, 0o700); err != nil {
		return err
	}
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	if o.Sandbox.Private {
		// This file system is in memory and only in the job's mount namespace. It ends with the job's last process,
		// also if the supervisor is killed.
		options := "mode=0500,size=2m,nr_inodes=64,uid=" + strconv.Itoa(uid) + ",gid=" + strconv.Itoa(gid)
		if err := syscall.Mount("ares-secrets", o.SecretsDir, "tmpfs", flags, options); err != nil {
			return errors.New("mount " + o.SecretsDir + ": " + err.Error())
		}
	}
	for _, x := range o.Secrets {
		if x.File == "" {
			continue
		}
		path := o.SecretsDir + "/" + x.File
		if err := os.WriteFile(path, []byte(x.Value), 0o400); err != nil {
			return err
		}
		if err := os.Chown(path, uid, gid); err != nil {
			return err
		}
	}
	switch {
	case o.Sandbox.Private:
		if err := syscall.Mount("", o.SecretsDir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY|flags, ""); err != nil {
			return errors.New("make " + o.SecretsDir + " read-only: " + err.Error())
		}
	case o.User != nil:
		// The directory stays root's, so that the job cannot put anything there that would have to be removed.
		return errors.Join(os.Chown(o.SecretsDir, -1, gid), os.Chmod(o.SecretsDir, 0o750))
	}
	return nil
}

func hasSecretFiles(o *seat.Order) bool {
	for _, x := range o.Secrets {
		if x.File != "" {
			return true
		}
	}
	return false
}

// withSecrets adds the secrets to the job's environment. They replace variables with the same name.
func withSecrets(env []string, o *seat.Order) []string {
	for _, x := range o.Secrets {
		if x.Env == "" {
			continue
		}
		kept := env[:0:0]
		for _, v := range env {
			if !strings.HasPrefix(v, x.Env+"=") {
				kept = append(kept, v)
			}
		}
		env = append(kept, x.Env+"="+x.Value)
	}
	if hasSecretFiles(o) {
		env = append(env, secretsEnv+o.SecretsDir)
	}
	return env
}

// removeSecrets removes the secret files after the job's processes are dead. If the supervisor is killed before this, the
// agent removes them.
func removeSecrets(o *seat.Order) {
	if o.SecretCount > 0 && !o.Sandbox.Private {
		_ = os.RemoveAll(o.SecretsDir)
	}
}
