//go:build linux

package main

import (
	"strings"
	"syscall"
	"testing"
)

// TestEnteredRoot checks what a node says when a user namespace could not be entered. A program that did not begin at its other entry must
// never be taken for one that is in the namespace.
func TestEnteredRoot(t *testing.T) {
	defer func() { rootEntered = 1 }()
	if rootEntered != 1 {
		t.Fatalf("this program began as usual, and rootEntered is %d", rootEntered)
	}
	for result, want := range map[int]string{
		1: "did not begin", 0: "", -int(syscall.ENOSPC): "user.max_user_namespaces", -int(syscall.EPERM): "kernel.unprivileged_userns_clone", -int(syscall.EINVAL): "CONFIG_USER_NS",
	} {
		rootEntered = result
		if err := enteredRoot(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", result, err, want)
		}
	}
}

// TestProtectsUnreadable checks the setting with which a job could trace a command before the command has its filter.
func TestProtectsUnreadable(t *testing.T) {
	for setting, want := range map[string]bool{"0\n": true, "1\n": false, "2\n": true, "": false} {
		if protectsUnreadable(setting) != want {
			t.Errorf("%q: %t", setting, !want)
		}
	}
}
