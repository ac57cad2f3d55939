package rest

import (
	"math"
	"net/http"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// The method `fail` answers an HTTP request with an error.
func (d *Handler) fail(w http.ResponseWriter, err error) {
	code, _, _ := pipeline.ErrorAnswer(err)
	d.failAs(w, code, err)
}

// failAs answers an HTTP request with an error and the given status.
func (d *Handler) failAs(w http.ResponseWriter, code int, err error) {
	_, body, f := pipeline.ErrorAnswer(err)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	switch f.Code {
	case ares.Unauthentic:
		h.Set("WWW-Authenticate", `Bearer realm="ares"`)
	case ares.Exhausted, ares.Unavailable:
		wait := max(apipb.RetryAfter(err), time.Second)
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	default: // other statuses need no extra header
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may have disconnected
}
