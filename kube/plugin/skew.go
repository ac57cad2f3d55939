package plugin

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// adaptToServer turns off what an API server of an older version does not serve. Kubernetes 1.36 has no DeviceTaintRules of
// version v1; without this, the framework would wait for them and allocate no claim. It asks until the server answers.
func adaptToServer(ctx context.Context, client kubernetes.Interface) error {
	var served *metav1.APIResourceList
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		var err error
		if served, err = client.Discovery().ServerResourcesForGroupVersion("resource.k8s.io/v1"); err != nil {
			klog.FromContext(ctx).Error(err, "The API server does not say what it serves")
		}
		return err == nil, nil
	})
	if err != nil {
		return err
	}
	for i := range served.APIResources {
		if served.APIResources[i].Name == "devicetaintrules" {
			return nil
		}
	}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(features.DRADeviceTaintRules): false})
}
