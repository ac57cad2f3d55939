package admin

import (
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

// TestImagesText checks what a node's description says about jobs with an image.
func TestImagesText(t *testing.T) {
	for want, n := range map[string]*apipb.Node{
		"no":          {},
		"no: no runc": {NoImages: "no runc", NoContainerRoot: "no images"},
		"yes":         {Images: true, ContainerRoot: true},
		"yes, but not with container_root: no namespaces": {Images: true, NoContainerRoot: "no namespaces"},
	} {
		if got := imagesText(n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
