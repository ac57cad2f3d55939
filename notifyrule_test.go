package ares

import (
	"strings"
	"testing"
	"time"
)

func TestNotifyRules(t *testing.T) {
	for text, want := range map[string]string{
		"end=mail": "", "end,fail=slack": "", "begin, requeue=https://example.com/h?a=b": "", "end=http://10.0.0.1/x": "",
		"mail": "is no rule", "end=": "is no rule", "never=mail": "is unknown", "=mail": "is unknown", "end=sms": "target",
		"end=ftp://example.com": "target", "end=https://u:p@example.com/": "neither a user", "end=https://example.com/#x": "neither a user",
		"end=https:///x": "target", "end=https://example.com/" + strings.Repeat("x", 1100): "at most",
	} {
		_, err := ParseNotifyRule(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	s := Spec{Command: []string{"true"}, Notify: []string{"end=mail", "x"}}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "notify[1]") {
		t.Error(err)
	}
}

// TestDueNotices checks which notifications are due, and that each is due once.
func TestDueNotices(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	job := &Job{ID: "job-a", Spec: Spec{Notify: []string{"end,fail=mail", "begin,requeue=slack"}}.WithDefaults()}
	due := func(r *Run) string {
		var out []string
		for _, n := range r.DueNotices(job) {
			out = append(out, n.ID(job.ID)+">"+n.Target)
		}
		return strings.Join(out, " ")
	}
	r := NewRun(now)
	if got := due(&r); got != "" {
		t.Error(got)
	}
	r.Phase, r.Placed, r.Attempts = Running, 1, []Attempt{{Number: 1, StartedAt: now}}
	if got := due(&r); got != "job-a-begin-1>slack" {
		t.Error(got)
	}
	if !r.MarkNotified(r.DueNotices(job)[0], now, "") || due(&r) != "" {
		t.Error("it is still due")
	}
	r.Phase, r.Attempts[0].EndedAt, r.Attempts[0].Outcome = Retrying, now, OutcomeFailed
	if got := due(&r); got != "job-a-requeue-1>slack" {
		t.Error(got)
	}
	n := r.DueNotices(job)[0]
	if !r.MarkNotified(n, now, "it broke") || r.MarkNotified(n, now, "it broke") || due(&r) != "" || !strings.Contains(r.Transitions[len(r.Transitions)-1].Message, "not delivered: it broke") {
		t.Errorf("%+v", r.Transitions)
	}
	r.Phase, r.FinishedAt = Failed, now
	if got := due(&r); got != "job-a-fail-1>mail" {
		t.Error(got)
	}
	r.Phase = Cancelled
	if got := due(&r); got != "job-a-end-1>mail" {
		t.Error(got)
	}
	if r.MarkNotified(r.DueNotices(job)[0], now, ""); due(&r) != "" {
		t.Error("it is still due")
	}
}
