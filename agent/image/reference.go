//go:build linux

package image

import (
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	ares "github.com/ares-scheduler/ares"
)

// Kind says where an image comes from.
type Kind string

// These are all kinds of references.
const (
	Registry      Kind = "registry"       // HOST/REPOSITORY:TAG or HOST/REPOSITORY@DIGEST, as for Docker
	OCIArchive    Kind = "oci-archive"    // a tar file with an OCI image layout
	DockerArchive Kind = "docker-archive" // the output of docker save
	Directory     Kind = "dir"            // a directory with an OCI image layout
)

// Reference names an image.
type Reference struct {
	Kind Kind
	// Path is the absolute path of an archive or a directory on the node.
	Path string
	text string
	name name.Reference // only for a registry
}

// String returns the reference as the user wrote it.
func (r Reference) String() string { return r.text }

// Host returns the registry, or "" for a file.
func (r Reference) Host() string {
	if r.name == nil {
		return ""
	}
	return r.name.Context().RegistryStr()
}

// Parse reads a reference. A name without a registry belongs to Docker Hub, as for Docker.
func Parse(text string) (Reference, error) {
	for _, kind := range []Kind{OCIArchive, DockerArchive, Directory} {
		path, ok := strings.CutPrefix(text, string(kind)+":")
		if !ok {
			continue
		}
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return Reference{}, ares.Errorf(ares.Invalid, "image %q: the path after %q must be absolute and without . or .., such as %s:/data/image%s",
				text, string(kind)+":", kind, map[Kind]string{OCIArchive: ".tar", DockerArchive: ".tar"}[kind])
		}
		return Reference{Kind: kind, Path: path, text: text}, nil
	}
	ref, err := name.ParseReference(strings.TrimPrefix(text, "docker://"))
	if err != nil {
		return Reference{}, ares.Errorf(ares.Invalid,
			"image %q is not a reference: write HOST/NAME:TAG or HOST/NAME@sha256:DIGEST, or oci-archive:, docker-archive: or dir: with an absolute path (%v)", ares.Clip(text), err)
	}
	return Reference{Kind: Registry, text: text, name: ref}, nil
}

// at returns the reference to one digest, so that a tag that moves in the meantime does not matter.
func (r Reference) at(digest string) name.Reference {
	if digest == "" {
		return r.name
	}
	return r.name.Context().Digest(digest)
}
