//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// deviceSpec describes one device with the given edits, in the format of CDI.
func deviceSpec(name, edits string) string {
	return `{"cdiVersion": "0.5.0", "kind": "test.dev/gpu", "devices": [{"name": "` + name + `", "containerEdits": {` + edits + `}}]}`
}

// writeSpecs makes a directory of CDI specifications.
func writeSpecs(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, content := range files {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A job in an image has its devices with their files and variables. Directories of libraries are added to those of the job.
func TestContainerDevices(t *testing.T) {
	w := newWorld(t)
	library := filepath.Join(w.open(), "library")
	w.put(library, "driver\n")
	spec := w.inImage(sh(`cat /usr/local/driver/library; echo $LD_LIBRARY_PATH $DEVICE; ls /dev/test`))
	spec.Env = append(spec.Env, "LD_LIBRARY_PATH=/own", "DEVICE=mine")
	spec.Container.Devices = []string{"test.dev/gpu=0"}
	spec.Container.DeviceSpecs = writeSpecs(t, deviceSpec("0", `"env": ["LD_LIBRARY_PATH=/usr/local/driver", "DEVICE=theirs"],
		"deviceNodes": [{"path": "/dev/test", "hostPath": "/dev/zero"}],
		"mounts": [{"hostPath": "`+library+`", "containerPath": "/usr/local/driver/library", "options": ["bind", "ro"]}]`))
	w.want(w.start(spec), Exited, 0)
	if log := w.log(spec.Key); log != "driver\n/own:/usr/local/driver mine\n/dev/test\n" {
		t.Errorf("the output is %q", log)
	}
}

// A hook that hangs or fails is the node's fault, and the error says where the hook comes from.
func TestContainerHooks(t *testing.T) {
	w := newWorld(t)
	for name, hook := range map[string]string{
		"hangs": `"path": "/bin/sleep", "args": ["sleep", "1000"], "timeout": 1`, "fails": `"path": "/bin/false", "args": ["false"]`,
	} {
		spec := w.inImage(sh("true"))
		spec.Key = key("hook-" + name)
		spec.Container.Devices = []string{"test.dev/gpu=0"}
		spec.Container.DeviceSpecs = writeSpecs(t, deviceSpec("0", `"hooks": [{"hookName": "createContainer", `+hook+`}]`))
		res := w.wait(w.start(spec))
		if res.Outcome != Lost || !strings.Contains(res.Reason, "hook") || !strings.Contains(res.Reason, "/etc/cdi") {
			t.Errorf("%s: the result is %+v", name, res)
		}
	}
}

// Every hook has a limit, so that none holds the devices of a job for long.
func TestHooksAreLimited(t *testing.T) {
	c := Container{Devices: []string{"test.dev/gpu=0"}, DeviceSpecs: writeSpecs(t, deviceSpec("0", `"hooks": [
		{"hookName": "prestart", "path": "/x"}, {"hookName": "createRuntime", "path": "/x"}, {"hookName": "createContainer", "path": "/x"},
		{"hookName": "startContainer", "path": "/x"}, {"hookName": "poststart", "path": "/x"}, {"hookName": "poststop", "path": "/x", "timeout": 5}]`))}
	s := &specs.Spec{}
	if err := injectDevices(s, &c); err != nil {
		t.Fatal(err)
	}
	h := s.Hooks
	for i, list := range [][]specs.Hook{h.Prestart, h.CreateRuntime, h.CreateContainer, h.StartContainer, h.Poststart, h.Poststop} { //nolint:staticcheck // as in the code
		want := hookSeconds
		if i == 5 {
			want = 5
		}
		if len(list) != 1 || list[0].Timeout == nil || *list[0].Timeout != want {
			t.Errorf("list %d: %+v", i, list)
		}
	}
}

// A job does not start if the specifications of its devices are missing, broken or in conflict, and the error names the file.
func TestContainerDevicesMissing(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct{ files, want []string }{
		"missing":  {[]string{deviceSpec("1", `"env": ["A=b"]`)}, []string{"test.dev/gpu=0", "restart the agent"}},
		"broken":   {[]string{`{"cdiVersion": "0.5.0", "kind": `}, []string{"test.dev/gpu=0", "a.json cannot be used", "repair or remove it"}},
		"conflict": {[]string{deviceSpec("0", `"env": ["A=b"]`), deviceSpec("0", `"env": ["A=c"]`)}, []string{"conflicting device", "a.json", "b.json"}},
		"no file":  {[]string{deviceSpec("0", `"deviceNodes": [{"path": "/dev/test", "hostPath": "/does/not/exist"}]`)}, []string{"/does/not/exist"}},
	} {
		spec := w.inImage(sh("true"))
		spec.Key = key("device-" + strings.ReplaceAll(name, " ", "-"))
		spec.Container.Devices, spec.Container.DeviceSpecs = []string{"test.dev/gpu=0"}, writeSpecs(t, c.files...)
		_, err := w.Start(w.ctx, spec)
		if err == nil {
			t.Errorf("%s: the job was started", name)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}
