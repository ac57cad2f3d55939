package agent

import (
	"fmt"
	"path"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// readOnlySuffix ends an entry of Images.Mounts that jobs cannot change.
const readOnlySuffix = ":ro"

// maxAllowedMounts limits Images.Mounts.
const maxAllowedMounts = 64

func (i *Images) checkMounts(p *ares.Problems) {
	if len(i.Mounts) > maxAllowedMounts {
		p.Add("images.mounts", "at most %d directories, got %d: list a directory above several of them", maxAllowedMounts, len(i.Mounts))
	}
	seen := map[string]bool{}
	for n, entry := range i.Mounts {
		dir, _ := strings.CutSuffix(entry, readOnlySuffix)
		field := fmt.Sprintf("images.mounts[%d]", n)
		switch {
		case !path.IsAbs(dir) || path.Clean(dir) != dir || strings.Contains(dir, ":"):
			p.Add(field, `%q must be an absolute path without "..", double or trailing slashes, or colons, and may end with :ro`, entry)
		case dir == "/":
			p.Add(field, "jobs must not mount the whole machine: list the directories with data")
		case seen[dir]:
			p.Add(field, "%s is listed twice: remove one of the two", dir)
		}
		seen[dir] = true
	}
}

// allowedMount returns the longest entry of images.mounts that contains a path, because it is the most specific one. Without one, ok is
// false.
func (i *Images) allowedMount(source string) (below string, readOnly, ok bool) {
	for _, entry := range i.Mounts {
		dir, ro := strings.CutSuffix(entry, readOnlySuffix)
		if rest, in := strings.CutPrefix(source, dir); in && (rest == "" || rest[0] == '/') && len(dir) > len(below) {
			below, readOnly, ok = dir, ro, true
		}
	}
	return below, readOnly, ok
}

// closedBelow returns an entry of images.mounts below a path that may only be mounted read-only, or "".
func (i *Images) closedBelow(source string) string {
	for _, entry := range i.Mounts {
		if dir, ro := strings.CutSuffix(entry, readOnlySuffix); ro && strings.HasPrefix(dir, source+"/") {
			return dir
		}
	}
	return ""
}

// The method `mounts` returns what the seat's job mounts, if this node allows it.
func (s *seat) mounts(job *ares.Spec) ([]run.Mount, error) {
	cfg := &s.agent.cfg
	var out []run.Mount
	for _, m := range job.Placement().Mounts {
		below, readOnly, ok := cfg.Images.allowedMount(m.Source)
		switch {
		case !ok:
			return nil, ares.Errorf(ares.Forbidden, "node %s does not allow jobs to mount %s: allow a directory above it in images.mounts of its agent's configuration, "+
				"or choose nodes that allow it with placement.node_selector", cfg.Node, m.Source)
		case readOnly && !m.ReadOnly:
			return nil, ares.Errorf(ares.Forbidden, "node %s allows jobs to mount %s only read-only: use --mount %s:ro, or read_only: true in the job", cfg.Node, m.Source, m)
		}
		if closed := cfg.Images.closedBelow(m.Source); closed != "" && !m.ReadOnly {
			return nil, ares.Errorf(ares.Forbidden, "node %s allows jobs to mount %s only read-only, and it is below %s: use --mount %s:ro, or mount another directory", cfg.Node, closed, m.Source, m)
		}
		out = append(out, run.Mount{Source: m.Source, Target: m.Target, Below: below, ReadOnly: m.ReadOnly})
	}
	return out, nil
}
