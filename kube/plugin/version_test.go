package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

// servers answers with one version after another. "" stands for an API server that is away.
type servers struct{ versions []string }

// ServerVersion returns the next version.
func (s *servers) ServerVersion() (*version.Info, error) {
	next := s.versions[0]
	s.versions = s.versions[1:]
	if next == "" {
		return nil, errors.New("connection refused")
	}
	return &version.Info{GitVersion: next}, nil
}

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		versions []string
		old      bool
	}{
		{[]string{"v1.30.4"}, true},
		{[]string{"v1.35.9-gke.1000"}, true},
		{[]string{"v1.36.0"}, false},
		{[]string{"v1.37.1+k3s1"}, false},
		{[]string{"v2.0.0"}, false},
		{[]string{"v0.0.0-master+abc"}, false}, // a development build
		{[]string{"unknown"}, false},
		{[]string{"", "v1.30.4"}, true},
	} {
		err := checkVersion(t.Context(), &servers{c.versions})
		if (err != nil) != c.old {
			t.Errorf("%q: %v", c.versions, err)
		}
		if c.old && (!strings.Contains(err.Error(), "needs 1.36 or later and is tested with 1.37") || !strings.Contains(err.Error(), "v1.3")) {
			t.Errorf("%q: the error %q names no versions", c.versions, err)
		}
	}
	// An API server that is away at the start is no reason to end.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := checkVersion(ctx, &servers{[]string{""}}); err != nil {
		t.Error(err)
	}
}
