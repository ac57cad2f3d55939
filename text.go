package ares

import (
	"fmt"
	"strings"
)

// Text is a text for users that contains references to jobs, tenants, queues, reservations and
// nodes. Render writes the names only when the reader is known. Whatever the wording of the text, a
// name is never shown to a reader who may not see it.
type Text struct {
	head string      // the text before the first reference
	tail []reference // the references, each with the text after it
}

// The type `reference` is one reference and the text that follows it, up to the next reference.
type reference struct {
	ref  Ref
	then string
}

// Ref names an object and its owner. The name is shown only to readers who have access to the
// owner's tenant and queue.
type Ref struct {
	Kind RefKind
	ID   string // the object's name in the API
	// Tenant and Queue are the owner of the object. Tenant and Queue are empty for a node and for a maintenance
	// reservation. Every user may see these objects.
	Tenant, Queue string
}

// RefKind is the kind of object that a reference names.
type RefKind string

// These are the kinds of references.
const (
	RefJob         RefKind = "job"
	RefTenant      RefKind = "tenant"
	RefQueue       RefKind = "queue"
	RefReservation RefKind = "reservation"
	RefNode        RefKind = "node"
)

// Ref returns a reference to the job.
func (j *Job) Ref() Ref { return JobRef(j.ID, j.Tenant, j.Queue) }

// JobRef returns a reference to a job in a tenant's queue.
func JobRef(id JobID, tenant, queue string) Ref {
	return Ref{Kind: RefJob, ID: string(id), Tenant: tenant, Queue: queue}
}

// ScopeRef returns a reference to a queue of a tenant, or to the tenant if `queue` is empty.
func ScopeRef(tenant, queue string) Ref {
	if queue == "" {
		return Ref{Kind: RefTenant, ID: tenant, Tenant: tenant}
	}
	return Ref{Kind: RefQueue, ID: QueueID(tenant, queue), Tenant: tenant, Queue: queue}
}

// Ref returns a reference to the reservation.
func (r *Reservation) Ref() Ref {
	return Ref{Kind: RefReservation, ID: r.Name, Tenant: r.Tenant, Queue: r.Queue}
}

// NodeRef returns a reference to one node, or to several nodes separated by commas.
func NodeRef(id string) Ref { return Ref{Kind: RefNode, ID: id} }

// String returns the reference with its kind, for a reader who may see everything. For a node, String
// returns only the name.
func (r Ref) String() string {
	if r.Kind == RefNode {
		return r.ID
	}
	return string(r.Kind) + " " + r.ID
}

// This method describes an object that the reader may not see.
func (r Ref) hidden(visible func(Ref) bool) string {
	switch {
	case r.Kind == RefJob && visible(ScopeRef(r.Tenant, "")):
		return "a job of another queue"
	case r.Kind == RefJob:
		return HiddenJob
	case r.Kind == RefQueue && visible(ScopeRef(r.Tenant, "")):
		return "another queue"
	case r.Kind == RefReservation:
		return HiddenReservation
	case r.Kind == RefNode:
		return "a node"
	}
	return "another tenant"
}

// These texts describe a job and a reservation of another tenant.
const (
	HiddenJob         = "a job of another tenant"
	HiddenReservation = "another tenant's reservation"
)

// PlainText returns a Text that contains no references.
func PlainText(words string) Text { return Text{head: words} }

// Textf formats a text as fmt.Sprintf does. Arguments of type Ref and Text stay references in the
// result if they are formatted with %s. Indexed arguments (%[1]s) are not supported.
func Textf(format string, args ...any) Text {
	typed := false
	for _, a := range args {
		switch a.(type) {
		case Ref, Text:
			typed = true
		}
	}
	if !typed {
		return Text{head: fmt.Sprintf(format, args...)}
	}
	var out Text
	from, first, next := 0, 0, 0 // start of the text and of the arguments not yet in out, and the index of the next argument
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		verb := i
		for i++; i < len(format) && strings.IndexByte("0123456789.+-# ", format[i]) >= 0; i++ {
		}
		if i == len(format) || format[i] == '%' || next >= len(args) {
			continue
		}
		arg := args[next]
		next++
		switch a := arg.(type) {
		case Ref:
			out.add(fmt.Sprintf(format[from:verb], args[first:next-1]...))
			out.tail = append(out.tail, reference{ref: a})
		case Text:
			out.add(fmt.Sprintf(format[from:verb], args[first:next-1]...) + a.head)
			out.tail = append(out.tail, a.tail...)
		default:
			continue
		}
		from, first = i+1, next
	}
	out.add(fmt.Sprintf(format[from:], args[first:]...))
	return out
}

// `add` appends a string without references to the text.
func (t *Text) add(words string) {
	if n := len(t.tail); n > 0 {
		t.tail[n-1].then += words
		return
	}
	t.head += words
}

// JoinTexts joins texts in the way strings.Join joins strings.
func JoinTexts(texts []Text, between string) Text {
	var out Text
	for i, t := range texts {
		if i > 0 {
			out.add(between)
		}
		out.add(t.head)
		out.tail = append(out.tail, t.tail...)
	}
	return out
}

// IsEmpty reports whether the text is empty.
func (t Text) IsEmpty() bool { return t.head == "" && len(t.tail) == 0 }

// Render writes the text for one reader. An object that the reader may not see is described instead of named.
func (t Text) Render(visible func(Ref) bool) string {
	if len(t.tail) == 0 {
		return t.head
	}
	var out strings.Builder
	out.WriteString(t.head)
	for _, p := range t.tail {
		if visible(p.ref) {
			out.WriteString(p.ref.String())
		} else {
			out.WriteString(p.ref.hidden(visible))
		}
		out.WriteString(p.then)
	}
	return out.String()
}

// String returns the text for a reader who may see everything. Tests, simulations and logs use this text.
func (t Text) String() string { return t.Render(func(Ref) bool { return true }) }

// OwnedBy returns a visibility function that shows the objects of one tenant and those without an owner. OwnedBy is
// used to render texts that are stored with the tenant's jobs. No permissions are checked when such a text is read
// later.
func OwnedBy(tenant string) func(Ref) bool {
	return func(r Ref) bool { return r.Tenant == "" || r.Tenant == tenant }
}
