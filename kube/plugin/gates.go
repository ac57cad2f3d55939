package plugin

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/kubernetes/pkg/features"
)

// adaptGates turns off the features of the framework that need kinds which the API server does not have. Without this, the
// framework would wait for ever until it has seen their objects: Kubernetes 1.36 does not serve DeviceTaintRules.
func adaptGates(client discovery.ServerResourcesInterface) error {
	list, err := client.ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	if err != nil {
		return fmt.Errorf("ask the API server for the kinds of %s: %w", resourceapi.SchemeGroupVersion, err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == "devicetaintrules" {
			return nil
		}
	}
	return utilfeature.DefaultMutableFeatureGate.Set(string(features.DRADeviceTaintRules) + "=false")
}
