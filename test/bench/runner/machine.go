package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine describes this machine in one line.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := uint64(0)
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		memory = info.Totalram * uint64(info.Unit) >> 30
	}
	var name unix.Utsname
	kernel := "Linux"
	if unix.Uname(&name) == nil {
		kernel += " " + unix.ByteSliceToString(name.Release[:])
	}
	return fmt.Sprintf("%d cores (%s), %d GiB of memory, %s, %s.", runtime.NumCPU(), model, memory, kernel, runtime.Version())
}

// commit names the commit of the checkout. Changes outside docs count as uncommitted; this program itself writes to docs.
func commit(ctx context.Context, root string) (string, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	id, err := git("rev-parse", "--short=8", "HEAD")
	if err != nil {
		return "", fmt.Errorf("git rev-parse: %w", err)
	}
	changed, err := git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
	if err == nil && changed != "" {
		id += " with uncommitted changes"
	}
	return id, err
}

// load returns the load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(text))[0]
}
