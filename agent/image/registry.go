//go:build linux

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	ares "github.com/ares-scheduler/ares"
)

var blobPath = regexp.MustCompile(`^/v2/.*/blobs/`)

// A found image is one whose manifest was read and is for this machine.
type found struct {
	config *v1.ConfigFile
	layers []layerSource // from the lowest to the highest
	// digest names what the reference led to: the index of all platforms if there is one, so that it is the same on every node.
	digest string
	// private is true if credentials were needed. Otherwise every tenant may use the image.
	private bool
	files   []io.Closer
}

// The method `names` returns the names of the image's layers in the store.
func (f *found) names() []string {
	names := make([]string, len(f.config.RootFS.DiffIDs))
	for i, id := range f.config.RootFS.DiffIDs {
		names[i] = layerName(id.String())
	}
	return names
}

// A layerSource is where a layer comes from.
type layerSource struct {
	digest string // of what is fetched; "" if only the diff ID is known
	size   int64
	open   func() (io.ReadCloser, error)
}

// lookup reads the manifest of an image in a registry, with the tenant's credentials.
func (s *Store) lookup(ctx context.Context, req *Request) (*found, error) {
	auth, err := s.credentials(req.Tenant, req.Reference.Host())
	if err != nil {
		return nil, err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(s.transport), remote.WithAuth(auth), remote.WithUserAgent("ares"), remote.WithRetryStatusCodes()}
	desc, err := remote.Get(req.Reference.at(req.Digest), options...)
	if err != nil {
		return nil, s.explain(req, err)
	}
	f := &found{digest: desc.Digest.String(), private: auth != authn.Anonymous}
	var image v1.Image
	if !desc.MediaType.IsIndex() {
		image, err = desc.Image()
	} else {
		var index v1.ImageIndex
		if index, err = desc.ImageIndex(); err == nil {
			image, err = forThisMachine(index, req.Reference)
		}
	}
	if err == nil {
		err = f.describe(image, req.Reference)
	}
	if err != nil {
		return nil, s.explain(req, err)
	}
	return f, nil
}

// The method `describe` reads an image's configuration and the places of its layers.
func (f *found) describe(image v1.Image, ref Reference) error {
	// What cannot be fetched may come later, and what cannot be parsed never will.
	raw, err := image.RawManifest()
	if err != nil {
		return err
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return ares.Errorf(ares.Invalid, "the manifest of image %s is not valid: build and push the image again (%v)", ref, err)
	}
	if m.Config.Size > maxManifest {
		return ares.Errorf(ares.Invalid, "the configuration of image %s has %d bytes, more than %d: build the image again", ref, m.Config.Size, maxManifest)
	}
	if raw, err = image.RawConfigFile(); err != nil {
		return err
	}
	if f.config, err = v1.ParseConfigFile(bytes.NewReader(raw)); err != nil {
		return ares.Errorf(ares.Invalid, "the configuration of image %s is not valid: build the image again (%v)", ref, err)
	}
	for i, d := range m.Layers {
		if len(d.URLs) > 0 {
			return ares.Errorf(ares.Invalid, "layer %d of image %s must be fetched from another place than the registry: push the image with all of its layers", i+1, ref)
		}
		f.layers = append(f.layers, layerSource{digest: d.Digest.String(), size: d.Size, open: func() (io.ReadCloser, error) {
			l, err := image.LayerByDigest(d.Digest)
			if err != nil {
				return nil, err
			}
			return l.Compressed()
		}})
	}
	return nil
}

// forThisMachine chooses the image of an index that runs on this machine.
func forThisMachine(index v1.ImageIndex, ref Reference) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	d, err := choose(ref, m.Manifests)
	if err != nil {
		return nil, err
	}
	return index.Image(d.Digest)
}

func wrongPlatform(ref Reference, has string) error {
	return ares.Errorf(ares.Invalid, "image %s is for %s, but this node is linux/%s: build the image for linux/%s too, or choose nodes of another architecture with --constraint",
		ref, has, runtime.GOARCH, runtime.GOARCH)
}

// explain turns an error of a registry into one that says what to do. Its code says whether the same request may work later: Unavailable and
// Exhausted may pass, and the others are the job's own failure.
func (s *Store) explain(req *Request, err error) error {
	ref, host := req.Reference, req.Reference.Host()
	if coded, ok := errors.AsType[*ares.Error](err); ok {
		return coded
	}
	login := "the node has no credentials for it: "
	if auth, bad := s.credentials(req.Tenant, host); bad == nil && auth != authn.Anonymous {
		login = "it rejects the node's credentials for tenant " + req.Tenant + ": "
	}
	login += "check the name, and ask an administrator to run docker --config DIRECTORY login " + host + " and to store config.json as " + req.Tenant + ".json in the node's images.credentials"
	if te, ok := errors.AsType[*transport.Error](err); ok {
		switch te.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return ares.Errorf(ares.Forbidden, "registry %s does not give out image %s: %s", host, ref, login)
		case http.StatusNotFound:
			return ares.Errorf(ares.NotFound, "registry %s has no image %s: check its name and tag", host, ref)
		case http.StatusTooManyRequests:
			return ares.Errorf(ares.Exhausted, "registry %s limits the number of requests (429): try again later, or store credentials with a higher limit in the node's images.credentials", host)
		}
	}
	switch {
	case errors.Is(err, errAddress):
		return ares.Errorf(ares.Forbidden, "registry %s leads to an address from which no image may come: %v: use another registry", host, err)
	case strings.Contains(err.Error(), "SSRF protection"), strings.Contains(err.Error(), "invalid realm"):
		return ares.Errorf(ares.Forbidden, "registry %s leads to another machine's private address: use another registry (%v)", host, err)
	}
	return ares.Errorf(ares.Unavailable, "fetch image %s from %s: %s: check that the node reaches the registry (curl https://%s/v2/)", ref, host, ares.Truncate(fmt.Sprint(err), 512), host)
}
