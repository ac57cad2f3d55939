package plugin

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbase "k8s.io/component-base/config/v1alpha1"
	v1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"sigs.k8s.io/yaml"
)

// Settings are the settings of ares-kube-scheduler that its flags give.
type Settings struct {
	Kubeconfig     string // "" for the service account of the pod
	SchedulerName  string
	LeaderElect    bool
	LeaseNamespace string
	LeaseName      string
	LeaseDuration  time.Duration // after it, another replica takes over from a leader that is gone
	EvictionRetry  time.Duration // how long a workload is left alone after a PodDisruptionBudget refused its eviction
	SaveEvery      time.Duration // how often what was learned is stored
}

// The defaults of the durations. The leases of Kubernetes' own components last as long.
const (
	DefaultLeaseDuration = 15 * time.Second
	DefaultEvictionRetry = time.Minute
	DefaultSaveEvery     = 5 * time.Minute
)

// Check returns an error if a setting makes no sense.
func (s *Settings) Check() error {
	if s.LeaseDuration < time.Second {
		return fmt.Errorf("--lease-duration: %s is too short: write at least 1s", s.LeaseDuration)
	}
	if s.EvictionRetry < time.Second {
		return fmt.Errorf("--eviction-retry: %s is too short: write at least 1s", s.EvictionRetry)
	}
	if s.SaveEvery < time.Second {
		return fmt.Errorf("--save-learned-every: %s is too short: write at least 1s", s.SaveEvery)
	}
	return nil
}

// renewal returns how long the leader tries to renew its lease before it gives up, and the time between two tries. The
// proportions are those of Kubernetes: 15, 10 and 2 seconds.
func (s *Settings) renewal() (deadline, retry time.Duration) {
	return s.LeaseDuration * 2 / 3, s.LeaseDuration * 2 / 15
}

// The API server must take thousands of bindings per second. The limit of 50 requests per second that a client has by
// default would be the first bottleneck.
const (
	clientQPS   = 2000
	clientBurst = 4000
)

// configuration returns the configuration of the Kubernetes scheduler: one profile, in which the plugin orders the queue,
// restricts pods with GPUs to their planned node and binds. Preemption by the framework is off, because only a plan
// preempts. The plugin of ResourceClaims takes the place of the framework's.
func configuration(s *Settings) *v1.KubeSchedulerConfiguration {
	enabled := func(off ...string) v1.PluginSet {
		set := v1.PluginSet{Enabled: []v1.Plugin{{Name: Name}}}
		for _, name := range off {
			set.Disabled = append(set.Disabled, v1.Plugin{Name: name})
		}
		return set
	}
	return &v1.KubeSchedulerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: v1.SchemeGroupVersion.String(), Kind: "KubeSchedulerConfiguration"},
		ClientConnection: componentbase.ClientConnectionConfiguration{
			Kubeconfig:  s.Kubeconfig,
			QPS:         clientQPS,
			Burst:       clientBurst,
			ContentType: "application/vnd.kubernetes.protobuf",
		},
		LeaderElection: componentbase.LeaderElectionConfiguration{
			LeaderElect:       &s.LeaderElect,
			ResourceLock:      "leases",
			ResourceNamespace: s.LeaseNamespace,
			ResourceName:      s.LeaseName,
		},
		Profiles: []v1.KubeSchedulerProfile{{
			SchedulerName: &s.SchedulerName,
			Plugins: &v1.Plugins{
				MultiPoint: v1.PluginSet{Enabled: []v1.Plugin{{Name: ClaimsName}}, Disabled: []v1.Plugin{{Name: dynamicresources.Name}}},
				QueueSort:  enabled("*"),
				PreEnqueue: enabled(),
				PreFilter:  enabled(),
				Filter:     enabled(),
				PostFilter: v1.PluginSet{Enabled: []v1.Plugin{{Name: Name}, {Name: ClaimsName}}, Disabled: []v1.Plugin{{Name: "*"}}},
				Reserve:    enabled(),
				Permit:     enabled(),
				Bind:       enabled("*"),
			},
		}},
	}
}

// configFile writes the configuration into a file in memory and returns its path. The scheduler reads its configuration
// only from a file, and the container's file system is read-only.
func configFile(s *Settings) (string, error) {
	text, err := yaml.Marshal(configuration(s))
	if err != nil {
		return "", err
	}
	fd, err := unix.MemfdCreate("scheduler.yaml", unix.MFD_CLOEXEC)
	if err != nil {
		return "", fmt.Errorf("memfd_create: %w", err)
	}
	if _, err = unix.Write(fd, text); err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil // the descriptor stays open until the process ends
}
