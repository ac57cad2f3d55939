package ares

import (
	"errors"
	"fmt"
	"strings"
)

// Code tells the caller of a failed operation what kind of failure it was.
type Code string

// The codes an Error may carry. A door maps each to its own status.
const (
	Invalid     Code = "invalid"         // the request itself is wrong; repeating it is useless
	NotFound    Code = "not_found"       // there is no such thing, or it is not the caller's
	Conflict    Code = "conflict"        // somebody was faster, or the same request ID has another body
	Fenced      Code = "fenced"          // the fence is not current: this attempt has no right to act
	Refused     Code = "quota_exceeded"  // a limit of the tenant forbids it
	TooLarge    Code = "too_large"       // a size limit was passed
	Exhausted   Code = "exhausted"       // a rate or capacity limit: try again later
	Unavailable Code = "unavailable"     // a part is down; the outcome may be unknown, repeat with the same request ID
	Unauthentic Code = "unauthenticated" // no valid token
	Forbidden   Code = "forbidden"       // a valid token without the right
	Internal    Code = "internal"        // a fault of our own
)

// Error is a failure with a code for the caller and a sentence for the reader
// that says what to do.
type Error struct {
	Code    Code
	Message string
	Field   string // the offending field of the request, "" when none
}

func (e *Error) Error() string { return e.Message }

// At names the field of the request that is at fault.
func (e *Error) At(field string) *Error {
	e.Field = field
	return e
}

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's tree, Internal for any
// other error and "" for nil.
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

// Problems collects every mistake of a request, so that they are told at once.
type Problems []FieldError

// Add notes a mistake.
func (p *Problems) Add(field, format string, args ...any) {
	*p = append(*p, FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Err is nil without problems, else an *InvalidRequest with all of them.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return &InvalidRequest{Problems: p}
}

// InvalidRequest is an Error of code Invalid with each field at fault.
type InvalidRequest struct{ Problems Problems }

func (e *InvalidRequest) Error() string {
	var s strings.Builder // a request may hold thousands of mistakes
	for i, p := range e.Problems {
		if i > 0 {
			s.WriteString("; ")
		}
		s.WriteString(p.Field + ": " + p.Message)
	}
	return s.String()
}

// As lets CodeOf see an InvalidRequest as an Error.
func (e *InvalidRequest) As(target any) bool {
	t, ok := target.(**Error)
	if ok {
		*t = &Error{Code: Invalid, Message: e.Error(), Field: e.Problems[0].Field}
	}
	return ok
}
