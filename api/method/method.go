package method

import (
	"net/http"
	"strings"
	"unicode"

	"github.com/ares-scheduler/ares/policy/roles"
)

// Method is one row of the table: everything the server knows about an RPC
// before it reads a request.
type Method struct {
	// Name is the full gRPC name, such as /ares.v1.JobService/SubmitJob.
	Name string
	// Permission is the permission that the caller needs in the scope of its
	// request. Permission is empty only for Public and Authenticated methods.
	Permission roles.Verb
	// Scope says how to find the tenant and the queue of a request.
	Scope Scope
	// Audit says which calls of the method are recorded in the audit log, and
	// under which action name.
	Audit AuditRule
	// Limiter names the limiter for concurrent calls. The default is Unlimited.
	Limiter Limiter
	// ReadYourWrites marks a method that answers from this server's view. Before it answers, the method waits
	// until the view contains everything that this server has written to the store. Therefore a submitter
	// finds an accepted job in the next list of jobs that it reads from this server.
	ReadYourWrites bool
	// LargeBody allows a request body as large as a batch of jobs.
	LargeBody bool
	// Status is the HTTP status of a successful call. The default is 200. For a method that creates
	// an object, Status is 201, but the method answers 200 if the object already existed.
	Status int
	// Routes are the REST routes. Routes come from the row itself and from the
	// google.api.http option in the .proto file. A method without routes is served
	// over gRPC only.
	Routes []Route
}

// Scope says which tenant and queue a call acts on. For each scope, package
// pipeline has a function that finds the tenant and queue in a request.
type Scope int

const (
	// NoScope is the zero value. NoScope is not valid in the table, because every
	// row must name its scope.
	NoScope Scope = iota
	// Public is for methods that anybody may call without a token.
	Public
	// Authenticated is for methods that need a valid token but no permission.
	Authenticated
	// GlobalScope is for calls that concern all tenants. In GlobalScope, the
	// caller needs the permission for all tenants.
	GlobalScope
	// With AnyScope, the caller needs the permission in at least one tenant or
	// queue. The handler returns only the objects that its caller may see, or
	// checks each part of the request itself.
	AnyScope
	// JobScope is the tenant and queue of the job that the request names.
	JobScope
	// SpecScope is the tenant and queue to which a job is submitted.
	SpecScope
	// SessionScope is JobScope for the user who submitted the job. Other users need
	// the permission for sessions with all jobs of the tenant.
	SessionScope
	// JobOrSpecScope is JobScope if the request names a job, and SpecScope
	// otherwise.
	JobOrSpecScope
	// TenantScope is the tenant that the request names.
	TenantScope
	// TenantListScope is the tenant that a list request names, or any tenant if
	// the request names none.
	TenantListScope
	// QueueScope is the queue that the request names.
	QueueScope
	// NewQueueScope is the tenant of the queue to create.
	NewQueueScope
	// PolicyScope is the tenant of the policy that the request names.
	PolicyScope
	// NewPolicyScope is the tenant that a new policy names, or all tenants if the
	// policy names none.
	NewPolicyScope
	// SecretScope is the tenant of the secret that the request names.
	SecretScope
	// ObjectScope is the tenant whose chunks and snapshots the request concerns.
	ObjectScope
	// UsageScope is the tenant and queue whose usage is requested.
	UsageScope
	// AuditScope is the tenant whose audit entries are requested.
	AuditScope
	// RecordingScope is the tenant whose recordings of sessions are requested.
	RecordingScope
	// NodeScope is the node for which an agent makes the call.
	NodeScope
	// Scopes is the number of scopes.
	Scopes
)

// Limiter names the limiter that applies to a method's calls.
type Limiter int

const (
	// The limiter Unlimited applies to health and readiness checks, which must be answered even under
	// overload. Unlimited also applies to agents, because their session renewals must never wait.
	Unlimited Limiter = iota
	// Reads and Writes are the limiters for the concurrent calls of users.
	Reads
	Writes
	// Events, Logs and Dumps are the limiters for open streams.
	Events
	Logs
	Dumps
	// UserSessions is the limiter for the open sessions of users with jobs.
	UserSessions
	// Backups is the limiter for concurrent backups, recordings and audit checks.
	Backups
	// Sessions is the limiter for agents that open a session. After a restart, all agents open a session at
	// the same time.
	Sessions
	// AgentStreams is the limiter for the open streams of agents.
	AgentStreams
	// RankSessions is the limiter for the commands that jobs run in their own ranks.
	RankSessions
	// Limiters is the number of limiters.
	Limiters
)

// AuditLevel says which calls of a method are recorded in the audit log.
type AuditLevel int

const (
	// Changes is the level for calls that change something. A call that changes something is recorded before
	// it is answered, whatever its result. If the audit log cannot record a change, the server does not make
	// the change. Changes has the value zero, so that calls of a method without an audit rule are recorded.
	Changes AuditLevel = iota
	// Exports is the level for streams that contain data of other tenants or users. An export is recorded
	// before its first message is sent.
	Exports
	// RejectedReads is the level for reads that are recorded only if they are rejected.
	RejectedReads
	// AgentSessions is the level for agents' session calls. The server does not wait until the audit entry of
	// a successful call is on disk. A server whose disk is full must not lose its nodes.
	AgentSessions
	// AgentReports is the level for the reports of agents, which arrive many times per second. An agent's
	// report is recorded in the audit log only if it is rejected. The server does not wait until the entry is
	// on disk.
	AgentReports
	// NotAudited is the level for methods that are open to everybody. Their calls are never recorded.
	NotAudited
)

// AuditRule says how calls of a method are recorded.
type AuditRule struct {
	Level  AuditLevel
	Action string
	// Kind is the kind of the object that a call acts on, such as "queue". Names are the fields of the
	// request or the response that contain the object's name. Kind is empty for a job, because a job ID is
	// recognizable by its form.
	Kind  string
	Names []string
}

// Route is an HTTP method and the pattern of a path. Body is the name of the request field that the HTTP body
// contains. The value "*" means the whole request, and "" means that there is no body.
type Route struct{ HTTPMethod, Path, Body string }

// Of returns the table's row for the method with the given full gRPC name, or nil if
// the table has no such row.
func Of(name string) *Method {
	load()
	return byName[name]
}

// All returns the rows, in the order of the table.
func All() []Method { return rows() }

// IsPublic reports whether a call needs no token.
func (m *Method) IsPublic() bool { return m.Scope == Public }

// Service returns the name of the method's service, such as JobService.
func (m *Method) Service() string {
	service, _, _ := strings.Cut(strings.TrimPrefix(m.Name, "/ares.v1."), "/")
	return service
}

// AuditOf returns the audit rule of the method with the given name. Calls of a
// method without a row in the table are recorded in the audit log as changes.
func AuditOf(name string) AuditRule {
	if m := Of(name); m != nil {
		return m.Audit
	}
	return AuditRule{Level: Changes, Action: actionName(name[strings.LastIndexByte(name, '/')+1:])}
}

// actionName converts SubmitJob to SUBMIT_JOB.
func actionName(name string) string {
	var out strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToUpper(r))
	}
	return out.String()
}

// The functions below create audit rules, so that the rows of the table stay
// short.

func change(action, kind string, names ...string) AuditRule {
	return AuditRule{Changes, action, kind, names}
}

func export(action, kind string, names ...string) AuditRule {
	return AuditRule{Exports, action, kind, names}
}

func read(action, kind string, names ...string) AuditRule {
	return AuditRule{RejectedReads, action, kind, names}
}

func session(action, kind string, names ...string) AuditRule {
	return AuditRule{AgentSessions, action, kind, names}
}

func report(action, kind string, names ...string) AuditRule {
	return AuditRule{AgentReports, action, kind, names}
}

var notAudited = AuditRule{Level: NotAudited}

func get(path string) []Route { return []Route{{HTTPMethod: http.MethodGet, Path: path}} }
