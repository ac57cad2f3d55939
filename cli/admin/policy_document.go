package admin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/output"
)

// documentPolicy is a policy in the form of the feature document, which is written under the key "policy". Its rule is true for allowed
// jobs, as in a policy of Ares.
type documentPolicy struct {
	Name   string `json:"name"`
	Rule   string `json:"rule"`
	Action string `json:"action"`
	Alert  string `json:"alert"`
}

var (
	notInName = regexp.MustCompile(`[^a-z0-9._-]+`)
	// A word operator, or a quoted text, which stays as it is.
	ruleWord    = regexp.MustCompile(`"[^"]*"|'[^']*'|(?i:\b(?:and|or|not)\b)`)
	alertPart   = regexp.MustCompile(`\s*(?:\+|,|\band\b)\s*`)
	ruleSymbols = map[string]string{"and": "&&", "or": "||", "not": "!"}
)

// addDocumentPolicy translates a policy of the feature document. The note tells the user what was made of it.
func (f *policyFile) addDocumentPolicy(doc []byte) error {
	var d documentPolicy
	if err := strict(doc, &d); err != nil {
		return fmt.Errorf("policy: %w; the form with the key \"policy\" has name, rule, action and alert: for other keys, write the policy without \"policy:\" (see docs/guide/policy.md)", err)
	}
	action := ares.PolicyAction(strings.ToUpper(d.Action))
	var bad ares.Problems
	m := &apipb.Policy{
		Name: nameOf(d.Name), On: string(ares.OnSubmission), Rule: celRule(d.Rule), Action: string(action), Message: d.Name,
		Why: fmt.Sprintf("written as policy %q", d.Name),
	}
	if m.GetName() == "" {
		bad.Add("policy.name", "is missing: add a name")
	}
	if d.Rule == "" {
		bad.Add("policy.rule", "is missing: add a CEL expression that is true for allowed jobs")
	}
	if action != ares.RejectJob && action != ares.Warn {
		bad.Add("policy.action", "%q is unknown: use REJECT_JOB or WARN; for other actions, write the policy without \"policy:\"", d.Action)
	}
	for _, part := range alertPart.Split(strings.TrimSpace(d.Alert), -1) {
		if channel := nameOf(part); channel != "" {
			m.Alert = append(m.Alert, channel)
		} else if part != "" {
			bad.Add("policy.alert", "%q is not the name of a channel: use the names that \"ares alert list\" shows", part)
		}
	}
	if err := bad.Err(); err != nil {
		return err
	}
	note := fmt.Sprintf("policy %q has the name %s and applies to submissions", d.Name, m.GetName())
	if len(m.GetAlert()) > 0 {
		note += fmt.Sprintf("; %q are the alert channels %s", d.Alert, strings.Join(m.GetAlert(), ", "))
	}
	f.policies, f.notes = append(f.policies, m), append(f.notes, note)
	return nil
}

// nameOf makes a name from a text: "GPU usage quota" becomes gpu-usage-quota.
func nameOf(text string) string {
	return strings.Trim(notInName.ReplaceAllString(strings.ToLower(text), "-"), "-._")
}

// celRule replaces the operators and, or and not by those of CEL.
func celRule(rule string) string {
	return ruleWord.ReplaceAllStringFunc(rule, func(word string) string {
		if symbol, ok := ruleSymbols[strings.ToLower(word)]; ok {
			return symbol
		}
		return word
	})
}

// documentPolicyOf returns the policy under the key "policy", or nil if the document has another form.
func documentPolicyOf(keys map[string]json.RawMessage) json.RawMessage {
	if keys["rule"] != nil || keys["policies"] != nil {
		return nil
	}
	return keys["policy"]
}

func (a *commands) printNotes(f *policyFile) {
	for _, note := range f.notes {
		output.Printf(a.Err, "ares: %s\n", output.Clean(note))
	}
}
