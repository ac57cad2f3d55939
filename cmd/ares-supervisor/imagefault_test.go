//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// What runc says about a container that it could not make is the image's fault, the job's, or the machine's.
func TestBlame(t *testing.T) {
	full, calm := t.TempDir(), t.TempDir()
	for dir, events := range map[string]string{full: "low 0\noom_kill 1\n", calm: "low 0\noom_kill 0\n"} {
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const begin = "runc create: runc create failed: unable to start container process: "
	for name, c := range map[string]struct {
		group string
		err   error
		want  seat.Outcome
		say   string
	}{
		"directory": {calm, errors.New(begin + `error mounting "/host" to rootfs at "/opt/lib": mount /host:/opt/lib (via /proc/self/fd/8), flags: 0x1001: not a directory`), seat.SpawnError, "at /opt/lib"},
		"loop":      {calm, errors.New(begin + `error mounting "/host" to rootfs at "/opt/lib": SecureJoin /x/rootfs/driver/: too many levels of symbolic links`), seat.SpawnError, "at /opt/lib"},
		"user":      {calm, errors.New(begin + "unable to setup user: unable to find user 1000: bufio.Scanner: token too long"), seat.SpawnError, "/etc/passwd"},
		"memory":    {full, errors.New(begin + "container init was OOM-killed (memory limit too low?)"), seat.OutOfMemory, "limit 2 MB, which is too little"},
		"missing":   {calm, errors.New(begin + `error mounting "/host" to rootfs at "/opt/lib": stat /host: no such file or directory`), seat.Lost, "stat /host"},
		"hook":      {calm, errors.New(begin + "error running hook #0: exit status 1: not a directory"), seat.Lost, "hook"},
		"late":      {full, errLate, seat.Lost, errLate.Error()},
	} {
		s := &supervisor{order: seat.Order{MemoryGroup: c.group}}
		s.order.Limits.MemoryMB = 2
		if b := s.blame("create the container", c.err); b.outcome != c.want || !strings.Contains(b.reason, c.say) || b.pid != 0 {
			t.Errorf("%s: %+v, want %s", name, b, c.want)
		}
	}
}

// A runtime that hangs is killed, because nobody could stop the job.
func TestRuntimeHangs(t *testing.T) {
	defer func(d time.Duration) { runtimeTime = d }(runtimeTime)
	runtimeTime = time.Millisecond
	script := filepath.Join(t.TempDir(), "runtime")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	s := &supervisor{}
	s.order.Container.Runtime = script
	if err := s.runtime(nil, "create"); err == nil || !strings.Contains(err.Error(), "create: it did not end within 1ms") {
		t.Error(err)
	}
}
