package nvidia

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

const (
	first, second = "GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-000000000000"
	driver        = "580.95.05"
	libs          = "/usr/lib/x86_64-linux-gnu"
)

// cacheOf writes a loader's cache as glibc does. An entry is "NAME FILE", and with a third word it is for another kind of machine.
func cacheOf(entries ...string) []byte {
	var heads, texts bytes.Buffer
	start := headerSize + entrySize*len(entries)
	for _, e := range entries {
		words := strings.Fields(e)
		kind := archTypes[runtime.GOARCH] | 3
		if len(words) > 2 {
			kind = 3
		}
		name := start + texts.Len()
		texts.WriteString(words[0] + "\x00")
		file := start + texts.Len()
		texts.WriteString(words[1] + "\x00")
		for _, v := range []uint32{kind, uint32(name), uint32(file), 0, 0, 0} {
			heads.Write(binary.LittleEndian.AppendUint32(nil, v))
		}
	}
	head := binary.LittleEndian.AppendUint32([]byte(cacheMagic), uint32(len(entries)))
	head = binary.LittleEndian.AppendUint32(head, uint32(texts.Len()))
	head = append(head, make([]byte, headerSize-len(head))...)
	return append(append(head, heads.Bytes()...), texts.Bytes()...)
}

// machine makes a tree with a driver and two GPUs, whose order differs from that of their device files.
func machine(t *testing.T) tree {
	t.Helper()
	m := tree{t.TempDir()}
	for _, name := range []string{"libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"} {
		m.put(t, libs+"/"+name+"."+driver, "library")
		m.link(t, name+"."+driver, libs+"/"+name+".1")
	}
	m.link(t, "libcuda.so.1", libs+"/libcuda.so")
	m.put(t, libs+"/libnvidia-old.so.535.1.2", "library")
	m.link(t, "libnvidia-old.so.535.1.2", libs+"/libnvidia-old.so.1")
	m.put(t, libs+"/libc.so.6", "library")
	m.put(t, "/usr/lib32/libcuda.so."+driver, "library")
	m.put(t, cacheFile, string(cacheOf(
		"libc.so.6 "+libs+"/libc.so.6", "libnvidia-ml.so.1 "+libs+"/libnvidia-ml.so.1", "libcuda.so.1 /usr/lib32/libcuda.so."+driver+" other",
		"libcuda.so.1 "+libs+"/libcuda.so.1", "libcuda.so "+libs+"/libcuda.so", "libnvidia-ptxjitcompiler.so.1 "+libs+"/libnvidia-ptxjitcompiler.so.1",
		"libnvidia-old.so.1 "+libs+"/libnvidia-old.so.1", "libnvidia-gone.so.1 "+libs+"/libnvidia-gone.so.1",
	)))
	m.put(t, procDir+"/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nGPU UUID: \t "+first+"\nDevice Minor: \t 1\n")
	m.put(t, procDir+"/0000:02:00.0/information", "GPU UUID: \t "+second+"\nDevice Minor: \t 0\n")
	for _, name := range []string{"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"} {
		m.put(t, "/dev/"+name, "")
	}
	m.put(t, "/usr/bin/nvidia-smi", "program")
	return m
}

func (t tree) put(test *testing.T, name, content string) {
	test.Helper()
	err := os.MkdirAll(filepath.Dir(t.path(name)), 0o755)
	if err == nil {
		err = os.WriteFile(t.path(name), []byte(content), 0o644)
	}
	if err != nil {
		test.Fatal(err)
	}
}

func (t tree) link(test *testing.T, to, name string) {
	test.Helper()
	if err := os.Symlink(to, t.path(name)); err != nil {
		test.Fatal(err)
	}
}

func TestGenerate(t *testing.T) {
	m := machine(t)
	spec, err := Generate(m.root, []string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range spec.ContainerEdits.Mounts {
		got = append(got, x.ContainerPath+" "+strings.TrimPrefix(x.HostPath, m.root))
	}
	for _, n := range spec.ContainerEdits.DeviceNodes {
		got = append(got, n.Path)
	}
	for _, d := range spec.Devices {
		got = append(got, d.Name+" "+d.ContainerEdits.DeviceNodes[0].Path)
	}
	want := strings.Join([]string{
		LibraryDir + "/libcuda.so " + libs + "/libcuda.so." + driver,
		LibraryDir + "/libcuda.so.1 " + libs + "/libcuda.so." + driver,
		LibraryDir + "/libnvidia-ml.so.1 " + libs + "/libnvidia-ml.so." + driver,
		LibraryDir + "/libnvidia-ptxjitcompiler.so.1 " + libs + "/libnvidia-ptxjitcompiler.so." + driver,
		"/usr/bin/nvidia-smi /usr/bin/nvidia-smi", "/dev/nvidiactl", "/dev/nvidia-uvm", first + " /dev/nvidia1", second + " /dev/nvidia0",
	}, "\n")
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("the specification has\n%s\nwant\n%s", text, want)
	}
}

// What is missing is found when the agent starts, and each error says what to do.
func TestGenerateFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m tree) error
		want   string
	}{
		"no cache":      {func(m tree) error { return os.Remove(m.path(cacheFile)) }, "run ldconfig"},
		"empty cache":   {func(m tree) error { return os.WriteFile(m.path(cacheFile), nil, 0o644) }, "damaged: run ldconfig"},
		"other cache":   {func(m tree) error { return os.WriteFile(m.path(cacheFile), cacheOf("libc.so.6 /x"), 0o644) }, "no libcuda.so.1 of a driver"},
		"no library":    {func(m tree) error { return os.Remove(m.path(libs + "/libcuda.so." + driver)) }, "no libcuda.so.1 of a driver"},
		"no control":    {func(m tree) error { return os.Remove(m.path(controlDevice)) }, "no /dev/nvidiactl"},
		"no device":     {func(m tree) error { return os.Remove(m.path("/dev/nvidia0")) }, second + " has no device file /dev/nvidia0"},
		"no infos":      {func(m tree) error { return os.RemoveAll(m.path(procDir)) }, "does not say"},
		"looping links": {func(m tree) error { return loop(m.path(libs + "/libcuda.so." + driver)) }, "no libcuda.so.1 of a driver"},
	} {
		m := machine(t)
		if err := c.change(m); err != nil {
			t.Fatal(err)
		}
		if _, err := Generate(m.root, []string{first, second}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Generate(machine(t).root, []string{"MIG-1"}); err == nil || !strings.Contains(err.Error(), "nvidia-ctk") {
		t.Errorf("a slice: %v", err)
	}
}

func loop(file string) error {
	if err := os.Remove(file); err != nil {
		return err
	}
	return os.Symlink(filepath.Base(file), file)
}

// The library that the containers' runtime uses accepts the specification, and gives a container one GPU with everything it needs.
func TestInject(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes device files")
	}
	m := machine(t)
	for i, name := range []string{"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"} {
		if err := errors.Join(os.Remove(m.path("/dev/"+name)), syscall.Mknod(m.path("/dev/"+name), syscall.S_IFCHR|0o666, 1<<8|3+i)); err != nil {
			t.Skip(err)
		}
	}
	spec, err := Generate(m.root, []string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for range 2 { // the second one replaces the first
		if err = Write(dir, spec); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := fs.ReadDir(os.DirFS(dir), "."); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(dir))
	if err != nil || len(cache.GetErrors()) > 0 {
		t.Fatal(err, cache.GetErrors())
	}
	container := &oci.Spec{Process: &oci.Process{}, Linux: &oci.Linux{}}
	if missing, err := cache.InjectDevices(container, Device(second)); err != nil {
		t.Fatal(missing, err)
	}
	var nodes []string
	for _, d := range container.Linux.Devices {
		nodes = append(nodes, d.Path)
	}
	if got := strings.Join(nodes, " "); got != "/dev/nvidiactl /dev/nvidia-uvm /dev/nvidia0" && got != "/dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm" {
		t.Errorf("the container has %s", got)
	}
	if len(container.Mounts) != len(spec.ContainerEdits.Mounts) || container.Process.Env[0] != "LD_LIBRARY_PATH="+LibraryDir || container.Hooks != nil {
		t.Errorf("mounts %d, environment %q, hooks %v", len(container.Mounts), container.Process.Env, container.Hooks)
	}
}

func FuzzCache(f *testing.F) {
	whole := cacheOf("libcuda.so.1 /usr/lib/libcuda.so.1", "libc.so.6 /lib/libc.so.6 other")
	f.Add(whole)
	f.Add(append([]byte("ld.so-1.7.0\x00\x00\x00\x00\x00"), whole...))
	f.Add(whole[:headerSize+5])
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = parseCache(b, archTypes[runtime.GOARCH]) })
}

// On a machine with GPUs, the description of all of them is complete.
func TestOwnGPUs(t *testing.T) {
	minors, err := tree{"/"}.minors()
	if err != nil || len(minors) == 0 {
		t.Skipf("no GPUs here (%v)", err)
	}
	spec, err := Generate("/", slices.Collect(maps.Keys(minors)))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range spec.ContainerEdits.Mounts {
		found[filepath.Base(m.ContainerPath)] = true
		t.Logf("%s from %s", m.ContainerPath, m.HostPath)
	}
	for _, name := range []string{cudaLibrary, "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"} {
		if !found[name] {
			t.Errorf("the specification has no %s", name)
		}
	}
}

// This machine's own cache can be read.
func TestOwnCache(t *testing.T) {
	b, err := os.ReadFile(cacheFile)
	if err != nil {
		t.Skip(err)
	}
	list, err := parseCache(b, archTypes[runtime.GOARCH])
	if err != nil || len(list) == 0 {
		t.Errorf("%d libraries: %v", len(list), err)
	}
}
