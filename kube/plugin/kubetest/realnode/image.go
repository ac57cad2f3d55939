package realnode

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// PodImage is the image that every node has, with podprogram as its only file. The sandboxes use it too.
const PodImage = "localhost/ares-test-pod:local"

// Image is an image with one layer, which is made without a registry and without Docker.
type Image struct {
	Name       string
	Files      map[string]string // path in the image → file to copy, which becomes executable
	Entrypoint []string
	Cmd        []string
	User       string
}

// archive writes the image as `docker save` does.
func (i Image) archive(w io.Writer) error {
	var layer bytes.Buffer
	out := tar.NewWriter(&layer)
	for path, file := range i.Files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := add(out, path, content); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux",
		"config": map[string]any{"Entrypoint": i.Entrypoint, "Cmd": i.Cmd, "User": i.User},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer.Bytes())}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	out = tar.NewWriter(w)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"manifest.json", manifest}, {"config.json", config}, {"layer.tar", layer.Bytes()}} {
		if err := add(out, file.name, file.content); err != nil {
			return err
		}
	}
	return out.Close()
}

func add(out *tar.Writer, path string, content []byte) error {
	err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755, Size: int64(len(content))})
	if err == nil {
		_, err = out.Write(content)
	}
	return err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Import makes an image available to the pods of the node. They must not ask for a pull.
func (n *Node) Import(ctx context.Context, image Image) error {
	var archive bytes.Buffer
	if err := image.archive(&archive); err != nil {
		return fmt.Errorf("image %s: %w", image.Name, err)
	}
	return n.ImportArchive(ctx, &archive)
}

// ImportArchive imports the images of an archive that `docker save` wrote.
func (n *Node) ImportArchive(ctx context.Context, archive io.Reader) error {
	ctr, err := kubetest.Program(kubetest.Ctr)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, ctr, "--address", filepath.Join(n.Dir, "containerd.sock"), "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import an image: %w: %s", err, out)
	}
	return nil
}

// buildPodProgram compiles the program of PodImage.
func (n *Node) buildPodProgram(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", n.podProgram(),
		"github.com/ares-scheduler/ares/kube/plugin/kubetest/realnode/podprogram")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build podprogram: %w: %s", err, out)
	}
	return nil
}

func (n *Node) podProgram() string { return filepath.Join(n.Dir, "podprogram") }

// importPodImage imports PodImage.
func (n *Node) importPodImage(ctx context.Context) error {
	return n.Import(ctx, Image{
		Name: PodImage, Files: map[string]string{"podprogram": n.podProgram()}, Entrypoint: []string{"/podprogram"}, Cmd: []string{"pause"},
	})
}
