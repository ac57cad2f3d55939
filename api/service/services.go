package service

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/control/secrets"
	"github.com/ares-scheduler/ares/store"
)

// Config holds the dependencies of the handlers.
type Config struct {
	Admission *admission.Admission
	View      *cache.View
	Store     *store.Store
	// Accounting finds jobs that are no longer live, and the usage of jobs. If
	// Accounting is nil, the server has no history.
	Accounting *accounting.Accounting
	// Policies are the user-defined policies. If Policies is nil, there are no
	// policies.
	Policies *admission.Policies
	// Secrets encrypts secrets. If Secrets is nil, no secret can be created.
	Secrets *secrets.Secrets
	// Code keeps the code of jobs. If Code is nil, jobs cannot bring their code.
	Code *code.Code
	// Engine explains why jobs wait and where they would be placed.
	Engine Engine
	// Predict estimates the runtime of a job. If Predict is nil, there are no
	// estimates.
	Predict func(*ares.Job) ares.RuntimePredicted
	// Notifier sends alerts. If Notifier is nil, there are no alert channels.
	Notifier Notifier
	// Logs reads the output of jobs. If Logs is nil, logs are unavailable.
	Logs LogSource
	// Sessions connects users with running jobs. If Sessions is nil, the server has no sessions.
	Sessions *Sessions
	// Trust issues and checks the certificates of nodes.
	Trust *pipeline.Trust
	Auth  *auth.Auth
	// AgentService serves node agents. If AgentService is nil, it is not
	// registered.
	AgentService apipb.AgentServiceServer
	// AuditLog is the log that AuditService reads. If AuditLog is nil,
	// AuditService is unavailable.
	AuditLog AuditLog
	// AuditHistory has the entries of all servers. If AuditHistory is nil,
	// AuditLog is used.
	AuditHistory AuditHistory
	// AuditMarks returns what places outside the log's files remember of its end, and the names of the places that do not answer. If
	// AuditMarks is nil, the log is compared with no such place.
	AuditMarks AuditMarks
	// Alert returns a warning about the whole cluster, or "" if there is none. Alert may be nil.
	Alert func() string
	// FreeMB is the free space of the data directory. FreeMB may be nil.
	FreeMB func() int64
	// Ready returns an error if the server cannot accept work.
	Ready func(context.Context) error
	// Now is the clock for times that the server writes.
	Now func() time.Time
	// Version is the version of the server. Server is the server's name, which is
	// the gRPC address that the server advertises.
	Version, Server string
	// Currency is the currency of prices, such as USD.
	Currency string
	// ReuseTenants permits a new tenant to have the ID of a deleted one whose jobs are still known.
	ReuseTenants bool
	// Federation is the part of the server that knows other clusters.
	Federation Federation
	// FederationService serves the members of a hub. If FederationService is nil, it is not registered.
	FederationService apipb.FederationServiceServer
	Log               *slog.Logger
}

// Services holds the handlers of all API services.
type Services struct {
	*pipeline.Pipeline
	Cfg   *Config
	ready readiness
	began time.Time
	// merged counts the ranks that readers of all ranks read now.
	merged mergedRanks

	Heartbeat time.Duration // a constant, except that tests change it
}

// New returns the handlers. Calls to the handlers pass through the given
// pipeline.
func New(calls *pipeline.Pipeline, cfg *Config) *Services {
	return &Services{Pipeline: calls, Cfg: cfg, began: time.Now(), Heartbeat: heartbeatEvery}
}

// Register adds the services to a gRPC server or to the in-process connection.
func (d *Services) Register(s grpc.ServiceRegistrar) {
	apipb.RegisterJobServiceServer(s, &jobService{Services: d})
	apipb.RegisterSessionServiceServer(s, &sessionService{Services: d})
	apipb.RegisterSessionRecordingServiceServer(s, &sessionRecordingService{Services: d})
	apipb.RegisterTenantServiceServer(s, &tenantService{Services: d})
	apipb.RegisterClusterServiceServer(s, &clusterService{Services: d})
	apipb.RegisterQueueServiceServer(s, &queueService{Services: d})
	apipb.RegisterTopologyServiceServer(s, &topologyService{Services: d})
	apipb.RegisterReservationServiceServer(s, &reservationService{Services: d})
	apipb.RegisterIdentityServiceServer(s, &identityService{Services: d})
	apipb.RegisterTrustServiceServer(s, &trustService{Services: d, Trust: d.Cfg.Trust})
	apipb.RegisterAuditServiceServer(s, &auditService{Services: d})
	apipb.RegisterPolicyServiceServer(s, &policyService{Services: d})
	apipb.RegisterSecretServiceServer(s, &secretService{Services: d})
	apipb.RegisterObjectServiceServer(s, &objectService{Services: d})
	apipb.RegisterHistoryServiceServer(s, &historyService{Services: d})
	apipb.RegisterClustersServiceServer(s, &clustersService{Services: d, Trust: d.Cfg.Trust})
	if d.Cfg.FederationService != nil {
		apipb.RegisterFederationServiceServer(s, d.Cfg.FederationService)
	}
	if d.Cfg.AgentService != nil {
		apipb.RegisterAgentServiceServer(s, d.Cfg.AgentService)
	}
}
