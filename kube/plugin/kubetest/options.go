package kubetest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options change a cluster from its defaults. The zero value is a cluster like that of an ordinary installation.
type Options struct {
	// Dir holds logs, certificates, kubeconfigs and etcd's data. Start uses a temporary directory if it is empty.
	Dir string
	// FeatureGates are set in the API server and in the controllers.
	FeatureGates map[string]bool
	// APIServerArgs and ControllerArgs are appended to the flags of these programs.
	APIServerArgs, ControllerArgs []string
	// NodeLease is how long a lease of a node lasts; the fake kubelets renew it after a quarter of that. A node that
	// is lost becomes NotReady about this long after its last renewal. By default 40 seconds, as with real kubelets.
	// It is rounded up to whole seconds.
	NodeLease time.Duration
	// Toleration is how long a pod may stay on a node that is not ready or unreachable, for pods that do not say it
	// themselves. By default five minutes, as in Kubernetes. It is rounded up to whole seconds.
	Toleration time.Duration
}

func (o Options) nodeLease() time.Duration {
	if o.NodeLease == 0 {
		return 40 * time.Second
	}
	return o.NodeLease
}

// gates returns the feature gates as a flag, or no flag.
func (o Options) gates() []string {
	if len(o.FeatureGates) == 0 {
		return nil
	}
	var pairs []string
	for name, on := range o.FeatureGates {
		pairs = append(pairs, fmt.Sprintf("%s=%t", name, on))
	}
	slices.Sort(pairs)
	return []string{"--feature-gates=" + strings.Join(pairs, ",")}
}

// seconds rounds up, because a lease or a toleration of no seconds means something else.
func seconds(d time.Duration) int {
	return int((d + time.Second - 1) / time.Second)
}
