package ares

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// NotifyEvent is an event of a job about which its user can be notified.
type NotifyEvent string

// These are the events.
const (
	NotifyBegin   NotifyEvent = "begin"   // the first attempt has started
	NotifyEnd     NotifyEvent = "end"     // the job has ended, however
	NotifyFail    NotifyEvent = "fail"    // the job has failed or was lost
	NotifyRequeue NotifyEvent = "requeue" // an attempt has ended, and the job waits for the next one
)

// The targets of notifications. Any other target is the URL of a webhook.
const (
	NotifyMail  = "mail"
	NotifySlack = "slack"
)

// These constants limit the notifications of one job.
const (
	MaxNotifyRules = 4
	maxNotifyBytes = 1024
)

// NotifyRule says which events of a job are sent to which target.
type NotifyRule struct {
	Events []NotifyEvent
	Target string // NotifyMail, NotifySlack or a URL
}

// IsURL reports whether the target is a webhook of the user.
func (r *NotifyRule) IsURL() bool { return r.Target != NotifyMail && r.Target != NotifySlack }

// ParseNotifyRule reads a rule of the form "end,fail=mail". It checks the form of a URL, but not whether the operator
// allows its address.
func ParseNotifyRule(text string) (NotifyRule, error) {
	events, target, ok := strings.Cut(text, "=")
	r := NotifyRule{Target: target}
	if !ok || target == "" || len(text) > maxNotifyBytes {
		return r, fmt.Errorf("%q is no rule: write EVENTS=TARGET, such as end,fail=mail, in at most %d characters", Clip(text), maxNotifyBytes)
	}
	known := []NotifyEvent{NotifyBegin, NotifyEnd, NotifyFail, NotifyRequeue}
	for word := range strings.SplitSeq(events, ",") {
		e := NotifyEvent(strings.TrimSpace(word))
		if !slices.Contains(known, e) {
			return r, fmt.Errorf("event %q is unknown: use begin, end, fail and requeue, separated by commas", Clip(word))
		}
		if !slices.Contains(r.Events, e) {
			r.Events = append(r.Events, e)
		}
	}
	if !r.IsURL() {
		return r, nil
	}
	rest, secure := strings.CutPrefix(target, "https://")
	if !secure {
		rest, ok = strings.CutPrefix(target, "http://")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host := rest[:end]
	switch {
	case !ok || host == "" || strings.HasPrefix(host, ":"):
		return r, fmt.Errorf("target %q is unknown: use mail, slack, or the URL of a webhook such as https://example.com/hook", Clip(target))
	case strings.Contains(host, "@") || strings.Contains(rest, "#"):
		return r, fmt.Errorf("the URL of a webhook may have neither a user name nor a fragment")
	case strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '\\' }):
		return r, fmt.Errorf("the URL of a webhook may have neither spaces nor control characters nor backslashes")
	}
	return r, nil
}

// NotifyRules returns the rules of a spec. Rules that cannot be read are left out: Check rejects them.
func (s *Spec) NotifyRules() []NotifyRule {
	var out []NotifyRule
	for _, text := range s.Notify {
		if r, err := ParseNotifyRule(text); err == nil {
			out = append(out, r)
		}
	}
	return out
}

func (s Spec) checkNotify(p *Problems) {
	if len(s.Notify) > MaxNotifyRules {
		p.Add("notify", "at most %d rules, got %d", MaxNotifyRules, len(s.Notify))
		return
	}
	for i, text := range s.Notify {
		if _, err := ParseNotifyRule(text); err != nil {
			p.Add(fmt.Sprintf("notify[%d]", i), "%s", err)
		}
	}
}

// NotifyMark records which notifications of one rule were delivered or given up.
type NotifyMark struct {
	Begun    bool `json:",omitempty"`
	Ended    bool `json:",omitempty"`
	Requeued int  `json:",omitempty"` // the number of the last attempt whose requeue was notified
}

// Notice is an event of a job that one of its rules asks for and that is not marked yet.
type Notice struct {
	Rule    int // index in Spec.NotifyRules
	Event   NotifyEvent
	Attempt int
	At      time.Time
	Target  string
}

// ID identifies the event of a job. Repeated deliveries of one event have the same ID.
func (n *Notice) ID(job JobID) string { return fmt.Sprintf("%s-%s-%d", job, n.Event, n.Attempt) }

// DueNotices returns the notifications that are not marked yet, in the order of their events. They follow from the
// records of the job alone, so a server that restarts finds the same ones.
func (r *Run) DueNotices(j *Job) []Notice {
	if len(j.Notify) == 0 {
		return nil
	}
	var out []Notice
	for i, rule := range j.NotifyRules() {
		mark := NotifyMark{}
		if i < len(r.Notified) {
			mark = r.Notified[i]
		}
		wants := func(e NotifyEvent) bool { return slices.Contains(rule.Events, e) }
		add := func(e NotifyEvent, attempt int, at time.Time) {
			out = append(out, Notice{Rule: i, Event: e, Attempt: attempt, At: at, Target: rule.Target})
		}
		if at, begun := r.begun(j); wants(NotifyBegin) && !mark.Begun && begun {
			add(NotifyBegin, 1, at)
		}
		if a := r.Last(); wants(NotifyRequeue) && a != nil && a.Ended() && r.Phase.Waiting() && a.Number > mark.Requeued {
			add(NotifyRequeue, a.Number, a.EndedAt)
		}
		failed := r.Phase == Failed || r.Phase == Lost
		switch {
		case mark.Ended || !r.Phase.Final() || r.Phase == Returned: // a returned job has not ended
		case failed && wants(NotifyFail):
			add(NotifyFail, r.Placed, r.FinishedAt)
		case wants(NotifyEnd):
			add(NotifyEnd, r.Placed, r.FinishedAt)
		}
	}
	return out
}

// The method `begun` reports whether the job has ever started, and when. The start of a job whose first attempts are no
// longer recorded is that of the first recorded attempt.
func (r *Run) begun(j *Job) (time.Time, bool) {
	for i := range r.Attempts {
		if at := r.Attempts[i].StartedAt; !at.IsZero() {
			return at, true
		}
	}
	if j.IsArray() && r.Next > 0 {
		for _, t := range r.Transitions {
			if t.Phase == Running {
				return t.At, true
			}
		}
	}
	return time.Time{}, false
}

// MarkNotified records that a notification was delivered, or with a problem that it was given up. It reports whether
// that changed the run.
func (r *Run) MarkNotified(n Notice, now time.Time, problem string) bool {
	marks := slices.Clone(r.Notified)
	for len(marks) <= n.Rule {
		marks = append(marks, NotifyMark{})
	}
	was := marks[n.Rule]
	m := &marks[n.Rule]
	switch n.Event {
	case NotifyBegin:
		m.Begun = true
	case NotifyRequeue:
		m.Requeued = max(m.Requeued, n.Attempt)
	case NotifyEnd, NotifyFail:
		m.Ended = true
	}
	if *m == was {
		return false
	}
	r.Notified = marks
	if problem != "" {
		r.addTransition(now, fmt.Sprintf("the notification about %s was not delivered: %s", n.Event, problem))
	}
	return true
}
