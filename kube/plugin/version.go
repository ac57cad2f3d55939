package plugin

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"
)

// The versions of Kubernetes that this scheduler works with. The admission policies of the chart need 1.36, and so does the
// scheduler itself: it reads kinds of resource.k8s.io that older API servers do not have, and would wait for them for ever.
const (
	minVersion    = "1.36"
	testedVersion = "1.37"
)

// How long and how often the start waits for an API server that does not answer. After that the scheduler starts without
// the check, because it can wait for the API server as well.
const (
	versionTimeout = 10 * time.Second
	versionRetry   = 500 * time.Millisecond
)

// checkVersion returns an error if the API server is too old.
func checkVersion(ctx context.Context, d discovery.ServerVersionInterface) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	for {
		info, err := d.ServerVersion()
		if err == nil {
			return checkVersionText(info.GitVersion)
		}
		select {
		case <-ctx.Done():
			klog.FromContext(ctx).Info("The API server does not say its version; the scheduler starts without checking it", "err", err)
			return nil
		case <-time.After(versionRetry):
		}
	}
}

// checkVersionText returns an error if the text names a version that is too old. A text that is no release, such as that of
// a development build, is accepted.
func checkVersionText(text string) error {
	v, err := version.ParseGeneric(text)
	if err != nil || v.Major() == 0 || v.AtLeast(version.MustParseGeneric(minVersion)) {
		return nil
	}
	return fmt.Errorf("the API server is Kubernetes %s: ares-kube-scheduler needs %s or later and is tested with %s: upgrade the cluster", text, minVersion, testedVersion)
}
