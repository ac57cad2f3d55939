package notices

import (
	"context"
	"fmt"
	"net/mail"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
)

// Targets sends notifications to the targets that the operator has set up.
type Targets struct {
	Mail *notify.Mail // the SMTP server and the sender; nil if jobs may not send mail
	// Addresses are the mail addresses that the operator has set for identities, such as token:ci.
	Addresses map[string]string
	// Domain completes the subject of an OpenID user that is no mail address; "" for none.
	Domain  string
	Channel *notify.Notifier // has the Slack channels of the tenants
	Hook    *notify.Hook     // nil if jobs may not use webhooks
}

// Check rejects a job that asks for a notification which can never be sent.
func (t *Targets) Check(s *ares.Spec, owner string) error {
	for i, r := range s.NotifyRules() {
		if err := t.check(&r, s.Tenant, owner); err != nil {
			field := fmt.Sprintf("notify[%d]", i)
			return ares.Errorf(ares.Invalid, "%s: %s", field, err).At(field)
		}
	}
	return nil
}

func (t *Targets) check(r *ares.NotifyRule, tenant, owner string) error {
	switch {
	case r.Target == ares.NotifyMail && t.Mail == nil:
		return ares.Errorf(ares.Invalid, "this server sends no mail about jobs: ask the operator to set notifications.mail_channel")
	case r.Target == ares.NotifyMail && t.Address(owner) == "":
		return ares.Errorf(ares.Invalid, "the mail address of %s is unknown: log in with your own account, or ask the operator to add it to notifications.mail_addresses", owner)
	case r.Target == ares.NotifySlack && t.Channel.SlackFor(tenant) == "":
		return ares.Errorf(ares.Invalid, "tenant %s has no Slack channel: ask the operator to add one to alerts.channels", tenant)
	case r.IsURL() && t.Hook == nil:
		return ares.Errorf(ares.Invalid, "this server calls no webhooks for jobs: ask the operator to set notifications.signing_key_file")
	case r.IsURL():
		return t.Hook.CheckURL(r)
	}
	return nil
}

// Address returns the mail address of an identity, or "" if it is unknown. Only the operator gives an address to a
// token, because the administrators of tenants choose the names of tokens.
func (t *Targets) Address(owner string) string {
	if set := t.Addresses[owner]; set != "" {
		return set
	}
	subject, ok := strings.CutPrefix(owner, "oidc:")
	if !ok {
		return ""
	}
	if !strings.Contains(subject, "@") && t.Domain != "" {
		subject += "@" + t.Domain
	}
	a, err := mail.ParseAddress(subject)
	if err != nil || a.Name != "" || a.Address != subject {
		return ""
	}
	return subject
}

// Event is the body that a webhook gets.
type Event struct {
	ID       string    `json:"event_id"`
	Event    string    `json:"event"`
	At       time.Time `json:"at"`
	JobID    string    `json:"job_id"`
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant_id"`
	Queue    string    `json:"queue"`
	User     string    `json:"user"`
	State    string    `json:"state"`
	Attempt  int       `json:"attempt"`
	Outcome  string    `json:"outcome,omitempty"`
	ExitCode int       `json:"exit_code"`
}

// newEvent describes an event of a job. The reasons of phases are left out: they may name jobs of other tenants.
func newEvent(j *ares.Job, r *ares.Run, n *ares.Notice) Event {
	e := Event{
		ID: n.ID(j.ID), Event: string(n.Event), At: n.At.UTC(), JobID: string(j.ID), Name: j.Name, Tenant: j.Tenant, Queue: j.Queue,
		User: j.Owner, State: string(r.Phase), Attempt: n.Attempt,
	}
	if a := r.Last(); a != nil && n.Event != ares.NotifyBegin {
		e.Outcome, e.ExitCode = string(a.Outcome), a.ExitCode
	}
	return e
}

// Send sends one notification once.
func (t *Targets) Send(ctx context.Context, j *ares.Job, r *ares.Run, n *ares.Notice, now time.Time) error {
	rule := ares.NotifyRule{Target: n.Target}
	if err := t.check(&rule, j.Tenant, j.Owner); err != nil {
		return err // the operator has changed what is allowed
	}
	e := newEvent(j, r, n)
	switch n.Target {
	case ares.NotifyMail:
		return t.Mail.SendTo(ctx, t.Address(j.Owner), alertOf(&e))
	case ares.NotifySlack:
		return t.Channel.SendJob(ctx, t.Channel.SlackFor(j.Tenant), alertOf(&e))
	}
	return t.Hook.Post(ctx, n.Target, j.Tenant, e.ID, &e, now)
}

// alertOf returns an event as a message for people. The name of the job is one of the details, in which links and
// mentions have no effect.
func alertOf(e *Event) notify.Alert {
	what := map[string]string{
		string(ares.NotifyBegin): "has started", string(ares.NotifyRequeue): "waits for another attempt",
		string(ares.NotifyEnd): "has ended: " + e.State, string(ares.NotifyFail): "has not succeeded: " + e.State,
	}[e.Event]
	a := notify.Alert{
		ID: e.ID, Key: e.ID, At: e.At, Title: fmt.Sprintf("[tenant %s] job %s %s", e.Tenant, e.JobID, what),
		Text: fmt.Sprintf("Job %s %s.", e.JobID, what),
		Details: []notify.Detail{
			{Name: "job", Value: e.JobID}, {Name: "name", Value: e.Name}, {Name: "tenant", Value: e.Tenant}, {Name: "queue", Value: e.Queue},
			{Name: "user", Value: e.User}, {Name: "state", Value: e.State}, {Name: "attempt", Value: fmt.Sprint(e.Attempt)},
		},
	}
	if e.Outcome != "" {
		a.Details = append(a.Details, notify.Detail{Name: "outcome", Value: e.Outcome}, notify.Detail{Name: "exit code", Value: fmt.Sprint(e.ExitCode)})
	}
	a.Details = append(a.Details, notify.Detail{Name: "event", Value: e.ID})
	return a
}
