package apipb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/ares-scheduler/ares"
)

// errorDomain is the domain of the ErrorInfo that contains an ares.Code.
const errorDomain = "ares"

// These constants limit the details of an error. gRPC sends the details in HTTP/2 trailers, which some
// proxies truncate.
const (
	maxViolations   = 16
	maxMessageBytes = 2 << 10
)

// statusOf maps each ares code to a gRPC status code. A rejected job has the code FailedPrecondition, not
// ResourceExhausted. Generic clients retry after ResourceExhausted, but a retry does not help here.
var statusOf = map[ares.Code]codes.Code{
	ares.Invalid:     codes.InvalidArgument,
	ares.NotFound:    codes.NotFound,
	ares.Conflict:    codes.Aborted,
	ares.Fenced:      codes.FailedPrecondition,
	ares.TooLarge:    codes.OutOfRange,
	ares.Exhausted:   codes.ResourceExhausted,
	ares.Unavailable: codes.Unavailable,
	ares.Unauthentic: codes.Unauthenticated,
	ares.Forbidden:   codes.PermissionDenied,
	ares.Internal:    codes.Internal,

	ares.QuotaExceeded:       codes.FailedPrecondition,
	ares.LimitReached:        codes.FailedPrecondition,
	ares.PriorityTooHigh:     codes.FailedPrecondition,
	ares.PolicyDenied:        codes.FailedPrecondition,
	ares.Infeasible:          codes.FailedPrecondition,
	ares.DeadlineUnreachable: codes.FailedPrecondition,
	ares.DependencyUnknown:   codes.FailedPrecondition,
	ares.DependencyFailed:    codes.FailedPrecondition,
	ares.FeatureDisabled:     codes.FailedPrecondition,
	ares.CertificateRequired: codes.FailedPrecondition,
}

// ToStatus turns an error into the gRPC status that FromStatus reads back. An error from outside
// package ares becomes a status with the code Internal and without the error's text. That text
// belongs in the server's log.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if problem, ok := errors.AsType[*ares.InvalidRequest](err); ok {
		return newStatus(ares.Invalid, problem.Error(), problem.Problems)
	}
	if e, ok := errors.AsType[*ares.Error](err); ok {
		var problems ares.Problems
		if e.Field != "" {
			problems = ares.Problems{{Field: e.Field, Message: e.Message}}
		}
		return newStatus(e.Code, e.Message, problems)
	}
	if s, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return s.GRPCStatus().Err()
	}
	switch {
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the call took too long; its outcome is unknown, so repeat it with the same request_id")
	}
	return newStatus(ares.Internal, "internal error: see the server's log for details", nil)
}

func newStatus(code ares.Code, message string, problems ares.Problems) error {
	grpcCode, ok := statusOf[code]
	if !ok {
		grpcCode = codes.Internal
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: string(code), Domain: errorDomain}}
	if len(problems) > 0 {
		bad := &errdetails.BadRequest{}
		for _, p := range problems[:min(len(problems), maxViolations)] {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: cut(p.Field, maxMessageBytes/maxViolations), Description: cut(p.Message, maxMessageBytes/maxViolations),
			})
		}
		details = append(details, bad)
	}
	return withDetails(status.New(grpcCode, cut(message, maxMessageBytes)), details...)
}

func withDetails(s *status.Status, details ...protoadapt.MessageV1) error {
	full, err := s.WithDetails(details...)
	if err != nil {
		return s.Err() // the status alone still says what happened
	}
	return full.Err()
}

// The function `cut` shortens a text to at most `limit` bytes of valid UTF-8, so that gRPC can send
// it.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= limit {
		return s
	}
	return ares.Truncate(s, limit) + "…"
}

// FromStatus turns the error of a gRPC call into an *ares.Error, or into an
// *ares.InvalidRequest if several fields are wrong. FromStatus returns an error
// unchanged if it is not a gRPC status.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	var code ares.Code
	var problems ares.Problems
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if _, known := statusOf[ares.Code(d.GetReason())]; known && d.GetDomain() == errorDomain {
				code = ares.Code(d.GetReason())
			}
		case *errdetails.BadRequest:
			for _, v := range d.GetFieldViolations() {
				problems = append(problems, ares.FieldError{Field: v.GetField(), Message: v.GetDescription()})
			}
		}
	}
	if code == "" {
		return foreign(s, problems)
	}
	return inWords(code, s.Message(), problems)
}

// The function `foreign` reads a status that does not come from Ares. Such a status comes from gRPC itself, a
// proxy or a validator.
func foreign(s *status.Status, problems ares.Problems) error {
	switch s.Code() {
	case codes.Canceled:
		return fmt.Errorf("%w: %w", ares.Errorf(ares.Unavailable, "the call was cancelled"), context.Canceled)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", ares.Errorf(ares.Unavailable, "the server did not answer in time"), context.DeadlineExceeded)
	case codes.AlreadyExists:
		return inWords(ares.Conflict, s.Message(), problems)
	case codes.ResourceExhausted:
		if strings.Contains(s.Message(), "larger than max") { // gRPC's own size limit; repeating is useless
			return inWords(ares.TooLarge, s.Message(), problems)
		}
	case codes.Unimplemented:
		return ares.Errorf(ares.Internal, "the server does not support this call (%s): check that it is an Ares server and is not older than this client", s.Message())
	case codes.Unavailable:
		return inWords(ares.Unavailable, plainDial(s.Message()), problems)
	default:
	}
	for _, code := range []ares.Code{
		ares.Invalid, ares.NotFound, ares.Conflict, ares.Fenced, ares.TooLarge, ares.Exhausted,
		ares.Unauthentic, ares.Forbidden,
	} {
		if statusOf[code] == s.Code() {
			return inWords(code, s.Message(), problems)
		}
	}
	return inWords(ares.Internal, s.Message(), problems)
}

// CannotConnect is the start of the error message when no server could be reached.
const CannotConnect = "cannot connect"

// plainDial returns the text of a connection error without the words that gRPC adds.
func plainDial(message string) string {
	const mark = "Error while dialing: "
	if i := strings.LastIndex(message, mark); i >= 0 {
		return CannotConnect + ": " + strings.Trim(message[i+len(mark):], `"`)
	}
	return message
}

func inWords(code ares.Code, message string, problems ares.Problems) error {
	switch {
	case len(problems) == 0:
		return &ares.Error{Code: code, Message: message}
	case len(problems) == 1 || code != ares.Invalid:
		if message == "" {
			message = problems[0].Message
		}
		return &ares.Error{Code: code, Message: message, Field: problems[0].Field}
	}
	return &ares.InvalidRequest{Problems: problems}
}

// WithRetryAfter converts an error as ToStatus does, and adds how long the client should wait
// before the next try.
func WithRetryAfter(err error, wait time.Duration) error {
	s, ok := status.FromError(ToStatus(err))
	if !ok || err == nil {
		return err
	}
	return withDetails(s, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
}

// RetryAfter returns how long a status asks the client to wait, or 0 if it does not say.
func RetryAfter(err error) time.Duration {
	s, ok := status.FromError(err)
	if !ok {
		return 0
	}
	details := s.Details()
	i := slices.IndexFunc(details, func(d any) bool { _, ok := d.(*errdetails.RetryInfo); return ok })
	if i < 0 {
		return 0
	}
	return max(details[i].(*errdetails.RetryInfo).GetRetryDelay().AsDuration(), 0)
}
