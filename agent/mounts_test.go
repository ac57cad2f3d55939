package agent

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

func TestAllowedMounts(t *testing.T) {
	s := &seat{agent: &Agent{cfg: Config{Node: "n1", Images: Images{Mounts: []string{"/data", "/data/fixed:ro", "/mnt/nfs:ro", "/mnt/nfs/home"}}}}}
	for text, want := range map[string]string{
		"/data:/x":                   "allows jobs to mount /data/fixed only read-only, and it is below /data: use --mount /data:/x:ro",
		"/data/a/b:/x":               "/data",
		"/data/a:/x:ro":              "/data",
		"/data:/x:ro":                "/data",
		"/data/fixed/a:/x:ro":        "/data/fixed",
		"/data/fixed/a:/x":           "allows jobs to mount /data/fixed/a only read-only: use --mount /data/fixed/a:/x:ro",
		"/data/fixed:/x":             "only read-only",
		"/data/fixedly:/x":           "/data",
		"/mnt/nfs/a:/x":              "only read-only",
		"/mnt/nfs/a:/x:ro":           "/mnt/nfs",
		"/mnt/nfs/home/ann:/x":       "/mnt/nfs/home",
		"/database:/x":               "node n1 does not allow jobs to mount /database: allow a directory above it in images.mounts",
		"/:/x":                       "does not allow",
		"/mnt:/x":                    "does not allow",
		"/etc/shadow:/x:ro":          "does not allow",
		"/data:/x:ro /etc/shadow:/y": "does not allow jobs to mount /etc/shadow",
	} {
		job := &ares.Spec{}
		var asked []ares.Mount
		for _, word := range strings.Fields(text) {
			m, err := ares.ParseMount(word)
			if err != nil {
				t.Fatal(err)
			}
			asked = append(asked, m)
		}
		job.EditPlacement().Mounts = asked
		got, err := s.mounts(job)
		if want[0] != '/' {
			if ares.CodeOf(err) != ares.Forbidden || !strings.Contains(err.Error(), want) || got != nil {
				t.Errorf("%s: %+v, %v, want %q", text, got, err, want)
			}
			continue
		}
		m := asked[0]
		if wanted := []run.Mount{{Source: m.Source, Target: m.Target, Below: want, ReadOnly: m.ReadOnly}}; err != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, wanted)
		}
	}
}

// No directory may be mounted unless the administrator has listed one.
func TestNoMountsByDefault(t *testing.T) {
	cfg := DefaultImages()
	if _, _, ok := cfg.allowedMount("/data"); ok {
		t.Error("/data may be mounted")
	}
}

func TestCheckAllowedMounts(t *testing.T) {
	for entry, want := range map[string]string{
		"/data": "", "/data:ro": "", "/": "the whole machine", "/:ro": "the whole machine", "data": "absolute path", "/data/": "absolute path",
		"/data/../etc": "absolute path", "/data:rw": "absolute path", "": "absolute path", "/a:ro": "listed twice",
	} {
		cfg, p := DefaultImages(), ares.Problems{}
		cfg.Mounts = []string{entry}
		if want == "listed twice" {
			cfg.Mounts = append(cfg.Mounts, "/a")
		}
		cfg.Check(&p)
		if got := fmt.Sprint(p.Err()); (want == "") != (p.Err() == nil) || !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %q", entry, got, want)
		}
	}
}
