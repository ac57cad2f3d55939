package admin

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/cli/exit"
)

// The forms of exported audit entries.
const (
	fullForm  = "full"  // as in the log, with hashes
	shortForm = "short" // with the six fields of the feature document
)

// shortEntry is an audit entry with the fields of the feature document. An entry that is not about a job has an object instead.
type shortEntry struct {
	Timestamp string `json:"timestamp"`
	Action    string `json:"action"`
	User      string `json:"user"`
	JobID     string `json:"job_id,omitempty"`
	Object    string `json:"object,omitempty"`
	Cluster   string `json:"cluster"`
	Status    string `json:"status"`
}

// shortStatuses are the names of the statuses in the short form.
var shortStatuses = map[audit.Status]string{audit.Done: "SUCCESS", audit.Refused: "FAILURE", audit.Unknown: "UNKNOWN"}

// ownStatus returns the status that a filter means. Both names are accepted.
func ownStatus(s string) string {
	for own, short := range shortStatuses { // order-free: at most one matches
		if strings.EqualFold(s, short) {
			return string(own)
		}
	}
	return s
}

// lineIn returns the function that formats entries in a form.
func lineIn(form string) (func(*apipb.AuditEntry) ([]byte, error), error) {
	switch form {
	case fullForm:
		return auditLine, nil
	case shortForm:
		return shortLine, nil
	default:
		return nil, exit.Usagef("--form %s: use full or short", form)
	}
}

func shortLine(m *apipb.AuditEntry) ([]byte, error) {
	e := shortEntry{
		Timestamp: m.GetTime().AsTime().UTC().Format(time.RFC3339), Action: m.GetAction(), User: m.GetUser(), Cluster: m.GetCluster(),
		Status: shortStatuses[audit.Status(m.GetStatus())],
	}
	if object := m.GetObject(); strings.HasPrefix(object, "job-") {
		e.JobID = object
	} else {
		e.Object = object
	}
	return json.Marshal(e)
}
