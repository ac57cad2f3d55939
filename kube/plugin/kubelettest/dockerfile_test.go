package kubelettest

import (
	"encoding/json"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
	"github.com/ares-scheduler/ares/kube/plugin/kubetest/realnode"
)

// imageOf makes the image of a Dockerfile of the repository. It knows only what an image from scratch needs, and the test fails
// for everything else.
func imageOf(t *testing.T, name, dockerfile string) realnode.Image {
	t.Helper()
	text, err := os.ReadFile(file(t, dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	image := realnode.Image{Name: name, Files: map[string]string{}}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		instruction, rest, _ := strings.Cut(line, " ")
		switch words := strings.Fields(rest); {
		case line == "" || strings.HasPrefix(line, "#") || line == "FROM scratch" || instruction == "EXPOSE":
		case instruction == "COPY" && len(words) == 2 && path.IsAbs(words[1]):
			image.Files[words[1][1:]] = file(t, words[0])
		case instruction == "USER":
			image.User = rest
		case instruction == "ENTRYPOINT" && json.Unmarshal([]byte(rest), &image.Entrypoint) == nil:
		default:
			t.Fatalf("%s: this test cannot build an image with the line %q", dockerfile, line)
		}
	}
	return image
}

func file(t *testing.T, path string) string {
	t.Helper()
	full, err := kubetest.File(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}
