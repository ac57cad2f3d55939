//go:build linux

package image_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
)

func TestLocal(t *testing.T) {
	h, s, dir := newHub(t), open(t, nil), t.TempDir()
	local := image.Local{Dir: dir}
	if _, err := local.List(t.Context(), ""); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("without an agent: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, dir) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	socket := filepath.Join(dir, image.SocketFile)
	for {
		if st, err := os.Stat(socket); err == nil {
			if st.Mode().Perm() != 0o600 {
				t.Errorf("the socket has the mode %v", st.Mode())
			}
			break
		}
	}
	ref := h.push(t, "a:1", imageOf(t, tarOf(t, file("a", "a"))))
	digest, err := local.Pull(t.Context(), "research", ref, nil)
	if err != nil || !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("pulled %q: %v", digest, err)
	}
	list, err := local.List(t.Context(), "research")
	if err != nil || len(list) != 1 || list[0].Digest != digest || list[0].Reference != ref || list[0].InUse {
		t.Errorf("the list is %+v: %v", list, err)
	}
	if list, err := local.List(t.Context(), "prod"); err != nil || len(list) != 0 {
		t.Errorf("another tenant's list is %+v: %v", list, err)
	}
	if _, err := local.Pull(t.Context(), "research", h.host+"/missing:1", nil); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a missing image: %v", err)
	}
	if bytes, err := local.Remove(t.Context(), "", ref); err != nil || bytes != 1 {
		t.Errorf("removed %d bytes: %v", bytes, err)
	}
	if _, err := local.Remove(t.Context(), "", ref); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "ares image list") {
		t.Errorf("removed twice: %v", err)
	}
}
