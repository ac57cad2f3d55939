package host

import (
	"fmt"
	"strings"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// examineAudit judges the comparison of the end of a server's audit log with the store and with history.
func examineAudit(r *apipb.VerifyAuditResponse, err error) finding {
	f := finding{What: "audit", State: fine}
	switch {
	case ares.CodeOf(err) == ares.Forbidden:
		f.State, f.Detail = note, "the token may not verify the audit log: use one with the role auditor for all tenants"
	case ares.CodeOf(err) == ares.Internal:
		f.State, f.Detail = fault, "the log cannot be read: "+err.Error()
		f.Remedy = "check the audit directory of the server; if files are missing, keep the rest as evidence"
	case err != nil:
		f.State, f.Detail = note, "the log could not be verified: "+err.Error()
	case !r.GetOk():
		f.State, f.Detail = fault, "the log WAS CHANGED"
		if faults := r.GetFaults(); len(faults) > 0 {
			f.Detail += ": " + faults[0].GetText()
		}
		f.Remedy = "keep a copy of the audit directory as evidence, and run ares audit verify; restore the log, or begin a new one with a new server.id"
	default:
		f.Detail = fmt.Sprintf("the end of the log, entry %s, agrees with %s", r.GetLast(), strings.Join(r.GetCompared(), " and "))
		if len(r.GetCompared()) == 0 {
			f.State, f.Detail = note, "the end of the log was compared with nothing outside it"
		}
		f.Detail += "; not compared with " + strings.Join(r.GetNotCompared(), ", nor with ")
	}
	return f
}
