package ares

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Code classifies an error, so that callers can react to it.
type Code string

// These are the codes of an Error. REST and gRPC map each code to a status.
const (
	Invalid     Code = "invalid"         // the request itself is wrong; repeating it does not help
	NotFound    Code = "not_found"       // the object does not exist, or the caller may not see it
	Conflict    Code = "conflict"        // a concurrent change won, or the request ID was used with another body
	Fenced      Code = "fenced"          // the fence is not current, so this attempt may not act
	TooLarge    Code = "too_large"       // a size limit was exceeded
	Exhausted   Code = "exhausted"       // a rate or capacity limit was reached; try again later
	Unavailable Code = "unavailable"     // a component is down and the outcome may be unknown; repeat with the same request ID
	Unauthentic Code = "unauthenticated" // no valid token
	Forbidden   Code = "forbidden"       // the token is valid but lacks the required permission
	Internal    Code = "internal"        // a bug or an unexpected failure of Ares

	// The following codes are rejections. The request is well formed and the caller may make it, but a rule or the cluster's state forbids
	// it. Code.Rejects returns true for rejections.

	QuotaExceeded       Code = "quota_exceeded"       // a quota of the tenant or of the queue is exceeded
	LimitReached        Code = "limit_reached"        // the maximum number of such objects already exists
	PriorityTooHigh     Code = "priority_too_high"    // the priority is above the tenant's highest class
	PolicyDenied        Code = "policy_denied"        // an administrator's policy denies it
	Infeasible          Code = "infeasible"           // the job can never run on the nodes of this cluster
	DeadlineUnreachable Code = "deadline_unreachable" // the deadline is past, or the job would end after it
	DependencyUnknown   Code = "dependency_unknown"   // a job named in after or in a dependency does not exist
	DependencyFailed    Code = "dependency_failed"    // a job named in after ended without success, or a dependency can never be met
	FeatureDisabled     Code = "feature_disabled"     // the configuration turns this feature off
	CertificateRequired Code = "certificate_required" // only a node with a certificate may call this
)

// The variable `rejections` lists the codes for which Code.Rejects returns true.
var rejections = []Code{
	QuotaExceeded, LimitReached, PriorityTooHigh, PolicyDenied, Infeasible, DeadlineUnreachable, DependencyUnknown, DependencyFailed, FeatureDisabled,
	CertificateRequired,
}

// Codes lists every code.
func Codes() []Code {
	return append([]Code{
		Invalid, NotFound, Conflict, Fenced, TooLarge, Exhausted, Unavailable, Unauthentic, Forbidden, Internal,
	}, rejections...)
}

// Rejects reports whether the code means that a rule or the cluster's state forbids a
// well-formed request. A rejected request has changed nothing. It will fail again until the
// rule or the cluster changes.
func (c Code) Rejects() bool { return slices.Contains(rejections, c) }

// Error is a failure with a code for programs and a message that tells people what to do.
type Error struct {
	Code    Code
	Message string
	Field   string // the wrong field of the request, "" if no single field is wrong
}

func (e *Error) Error() string { return e.Message }

// At records which request field is wrong. It stores the field's name in the error and returns the error.
func (e *Error) At(field string) *Error {
	e.Field = field
	return e
}

func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's chain. It returns Internal for any other error, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// FieldError is one mistake in a request.
type FieldError struct {
	Field   string
	Message string
}

// Problems collects all mistakes in a request, so that one answer reports them together.
type Problems []FieldError

// Add adds a mistake to the list.
func (p *Problems) Add(field, format string, args ...any) {
	*p = append(*p, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// If there are no problems, Err returns nil. Otherwise it returns an *InvalidRequest that lists all
// problems.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return &InvalidRequest{Problems: p}
}

// InvalidRequest is an Error of code Invalid that lists every wrong field.
type InvalidRequest struct{ Problems Problems }

func (e *InvalidRequest) Error() string {
	var s strings.Builder // a request may have thousands of mistakes
	for i, p := range e.Problems {
		if i > 0 {
			s.WriteString("; ")
		}
		s.WriteString(p.Field + ": " + p.Message)
	}
	return s.String()
}

// As lets errors.As find an *Error in an InvalidRequest, so that CodeOf returns Invalid for it.
func (e *InvalidRequest) As(target any) bool {
	t, ok := target.(**Error)
	if ok {
		*t = &Error{Code: Invalid, Message: e.Error(), Field: e.Problems[0].Field}
	}
	return ok
}
