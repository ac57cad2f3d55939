package ares

import (
	"fmt"
	"path"
	"strings"
)

// Mount is a file or directory of the node that a job in an image sees. Its text form is SOURCE:TARGET or SOURCE:TARGET:ro.
type Mount struct {
	Source   string `json:"source,omitzero"` // absolute path on the node
	Target   string `json:"target,omitzero"` // absolute path in the image
	ReadOnly bool   `json:"read_only,omitzero"`
}

// These constants limit the mounts of a job.
const (
	MaxMounts     = 16
	maxMountBytes = 1024
)

// mountReadOnly ends the text form of a mount that the job cannot change.
const mountReadOnly = ":ro"

// String returns the text form, which policies read.
func (m Mount) String() string {
	text := m.Source + ":" + m.Target
	if m.ReadOnly {
		text += mountReadOnly
	}
	return text
}

// ParseMount parses the text form.
func ParseMount(text string) (Mount, error) {
	rest, readOnly := strings.CutSuffix(text, mountReadOnly)
	source, target, ok := strings.Cut(rest, ":")
	if !ok || source == "" || target == "" || strings.Contains(target, ":") {
		return Mount{}, fmt.Errorf("%q is not a mount: use SOURCE:TARGET, or SOURCE:TARGET:ro for a mount that the job cannot change", Clip(text))
	}
	return Mount{Source: source, Target: target, ReadOnly: readOnly}, nil
}

// madeByAres lists the directories of a container in which Ares mounts files of its own.
var madeByAres = []string{"/proc", "/sys", "/dev", "/run/ares", "/tmp"}

// checkMounts checks the form of the mounts. Each node decides what may be mounted there.
func (s Spec) checkMounts(p *Problems) {
	mounts := s.Placement().Mounts
	switch {
	case len(mounts) == 0:
		return
	case len(mounts) > MaxMounts:
		p.Add("mounts", "at most %d mounts, got %d: mount a directory above several of them", MaxMounts, len(mounts))
		return
	case s.Image == "":
		p.Add("mounts", "needs an image: without one, the job finds the files of the node at their own paths; set image, or leave mounts out")
	}
	type place struct{ path, field string }
	var taken []place
	if s.Checkpoint.Path != "" {
		taken = append(taken, place{path.Clean(s.Checkpoint.Path), "checkpoint.path"})
	}
	for i := range mounts {
		m, field := &mounts[i], fmt.Sprintf("mounts[%d]", i)
		checkMountPath(p, field+".source", m.Source, "node")
		checkMountPath(p, field+".target", m.Target, "image")
		for _, dir := range madeByAres {
			if isAtOrBelow(m.Target, dir) || isAtOrBelow(dir, m.Target) {
				p.Add(field+".target", "%q is or contains %s, which Ares makes for the job: choose another path", Clip(m.Target), dir)
				break
			}
		}
		for _, t := range taken {
			if isAtOrBelow(m.Target, t.path) || isAtOrBelow(t.path, m.Target) {
				p.Add(field+".target", "%q and %s %q cover each other: choose another path", Clip(m.Target), t.field, Clip(t.path))
				break
			}
		}
		taken = append(taken, place{m.Target, field + ".target"})
	}
}

// checkCheckpointMount checks checkpoint.path of a job in an image, which sees this directory of the node at the same path. Only /tmp and
// /dev/shm, which belong to the job, may contain it.
func (s Spec) checkCheckpointMount(p *Problems) {
	dir := s.Checkpoint.Path
	if s.Image == "" || dir == "" {
		return
	}
	if dir = strings.TrimSuffix(dir, "/"); !strings.HasPrefix(dir, "/") || path.Clean(dir) != dir {
		p.Add("checkpoint.path", `%q must be an absolute path without ".." and double slashes: a job in an image sees this directory of the node`, Clip(s.Checkpoint.Path))
		return
	}
	if isAtOrBelow(dir, "/tmp") || isAtOrBelow(dir, "/dev/shm") {
		return
	}
	for _, made := range madeByAres {
		if isAtOrBelow(dir, made) || isAtOrBelow(made, dir) {
			p.Add("checkpoint.path", "%q is or contains %s, which Ares makes for a job in an image, or is in it: choose another path", Clip(dir), made)
			return
		}
	}
}

// checkMountPath accepts only one form of each path, because policies and nodes compare paths as texts.
func checkMountPath(p *Problems, field, value, where string) {
	text(p, field, value, maxMountBytes)
	if !strings.HasPrefix(value, "/") || path.Clean(value) != value || strings.Contains(value, ":") {
		p.Add(field, `%q must be an absolute path in the %s without "..", double or trailing slashes, or colons`, Clip(value), where)
	}
}

// isAtOrBelow reports whether a path is the directory or below it. Both are clean.
func isAtOrBelow(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, dir)
	return ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(dir, "/"))
}

// The method `mounts` adds mounts to a digest.
func (c digestWriter) mounts(tag byte, list []Mount) digestWriter {
	words := make([]string, len(list))
	for i := range list {
		words[i] = list[i].String()
	}
	return c.list(tag, words)
}
