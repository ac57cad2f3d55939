package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A kind is the kind of a project's workload. The pods of a workload have a label with its name.
type kind struct{ group, version, plural, singular, label string }

// configure tells the API server of the project's webhooks, once they answer. Only the pods of its workloads are passed to
// the webhook for pods, so that all other pods are independent of this program.
func (p *project) configure(ctx context.Context, m ctrl.Manager, authority []byte) error {
	answers := m.GetWebhookServer().StartedChecker()
	for tick := time.NewTicker(20 * time.Millisecond); answers(nil) != nil; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
	k := p.kind
	path := strings.ReplaceAll(k.group, ".", "-") + "-" + k.version + "-" + k.singular
	mutating := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	validating := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	ofWorkload := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: k.label, Operator: metav1.LabelSelectorOpExists}}}
	for _, h := range []struct {
		name, path string
		rule       admissionv1.Rule
		selector   *metav1.LabelSelector
	}{
		{k.singular, path, admissionv1.Rule{APIGroups: []string{k.group}, APIVersions: []string{k.version}, Resources: []string{k.plural}}, nil},
		{"pod", "-v1-pod", admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}, ofWorkload},
	} {
		at := func(verb string) admissionv1.WebhookClientConfig {
			return admissionv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://127.0.0.1:%d/%s-%s", p.port, verb, h.path)), CABundle: authority}
		}
		rules := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: h.rule}}
		name := h.name + "." + k.group
		mutating.Webhooks = append(mutating.Webhooks, admissionv1.MutatingWebhook{
			Name: name, ClientConfig: at("mutate"), Rules: rules, ObjectSelector: h.selector,
			SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		})
		validating.Webhooks = append(validating.Webhooks, admissionv1.ValidatingWebhook{
			Name: name, ClientConfig: at("validate"), Rules: rules, ObjectSelector: h.selector,
			SideEffects: new(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		})
	}
	if err := m.GetClient().Create(ctx, validating); err != nil {
		return err
	}
	return m.GetClient().Create(ctx, mutating)
}
