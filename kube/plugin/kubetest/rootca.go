package kubetest

import (
	"context"
	"os"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PublishRootCA writes the ConfigMap kube-root-ca.crt into namespaces, as a controller of Kubernetes does. Without it, a
// kubelet does not start a pod that uses the token of its service account.
func (c *Cluster) PublishRootCA(ctx context.Context, namespaces ...string) error {
	ca, err := os.ReadFile(c.pki.path("ca.crt"))
	if err != nil {
		return err
	}
	for _, namespace := range namespaces {
		_, err := c.Client.CoreV1().ConfigMaps(namespace).Create(ctx, &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt", Namespace: namespace},
			Data:       map[string]string{"ca.crt": string(ca)},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
