package admin

import (
	"slices"
	"strings"
	"testing"
)

// TestDocumentPolicies translates policies of the feature document.
func TestDocumentPolicies(t *testing.T) {
	var f policyFile
	if err := f.add([]byte(`{"policy": {"name": "GPU usage quota", "rule": "tenant.gpu_hours < tenant.quota AND not (job.name == 'and or')", "action": "reject_job", "alert": "Email admin + Slack #alerts"}}`)); err != nil {
		t.Fatal(err)
	}
	p := f.policies[0]
	if p.GetName() != "gpu-usage-quota" || p.GetOn() != "submission" || p.GetRule() != "tenant.gpu_hours < tenant.quota && ! (job.name == 'and or')" ||
		p.GetAction() != "REJECT_JOB" || !slices.Equal(p.GetAlert(), []string{"email-admin", "slack-alerts"}) {
		t.Errorf("the policy is %v", p)
	}
	if len(f.notes) != 1 || !strings.Contains(f.notes[0], "gpu-usage-quota") {
		t.Errorf("the notes are %v", f.notes)
	}
	for doc, want := range map[string]string{
		`{"policy": {"name": "x", "rule": "true", "action": "PAGE_ME"}}`:                 `"PAGE_ME" is unknown`,
		`{"policy": {"rule": "true", "action": "WARN"}}`:                                 "policy.name",
		`{"policy": {"name": "x", "action": "WARN"}}`:                                    "policy.rule",
		`{"policy": {"name": "x", "rule": "true", "action": "WARN", "severity": 1}}`:     `there is no key "severity"`,
		`{"policy": {"name": "x", "rule": "true", "action": "WARN", "alert": "a + !!"}}`: `"!!" is not the name of a channel`,
		`{"policy": {"name": "x", "rule": "true", "action": "WARN"}, "mode": "dry-run"}`: `beside "policy": there is no key "mode"`,
		`{"policy": "x"}`: "policy:",
	} {
		if err := new(policyFile).add([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is answered %v, want %s", doc, err, want)
		}
	}
}
