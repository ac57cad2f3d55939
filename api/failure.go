package api

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// statusOf is the HTTP status of each code. A quota and a missing right are
// both 403: the request is understood, repeating it does not help, somebody
// with more rights can. The code in the body tells them apart.
var statusOf = map[ares.Code]int{
	ares.Invalid:     http.StatusBadRequest,
	ares.NotFound:    http.StatusNotFound,
	ares.Conflict:    http.StatusConflict,
	ares.Fenced:      http.StatusConflict,
	ares.Refused:     http.StatusForbidden,
	ares.TooLarge:    http.StatusRequestEntityTooLarge,
	ares.Exhausted:   http.StatusTooManyRequests,
	ares.Unavailable: http.StatusServiceUnavailable,
	ares.Unauthentic: http.StatusUnauthorized,
	ares.Forbidden:   http.StatusForbidden,
	ares.Internal:    http.StatusInternalServerError,
}

// failure is the body of every answer that is not a success.
type failure struct {
	Message string    `json:"error"`
	Code    ares.Code `json:"code"`
	Details []detail  `json:"details"`
}

// detail is one field at fault.
type detail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// leadingField finds the field's name in a sentence such as "page_size: want a
// whole number": the generated gateway passes on an error's text alone.
var leadingField = regexp.MustCompile(`^([a-z][a-z0-9_.\[\]]{0,80}): (.*)$`)

// refusal is what a caller is told of an error, with its HTTP status.
func refusal(err error) (code int, body []byte, f failure) {
	err = apipb.ToStatus(err)
	back := apipb.FromStatus(err)
	f = failure{Message: status.Convert(err).Message(), Code: ares.CodeOf(back), Details: []detail{}}
	if bad, ok := errors.AsType[*ares.InvalidRequest](back); ok {
		for _, p := range bad.Problems {
			f.Details = append(f.Details, detail{Field: p.Field, Message: p.Message})
		}
	} else if e, ok := errors.AsType[*ares.Error](back); ok && e.Field != "" {
		f.Details = append(f.Details, detail{Field: e.Field, Message: strings.TrimPrefix(e.Message, e.Field+": ")})
	} else if m := leadingField.FindStringSubmatch(f.Message); m != nil && f.Code == ares.Invalid {
		f.Details = append(f.Details, detail{Field: m[1], Message: m[2]})
	}
	code, ok := statusOf[f.Code]
	if !ok {
		code = http.StatusInternalServerError
	}
	body, jsonErr := json.Marshal(f)
	if jsonErr != nil {
		panic("api: a failure always marshals: " + jsonErr.Error())
	}
	return code, body, f
}

// fail answers with an error.
func (d *Doors) fail(w http.ResponseWriter, err error) {
	code, _, _ := refusal(err)
	d.failAs(w, code, err)
}

// failAs answers with an error under a status of its own.
func (d *Doors) failAs(w http.ResponseWriter, code int, err error) {
	_, body, f := refusal(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	switch f.Code {
	case ares.Unauthentic:
		h.Set("WWW-Authenticate", `Bearer realm="ares"`)
	case ares.Exhausted, ares.Unavailable:
		wait := max(apipb.RetryAfter(err), time.Second)
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	default: // the status says it all
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // a caller that has left does not read it
}
