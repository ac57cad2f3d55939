package installtest

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// An applier applies objects as `kubectl apply --server-side` does.
type applier struct{ *kubetest.Applier }

func newApplier(t *testing.T, c *kubetest.Cluster) *applier {
	t.Helper()
	a, err := c.NewApplier()
	if err != nil {
		t.Fatal(err)
	}
	return &applier{a}
}

// The method `create` creates an object, or only asks the API server whether it would.
func (a *applier) create(t *testing.T, o *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	t.Helper()
	r, err := a.Resource(o)
	if err != nil {
		t.Fatal(err)
	}
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return r.Create(t.Context(), o, options)
}

// The method `apply` applies all objects of the files that match a pattern below the root of the repository.
func (a *applier) apply(t *testing.T, pattern string) {
	t.Helper()
	if err := a.Apply(t.Context(), pattern); err != nil {
		t.Error(err)
	}
}

// patience is how long the API server and the controllers may take on a busy machine.
const patience = 2 * time.Minute
