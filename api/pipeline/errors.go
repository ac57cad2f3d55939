package pipeline

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// StatusOf maps each error code to its HTTP status. A rejection and a missing
// permission both have status 403, because the server understood the request
// and repeating it does not help. The code in the body shows whether a rule
// rejected the request or the caller lacks a permission.
var StatusOf = map[ares.Code]int{
	ares.Invalid:     http.StatusBadRequest,
	ares.NotFound:    http.StatusNotFound,
	ares.Conflict:    http.StatusConflict,
	ares.Fenced:      http.StatusConflict,
	ares.TooLarge:    http.StatusRequestEntityTooLarge,
	ares.Exhausted:   http.StatusTooManyRequests,
	ares.Unavailable: http.StatusServiceUnavailable,
	ares.Unauthentic: http.StatusUnauthorized,
	ares.Forbidden:   http.StatusForbidden,
	ares.Internal:    http.StatusInternalServerError,

	ares.QuotaExceeded:       http.StatusForbidden,
	ares.LimitReached:        http.StatusForbidden,
	ares.PriorityTooHigh:     http.StatusForbidden,
	ares.PolicyDenied:        http.StatusForbidden,
	ares.Infeasible:          http.StatusForbidden,
	ares.DeadlineUnreachable: http.StatusForbidden,
	ares.DependencyUnknown:   http.StatusForbidden,
	ares.DependencyFailed:    http.StatusForbidden,
	ares.FeatureDisabled:     http.StatusForbidden,
	ares.CertificateRequired: http.StatusForbidden,
}

// ErrorBody is the HTTP body of every failed request.
type ErrorBody struct {
	Message string        `json:"error"`
	Code    ares.Code     `json:"code"`
	Details []FieldDetail `json:"details"`
}

// FieldDetail describes one invalid field of a request.
type FieldDetail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// ErrorAnswer returns the public form of an error, with its HTTP status.
func ErrorAnswer(err error) (code int, body []byte, f ErrorBody) {
	err = apipb.ToStatus(err)
	back := apipb.FromStatus(err)
	f = ErrorBody{Message: status.Convert(err).Message(), Code: ares.CodeOf(back), Details: []FieldDetail{}}
	if bad, ok := errors.AsType[*ares.InvalidRequest](back); ok {
		for _, p := range bad.Problems {
			f.Details = append(f.Details, FieldDetail{Field: p.Field, Message: p.Message})
		}
	} else if e, ok := errors.AsType[*ares.Error](back); ok && e.Field != "" {
		f.Details = append(f.Details, FieldDetail{Field: e.Field, Message: strings.TrimPrefix(e.Message, e.Field+": ")})
	}
	code, ok := StatusOf[f.Code]
	if !ok {
		code = http.StatusInternalServerError
	}
	body, jsonErr := json.Marshal(f)
	if jsonErr != nil {
		panic("api: a failure always marshals: " + jsonErr.Error())
	}
	return code, body, f
}

// TooLarge returns the error for a request that exceeds its size limit. The argument `size` is 0 if the size
// is unknown.
func TooLarge(size, limit int64) error {
	if size <= 0 {
		return ares.Errorf(ares.TooLarge, "the request is larger than %d bytes: put large values into files that the job reads", limit)
	}
	return ares.Errorf(ares.TooLarge, "the request has %d bytes, but the limit is %d bytes: put large values into files that the job reads", size, limit)
}
