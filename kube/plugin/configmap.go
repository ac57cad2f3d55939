package plugin

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/v1alpha1"
)

// The configuration is in this ConfigMap.
const (
	configNamespace = metav1.NamespaceSystem
	configName      = "topology-scheduler-config"
)

// watchConfig applies the configuration in the ConfigMap, and again after each change. A configuration that is not valid
// changes nothing, and an event of the ConfigMap says why. Without a ConfigMap the defaults hold. It returns a function
// that reports whether the configuration was read for the first time.
func (p *Plugin) watchConfig(ctx context.Context) (synced func() bool, err error) {
	factory := informers.NewSharedInformerFactoryWithOptions(p.handle.ClientSet(), time.Hour,
		informers.WithNamespace(configNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", configName).String()
		}))
	logger := klog.FromContext(ctx).WithName("ares")
	applied := ""
	registration, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(handle(
		func(m *v1.ConfigMap) {
			if m.ResourceVersion == applied {
				return
			}
			applied = m.ResourceVersion
			config, err := v1alpha1.FromConfigMap(m.Data)
			if err != nil {
				logger.Error(err, "The configuration is not valid; the one before stays", "configMap", configNamespace+"/"+configName)
				p.handle.EventRecorder().Eventf(m, nil, v1.EventTypeWarning, "InvalidConfig", "Configuring", "the configuration before stays: %s", err)
				return
			}
			p.planner.SetTopology(config.Topology())
			p.loop.wake()
			logger.Info("Configuration applied", "configMap", configNamespace+"/"+configName)
		},
		func(*v1.ConfigMap) {
			applied = ""
			p.planner.SetTopology(ares.Topology{Weights: ares.DefaultWeights()})
			p.loop.wake()
			logger.Info("The configuration was deleted; the defaults apply", "configMap", configNamespace+"/"+configName)
		},
	))
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	return registration.HasSynced, nil
}
