package service

import (
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// StoredText returns a sentence that is stored with a job, without the names
// that the reader may not see. Sentences from current versions never name
// objects of another tenant, but they may name another queue of the job's
// tenant. Sentences that older versions stored may name any object. Therefore
// StoredText hides job IDs in the sentence. It does not hide the ID of the job
// itself or of another job that the reader may see. StoredText also hides each
// name after "tenant", "queue" or "reservation" if the reader may not see the
// named object.
func (d *Services) StoredText(to Visibility, text string, own ares.JobID) string {
	if strings.Contains(text, "job-") {
		text = d.hideJobs(to, text, own)
	}
	for _, kind := range []ares.RefKind{ares.RefTenant, ares.RefQueue, ares.RefReservation} {
		if strings.Contains(text, string(kind)+" ") {
			text = d.hideNames(to, text, kind)
		}
	}
	return text
}

// jobIDLength is the length of every job ID.
var jobIDLength = len(ares.NewJobID("", ""))

// If the reader may not see a job, hideJobs replaces the job's ID with a
// description. The ID of a job that this server does not know is shown only to
// readers who may see all jobs.
func (d *Services) hideJobs(to Visibility, text string, own ares.JobID) string {
	out := &strings.Builder{}
	for {
		at := strings.Index(text, "job-")
		if at < 0 || len(text)-at < jobIDLength {
			out.WriteString(text)
			return out.String()
		}
		end := at + jobIDLength
		id := text[at:end]
		if !ares.ValidJobID(id) {
			end = at + len("job-")
			out.WriteString(text[:end])
			text = text[end:]
			continue
		}
		shown, instead := ares.JobID(id) == own, "another job"
		if there := d.Cfg.View.Job(ares.JobID(id)); there != nil {
			ref := there.Job.Ref()
			shown, instead = shown || to.ref(ref), ares.Textf("%s", ref).Render(to.ref)
		} else {
			shown = shown || to.within("").sees("", "")
		}
		if shown {
			out.WriteString(text[:end])
		} else {
			out.WriteString(strings.TrimSuffix(text[:at], "job ") + instead)
		}
		text = text[end:]
	}
}

// hideNames hides the names of objects that the reader may not see. hideNames
// looks for names that follow the kind of an object, such as "queue", and
// replaces each with a description.
func (d *Services) hideNames(to Visibility, text string, kind ares.RefKind) string {
	out := &strings.Builder{}
	for {
		before, rest, found := strings.Cut(text, string(kind)+" ")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		end := strings.IndexFunc(rest, func(c rune) bool { return strings.ContainsRune(" ,;:()\"'", c) })
		if end < 0 {
			end = len(rest)
		}
		name := rest[:end]
		if ref, known := d.refOf(kind, name); known && !to.ref(ref) {
			out.WriteString(ares.Textf("%s", ref).Render(to.ref))
		} else {
			out.WriteString(string(kind) + " " + name)
		}
		text = rest[end:]
	}
}

// refOf finds a tenant, queue or reservation by its name. Any queue name counts
// as known, so that the name of a deleted queue is not hidden from its own
// tenant.
func (d *Services) refOf(kind ares.RefKind, name string) (ares.Ref, bool) {
	tenant, queue, isQueue := strings.Cut(name, "/")
	switch kind {
	case ares.RefTenant:
		return ares.ScopeRef(name, ""), d.Cfg.View.Tenant(name) != nil
	case ares.RefQueue:
		return ares.ScopeRef(tenant, queue), isQueue
	default:
		for _, r := range d.Cfg.View.Reservations() {
			if r.Name == name {
				return r.Ref(), true
			}
		}
		return ares.Ref{}, false
	}
}

// hideStored applies StoredText to the stored sentences in the public form of a
// job.
func (d *Services) hideStored(to Visibility, m *apipb.Job) *apipb.Job {
	to = to.within(m.GetTenantId())
	hide := func(text *string) { *text = d.StoredText(to, *text, ares.JobID(m.GetJobId())) }
	hide(&m.Reason)
	if m.Stop != nil {
		hide(&m.Stop.By)
	}
	if m.Result != nil {
		hide(&m.Result.Reason)
	}
	for _, a := range m.Attempts {
		hide(&a.Reason)
		for _, s := range a.Seats {
			hide(&s.Reason)
		}
	}
	return m
}
