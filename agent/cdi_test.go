package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// specOf is a CDI specification with the given device names.
func specOf(kind string, names ...string) string {
	text := "cdiVersion: 0.5.0\nkind: " + kind + "\ndevices:\n"
	for _, name := range names {
		text += "- name: \"" + name + "\"\n  containerEdits: {env: [A=b]}\n"
	}
	return text
}

func TestDescribeDevices(t *testing.T) {
	gpus := []ares.Device{{ID: "GPU-a", Index: 0}, {ID: "GPU-b", Index: 1}}
	sliced := []ares.Device{{ID: "GPU-a", Index: 0}, {ID: "MIG-1", Index: 0, Parent: "GPU-a"}}
	for name, c := range map[string]struct {
		devices []ares.Device
		files   map[string]string
		want    string // the names, or a part of the error
	}{
		"by UUID":    {gpus, map[string]string{"a.yaml": specOf("nvidia.com/gpu", "GPU-a", "GPU-b")}, "nvidia.com/gpu=GPU-a nvidia.com/gpu=GPU-b"},
		"by number":  {gpus, map[string]string{"a.yaml": specOf("nvidia.com/gpu", "0", "1")}, "nvidia.com/gpu=0 nvidia.com/gpu=1"},
		"AMD":        {gpus, map[string]string{"a.yaml": specOf("amd.com/gpu", "0", "1")}, "amd.com/gpu=0 amd.com/gpu=1"},
		"slice":      {sliced, map[string]string{"a.yaml": specOf("nvidia.com/gpu", "0", "MIG-1")}, "nvidia.com/gpu=0 nvidia.com/gpu=MIG-1"},
		"some":       {gpus, map[string]string{"a.yaml": specOf("nvidia.com/gpu", "0")}, "describes its device GPU-b, so an image could not use it: run nvidia-ctk"},
		"no slice":   {sliced, map[string]string{"a.yaml": specOf("nvidia.com/gpu", "0")}, "describes its device MIG-1, so an image could not use it: run nvidia-ctk"},
		"slices":     {sliced, nil, "describes its device GPU-a, so an image could not use it: run nvidia-ctk"},
		"broken":     {gpus, map[string]string{"bad.yaml": "cdiVersion: ["}, "bad.yaml cannot be used"},
		"no version": {gpus, map[string]string{"bad.yaml": "kind: nvidia.com/gpu\ndevices: []\n"}, "bad.yaml cannot be used"},
		"conflict": {
			gpus, map[string]string{"a.yaml": specOf("nvidia.com/gpu", "0", "1"), "b.yaml": specOf("nvidia.com/gpu", "1")}, "conflicting device",
		},
		"none": {gpus, nil, "and Ares could not make one: the libraries of the driver are found with the loader's cache: run ldconfig"},
	} {
		dir := t.TempDir()
		for file, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		own := filepath.Join(t.TempDir(), cdiDir)
		names, err := describeDevices(c.devices, []string{dir}, t.TempDir(), own)
		var got []string
		for _, d := range c.devices {
			got = append(got, names[d.ID])
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) || err == nil && text != c.want {
			t.Errorf("%s: %s, want %q", name, text, c.want)
		}
		if _, err := os.Stat(own); err == nil {
			t.Errorf("%s: a specification was made", name)
		}
	}
}
