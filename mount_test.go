package ares_test

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func TestParseMount(t *testing.T) {
	for _, text := range []string{"/data:/in", "/data:/in:ro", "/a b:/c"} {
		if m, err := ares.ParseMount(text); err != nil || m.String() != text {
			t.Errorf("%q is %+v: %v", text, m, err)
		}
	}
	for _, text := range []string{"", "/data", ":/x", "/x:", "/x:ro", "/a:/b:rw", "/a:/b:ro:ro", "/a:/b:/c"} {
		m, err := ares.ParseMount(text)
		if err == nil && text != "/x:ro" { // this is a target that Check refuses
			t.Errorf("%q is %+v", text, m)
		}
	}
}

func TestCheckMounts(t *testing.T) {
	spec := ares.Spec{Image: "x/y:1", Checkpoint: ares.Checkpoint{Path: "/ckpt/a"}}
	for text, want := range map[string]string{
		"/data:/in /data/out:/out:ro": "",
		"/data:/tmpfiles /x:/devices": "",
		"data:/in":                    `mounts[0].source: "data" must be an absolute path in the node`,
		"/data:in":                    `mounts[0].target: "in" must be an absolute path in the image`,
		"/data/../etc:/in":            `mounts[0].source: "/data/../etc" must be`,
		"/data//x:/in":                `mounts[0].source: "/data//x" must be`,
		"/data/:/in":                  `mounts[0].source: "/data/" must be`,
		"/data/.:/in":                 `mounts[0].source: "/data/." must be`,
		"/data:/":                     `mounts[0].target: "/" is or contains /proc`,
		"/data:/proc/x":               `"/proc/x" is or contains /proc`,
		"/data:/run":                  `"/run" is or contains /run/ares`,
		"/data:/tmp":                  `"/tmp" is or contains /tmp`,
		"/data:/dev/shm":              `"/dev/shm" is or contains /dev`,
		"/a:/in /b:/in":               `mounts[1].target: "/in" and mounts[0].target "/in" cover each other`,
		"/a:/in /b:/in/b":             `mounts[1].target: "/in/b" and mounts[0].target "/in" cover each other`,
		"/a:/in/b /b:/in":             `mounts[1].target: "/in" and mounts[0].target "/in/b" cover each other`,
		"/a:/ckpt":                    `"/ckpt" and checkpoint.path "/ckpt/a" cover each other`,
		"/a:/ckpt/a/b":                `"/ckpt/a/b" and checkpoint.path "/ckpt/a" cover each other`,
		strings.Repeat("/a:/b ", ares.MaxMounts+1): fmt.Sprintf("mounts: at most %d", ares.MaxMounts),
	} {
		s := spec
		p := s.EditPlacement()
		for _, word := range strings.Fields(text) {
			m, err := ares.ParseMount(word)
			if err != nil {
				t.Fatal(err)
			}
			p.Mounts = append(p.Mounts, m)
		}
		got := fmt.Sprint(s.Check())
		if want == "" && s.Check() != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", text, got, want)
		}
	}
	plain := ares.Spec{Command: []string{"true"}}
	plain.EditPlacement().Mounts = []ares.Mount{{Source: "/a", Target: "/b"}}
	if err := plain.Check(); err == nil || !strings.Contains(err.Error(), "mounts: needs an image") {
		t.Errorf("a job without an image: %v", err)
	}
}

// Each part of a mount makes it another submission.
func TestDigestOfMounts(t *testing.T) {
	seen := map[ares.Digest]int{}
	for i, mounts := range [][]ares.Mount{
		nil, {{Source: "/a", Target: "/b"}}, {{Source: "/a", Target: "/b", ReadOnly: true}}, {{Source: "/a", Target: "/c"}}, {{Source: "/b", Target: "/b"}},
		{{Source: "/a", Target: "/b"}, {Source: "/a", Target: "/c"}}, {{Source: "/a", Target: "/c"}, {Source: "/a", Target: "/b"}},
	} {
		s := ares.Spec{Name: "x"}
		s.EditPlacement().Mounts = mounts
		if other, ok := seen[ares.DigestOf(s)]; ok {
			t.Errorf("the digests of %d and %d are equal", other, i)
		}
		seen[ares.DigestOf(s)] = i
	}
}

func TestCheckCheckpointMount(t *testing.T) {
	for dir, ok := range map[string]bool{
		"": true, "/ckpt": true, "/ckpt/": true, "/mnt/nfs/ann": true, "/tmp/x": true, "/tmp": true, "/dev/shm/x": true, "/home/run": true,
		"/": false, "ckpt": false, "/ckpt/../etc": false, "/a//b": false, "/run": false, "/run/ares": false, "/run/ares/work": false, "/proc": false,
		"/proc/1": false, "/sys/fs": false, "/dev": false, "/dev/nvidia0": false,
	} {
		s := ares.Spec{Image: "x/y:1", Checkpoint: ares.Checkpoint{Path: dir}}
		if got := fmt.Sprint(s.Check()); strings.Contains(got, "checkpoint.path") == ok {
			t.Errorf("%q: %s", dir, got)
		}
		if s.Image = ""; strings.Contains(fmt.Sprint(s.Check()), "checkpoint.path") {
			t.Errorf("%q without an image: %v", dir, s.Check())
		}
	}
}
