package method

import (
	"net/http"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/policy/roles"
)

// The variable `table` has a row for every RPC of the API, ordered by service. If an RPC has no row, calls to
// it are rejected and a test fails.
var table = []Method{
	// ClusterService

	{
		Name: apipb.ClusterService_GetHealth_FullMethodName, Scope: Public,
		Audit: notAudited,
	},
	{
		Name: apipb.ClusterService_GetReady_FullMethodName, Scope: Public,
		Audit: notAudited,
	},
	{
		Name: apipb.ClusterService_ListNodes_FullMethodName, Permission: roles.NodeRead, Scope: AnyScope,
		Audit: read("LIST_NODES", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.ClusterService_GetNode_FullMethodName, Permission: roles.NodeRead, Scope: AnyScope,
		Audit: read("GET_NODE", "node", "node_id"), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.ClusterService_CordonNode_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("CORDON_NODE", "node", "node_id"), Limiter: Writes,
	},
	{
		Name: apipb.ClusterService_UncordonNode_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("UNCORDON_NODE", "node", "node_id"), Limiter: Writes,
	},
	{
		Name: apipb.ClusterService_DrainNode_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("DRAIN_NODE", "node", "node_id"), Limiter: Writes,
	},
	{
		Name: apipb.ClusterService_GetClusterStatus_FullMethodName, Permission: roles.NodeRead, Scope: AnyScope,
		Audit: read("GET_CLUSTER_STATUS", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.ClusterService_WatchEvents_FullMethodName, Permission: roles.JobRead, Scope: AnyScope,
		Audit: read("WATCH_EVENTS", "", "job_id"), Limiter: Events, Routes: get("/api/v1/events"),
	},
	{
		Name: apipb.ClusterService_DumpStore_FullMethodName, Permission: roles.StoreRead, Scope: GlobalScope,
		Audit: export("DUMP_STORE", "store", "prefix"), Limiter: Dumps, Routes: get("/api/v1/debug/store"),
	},
	{
		Name: apipb.ClusterService_BackupStore_FullMethodName, Permission: roles.StoreRead, Scope: GlobalScope,
		Audit: export("BACKUP_STORE", "store"), Limiter: Backups,
	},
	{
		Name: apipb.ClusterService_RecordState_FullMethodName, Permission: roles.StoreRead, Scope: GlobalScope,
		Audit: export("RECORD_STATE", "store"), Limiter: Backups,
	},
	{
		Name: apipb.ClusterService_GetServerStatus_FullMethodName, Permission: roles.ServerRead, Scope: GlobalScope,
		Audit: read("GET_SERVER_STATUS", ""), Limiter: Reads,
	},
	{
		Name: apipb.ClusterService_RemoveNode_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("REMOVE_NODE", "node", "node_id"), Limiter: Writes,
	},

	// JobService

	{
		Name: apipb.JobService_SubmitJob_FullMethodName, Permission: roles.JobSubmit, Scope: SpecScope,
		Audit: change("SUBMIT_JOB", "", "job_id"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		// Each job of a batch has its own scope and its own audit entry.
		Name: apipb.JobService_SubmitJobs_FullMethodName, Permission: roles.JobSubmit, Scope: AnyScope,
		Audit: change("SUBMIT_JOB", ""), Limiter: Writes, LargeBody: true,
	},
	{
		Name: apipb.JobService_GetJob_FullMethodName, Permission: roles.JobRead, Scope: JobScope,
		Audit: read("GET_JOB", "", "job_id"), Limiter: Reads,
	},
	{
		Name: apipb.JobService_ListJobs_FullMethodName, Permission: roles.JobRead, Scope: AnyScope,
		Audit: read("LIST_JOBS", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		// The handler finds only jobs that the caller may see.
		Name: apipb.JobService_ResolveJob_FullMethodName, Permission: roles.JobRead, Scope: AnyScope,
		Audit: read("RESOLVE_JOB", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.JobService_CancelJob_FullMethodName, Permission: roles.JobCancel, Scope: JobScope,
		Audit: change("CANCEL_JOB", "", "job_id"), Limiter: Writes,
	},
	{
		Name: apipb.JobService_HoldJob_FullMethodName, Permission: roles.JobCancel, Scope: JobScope,
		Audit: change("HOLD_JOB", "", "job_id"), Limiter: Writes,
	},
	{
		Name: apipb.JobService_ReleaseJob_FullMethodName, Permission: roles.JobCancel, Scope: JobScope,
		Audit: change("RELEASE_JOB", "", "job_id"), Limiter: Writes,
	},
	{
		// A change must pass the checks of a submission, so it needs the same permission.
		Name: apipb.JobService_UpdateJob_FullMethodName, Permission: roles.JobSubmit, Scope: JobScope,
		Audit: change("UPDATE_JOB", "", "job_id"), Limiter: Writes,
	},
	{
		Name: apipb.JobService_RetryJob_FullMethodName, Permission: roles.JobSubmit, Scope: JobScope,
		Audit: change("RETRY_JOB", "", "job_id"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		Name: apipb.JobService_ListJobEvents_FullMethodName, Permission: roles.JobRead, Scope: JobScope,
		Audit: read("LIST_JOB_EVENTS", "", "job_id"), Limiter: Reads,
	},
	{
		Name: apipb.JobService_StreamLogs_FullMethodName, Permission: roles.JobRead, Scope: JobScope,
		Audit: read("STREAM_LOGS", "", "job_id"), Limiter: Logs, Routes: get("/api/v1/jobs/{job_id}/logs"),
	},
	{
		Name: apipb.JobService_ExplainJob_FullMethodName, Permission: roles.JobRead, Scope: JobScope,
		Audit: read("EXPLAIN_JOB", "", "job_id"), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.JobService_PlanJob_FullMethodName, Permission: roles.JobSubmit, Scope: SpecScope,
		Audit: read("PLAN_JOB", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.JobService_PredictJob_FullMethodName, Permission: roles.JobRead, Scope: JobOrSpecScope,
		Audit: read("PREDICT_JOB", "", "job_id"), Limiter: Reads,
	},
	{
		Name: apipb.JobService_ListPreemptions_FullMethodName, Permission: roles.JobRead, Scope: AnyScope,
		Audit: read("LIST_PREEMPTIONS", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.JobService_PlanConsolidation_FullMethodName, Permission: roles.ClusterRead, Scope: GlobalScope,
		Audit: read("PLAN_CONSOLIDATION", ""), Limiter: Writes, ReadYourWrites: true,
	},

	// SessionService

	{
		Name: apipb.SessionService_RunSession_FullMethodName, Permission: roles.JobExec, Scope: SessionScope,
		Audit: change("RUN_SESSION", "", "job_id"), Limiter: UserSessions,
	},

	// SessionRecordingService

	{
		Name: apipb.SessionRecordingService_ListSessionRecordings_FullMethodName, Permission: roles.SessionRead, Scope: RecordingScope,
		Audit: read("LIST_SESSION_RECORDINGS", ""), Limiter: Reads,
	},
	{
		Name: apipb.SessionRecordingService_GetSessionRecording_FullMethodName, Permission: roles.SessionRead, Scope: RecordingScope,
		Audit: read("GET_SESSION_RECORDING", "session", "recording_id"), Limiter: Logs,
	},

	// QueueService

	{
		Name: apipb.QueueService_CreateQueue_FullMethodName, Permission: roles.QueueWrite, Scope: NewQueueScope,
		Audit: change("CREATE_QUEUE", "queue", "queue.tenant_id", "queue.name"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		Name: apipb.QueueService_GetQueue_FullMethodName, Permission: roles.QueueRead, Scope: QueueScope,
		Audit: read("GET_QUEUE", "queue", "tenant_id", "name"), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.QueueService_ListQueues_FullMethodName, Permission: roles.QueueRead, Scope: TenantListScope,
		Audit: read("LIST_QUEUES", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.QueueService_UpdateQueue_FullMethodName, Permission: roles.QueueWrite, Scope: QueueScope,
		Audit: change("UPDATE_QUEUE", "queue", "tenant_id", "name"), Limiter: Writes,
	},
	{
		Name: apipb.QueueService_DeleteQueue_FullMethodName, Permission: roles.QueueWrite, Scope: QueueScope,
		Audit: change("DELETE_QUEUE", "queue", "tenant_id", "name"), Limiter: Writes,
	},
	{
		Name: apipb.QueueService_GetFairness_FullMethodName, Permission: roles.QueueRead, Scope: TenantListScope,
		Audit: read("GET_FAIRNESS", ""), Limiter: Reads, ReadYourWrites: true,
	},

	// TopologyService

	{
		Name: apipb.TopologyService_GetTopology_FullMethodName, Permission: roles.NodeRead, Scope: AnyScope,
		Audit: read("GET_TOPOLOGY", "topology"), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.TopologyService_ApplyTopology_FullMethodName, Permission: roles.TopologyWrite, Scope: GlobalScope,
		Audit: change("APPLY_TOPOLOGY", "topology"), Limiter: Writes, LargeBody: true,
	},

	// ReservationService

	{
		Name: apipb.ReservationService_CreateReservation_FullMethodName, Permission: roles.ReservationWrite, Scope: GlobalScope,
		Audit: change("CREATE_RESERVATION", "reservation", "reservation.name"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		Name: apipb.ReservationService_GetReservation_FullMethodName, Permission: roles.ReservationRead, Scope: AnyScope,
		Audit: read("GET_RESERVATION", "reservation", "name"), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.ReservationService_ListReservations_FullMethodName, Permission: roles.ReservationRead, Scope: AnyScope,
		Audit: read("LIST_RESERVATIONS", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.ReservationService_DeleteReservation_FullMethodName, Permission: roles.ReservationWrite, Scope: GlobalScope,
		Audit: change("DELETE_RESERVATION", "reservation", "name"), Limiter: Writes,
	},

	// PolicyService

	{
		Name: apipb.PolicyService_ApplyPolicy_FullMethodName, Permission: roles.PolicyWrite, Scope: NewPolicyScope,
		Audit: change("APPLY_POLICY", "policy", "policy.tenant_id", "policy.name"), Limiter: Writes,
	},
	{
		Name: apipb.PolicyService_GetPolicy_FullMethodName, Permission: roles.PolicyRead, Scope: PolicyScope,
		Audit: read("GET_POLICY", "policy", "tenant_id", "name"), Limiter: Reads,
	},
	{
		Name: apipb.PolicyService_ListPolicies_FullMethodName, Permission: roles.PolicyRead, Scope: AnyScope,
		Audit: read("LIST_POLICIES", ""), Limiter: Reads,
	},
	{
		Name: apipb.PolicyService_DeletePolicy_FullMethodName, Permission: roles.PolicyWrite, Scope: PolicyScope,
		Audit: change("DELETE_POLICY", "policy", "tenant_id", "name"), Limiter: Writes,
	},
	{
		Name: apipb.PolicyService_ListAlertChannels_FullMethodName, Permission: roles.PolicyRead, Scope: GlobalScope,
		Audit: read("LIST_ALERT_CHANNELS", ""), Limiter: Reads,
	},
	{
		// Testing an alert channel counts as a change, because it sends an alert.
		Name: apipb.PolicyService_TestAlertChannel_FullMethodName, Permission: roles.PolicyWrite, Scope: GlobalScope,
		Audit: change("TEST_ALERT_CHANNEL", "channel", "name"), Limiter: Writes,
	},

	// SecretService

	{
		Name: apipb.SecretService_PutSecret_FullMethodName, Permission: roles.SecretWrite, Scope: SecretScope,
		Audit: change("PUT_SECRET", "secret", "tenant_id", "name"), Limiter: Writes,
	},
	{
		Name: apipb.SecretService_ListSecrets_FullMethodName, Permission: roles.SecretRead, Scope: TenantListScope,
		Audit: read("LIST_SECRETS", ""), Limiter: Reads,
	},
	{
		Name: apipb.SecretService_DeleteSecret_FullMethodName, Permission: roles.SecretWrite, Scope: SecretScope,
		Audit: change("DELETE_SECRET", "secret", "tenant_id", "name"), Limiter: Writes,
	},
	{
		Name: apipb.SecretService_RotateSecretKey_FullMethodName, Permission: roles.SecretRotate, Scope: GlobalScope,
		Audit: change("ROTATE_SECRET_KEY", "secret-key", "key_id"), Limiter: Writes,
	},

	// ObjectService

	{
		// An upload consists of many calls. The submission that uses it is recorded.
		Name: apipb.ObjectService_CommitSnapshot_FullMethodName, Permission: roles.JobSubmit, Scope: ObjectScope,
		Audit: change("COMMIT_SNAPSHOT", ""), Limiter: Writes, LargeBody: true,
	},
	{
		Name: apipb.ObjectService_PutChunks_FullMethodName, Permission: roles.JobSubmit, Scope: ObjectScope,
		Audit: change("PUT_CHUNKS", ""), Limiter: Writes, LargeBody: true,
	},

	// HistoryService

	{
		Name: apipb.HistoryService_GetUsage_FullMethodName, Permission: roles.UsageRead, Scope: UsageScope,
		Audit: read("GET_USAGE", ""), Limiter: Reads,
	},
	{
		Name: apipb.HistoryService_ListPrices_FullMethodName, Permission: roles.UsageRead, Scope: AnyScope,
		Audit: read("LIST_PRICES", ""), Limiter: Reads,
	},
	{
		Name: apipb.HistoryService_SetPrice_FullMethodName, Permission: roles.PriceWrite, Scope: GlobalScope,
		Audit: change("SET_PRICE", "price", "price.gpu_model", "price.region", "price.from"), Limiter: Writes,
	},
	{
		Name: apipb.HistoryService_DeletePrice_FullMethodName, Permission: roles.PriceWrite, Scope: GlobalScope,
		Audit: change("DELETE_PRICE", "price", "gpu_model", "region", "from"), Limiter: Writes,
	},

	// TenantService

	{
		Name: apipb.TenantService_CreateTenant_FullMethodName, Permission: roles.TenantWrite, Scope: GlobalScope,
		Audit: change("CREATE_TENANT", "tenant", "tenant.id"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		Name: apipb.TenantService_GetTenant_FullMethodName, Permission: roles.TenantRead, Scope: TenantScope,
		Audit: read("GET_TENANT", "tenant", "tenant_id"), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.TenantService_ListTenants_FullMethodName, Permission: roles.TenantRead, Scope: AnyScope,
		Audit: read("LIST_TENANTS", ""), Limiter: Reads, ReadYourWrites: true,
	},
	{
		Name: apipb.TenantService_UpdateTenant_FullMethodName, Permission: roles.TenantWrite, Scope: GlobalScope,
		Audit: change("UPDATE_TENANT", "tenant", "tenant_id"), Limiter: Writes,
	},
	{
		Name: apipb.TenantService_DeleteTenant_FullMethodName, Permission: roles.TenantWrite, Scope: GlobalScope,
		Audit: change("DELETE_TENANT", "tenant", "tenant_id"), Limiter: Writes,
	},

	// IdentityService

	{
		Name: apipb.IdentityService_WhoAmI_FullMethodName, Scope: Authenticated,
		Audit: read("WHO_AM_I", ""), Limiter: Reads,
	},
	{
		Name: apipb.IdentityService_CanI_FullMethodName, Scope: Authenticated,
		Audit: read("CAN_I", ""), Limiter: Reads,
	},
	{
		// The handler checks that the caller has the permission in the new token's tenant. It also checks
		// that the caller may grant the new token's bindings.
		Name: apipb.IdentityService_CreateToken_FullMethodName, Permission: roles.TokenWrite, Scope: AnyScope,
		Audit: change("CREATE_TOKEN", "token", "tenant_id", "name"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		Name: apipb.IdentityService_ListTokens_FullMethodName, Permission: roles.TokenRead, Scope: AnyScope,
		Audit: read("LIST_TOKENS", ""), Limiter: Reads,
	},
	{
		Name: apipb.IdentityService_RevokeToken_FullMethodName, Permission: roles.TokenWrite, Scope: AnyScope,
		Audit: change("REVOKE_TOKEN", "token", "tenant_id", "name"), Limiter: Writes,
	},
	{
		Name: apipb.IdentityService_CreateBinding_FullMethodName, Permission: roles.BindingWrite, Scope: AnyScope,
		Audit: change("CREATE_BINDING", "binding", "binding.subject", "binding.role", "binding.tenant_id", "binding.queue"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		Name: apipb.IdentityService_ListBindings_FullMethodName, Permission: roles.BindingRead, Scope: AnyScope,
		Audit: read("LIST_BINDINGS", ""), Limiter: Reads,
	},
	{
		Name: apipb.IdentityService_AcceptBinding_FullMethodName, Permission: roles.BindingWrite, Scope: AnyScope,
		Audit: change("ACCEPT_BINDING", "binding", "subject", "role", "tenant_id", "queue"), Limiter: Writes,
	},
	{
		Name: apipb.IdentityService_DeleteBinding_FullMethodName, Permission: roles.BindingWrite, Scope: AnyScope,
		Audit: change("DELETE_BINDING", "binding", "subject", "role", "tenant_id", "queue"), Limiter: Writes,
	},

	// TrustService

	{
		Name: apipb.TrustService_CreateJoinToken_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("CREATE_JOIN_TOKEN", "join-token", "join_token.id"), Limiter: Writes, Status: http.StatusCreated,
	},
	{
		Name: apipb.TrustService_ListJoinTokens_FullMethodName, Permission: roles.ServerRead, Scope: GlobalScope,
		Audit: read("LIST_JOIN_TOKENS", ""), Limiter: Reads,
	},
	{
		Name: apipb.TrustService_RevokeJoinToken_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("REVOKE_JOIN_TOKEN", "join-token", "id"), Limiter: Writes,
	},
	{
		Name: apipb.TrustService_RevokeNode_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("REVOKE_NODE", "node", "node_id"), Limiter: Writes,
	},
	{
		Name: apipb.TrustService_LabelNode_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("LABEL_NODE", "node-grant", "node_id"), Limiter: Writes,
	},
	{
		Name: apipb.TrustService_ListRevocations_FullMethodName, Permission: roles.ServerRead, Scope: GlobalScope,
		Audit: read("LIST_REVOCATIONS", ""), Limiter: Reads,
	},
	{
		Name: apipb.TrustService_GetAuthority_FullMethodName, Scope: Authenticated,
		Audit: read("GET_AUTHORITY", ""), Limiter: Reads,
	},
	{
		// The caller needs no credential except the join token in the request. The
		// handler checks the join token.
		Name: apipb.TrustService_JoinNode_FullMethodName, Scope: Public,
		Audit: change("JOIN_NODE", "node", "node_id"), Limiter: Sessions,
	},
	{
		// The client certificate names the node that the call acts on.
		Name: apipb.TrustService_RenewCertificate_FullMethodName, Permission: roles.AgentAct, Scope: AnyScope,
		Audit: session("RENEW_CERTIFICATE", ""),
	},

	// ClustersService

	{
		Name: apipb.ClustersService_RegisterCluster_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("REGISTER_CLUSTER", "cluster", "name"), Limiter: Writes,
	},
	{
		Name: apipb.ClustersService_ListClusters_FullMethodName, Permission: roles.NodeRead, Scope: AnyScope,
		Audit: read("LIST_CLUSTERS", ""), Limiter: Reads,
	},
	{
		Name: apipb.ClustersService_GetCluster_FullMethodName, Permission: roles.NodeRead, Scope: AnyScope,
		Audit: read("GET_CLUSTER", "cluster", "name"), Limiter: Reads,
	},
	{
		Name: apipb.ClustersService_CordonCluster_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("CORDON_CLUSTER", "cluster", "name"), Limiter: Writes,
	},
	{
		Name: apipb.ClustersService_UncordonCluster_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("UNCORDON_CLUSTER", "cluster", "name"), Limiter: Writes,
	},
	{
		Name: apipb.ClustersService_DrainCluster_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("DRAIN_CLUSTER", "cluster", "name"), Limiter: Writes,
	},
	{
		Name: apipb.ClustersService_DeclareClusterDead_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("DECLARE_CLUSTER_DEAD", "cluster", "name"), Limiter: Writes,
	},
	{
		Name: apipb.ClustersService_LeaveCluster_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("LEAVE_CLUSTER", "cluster", "name"), Limiter: Writes,
	},
	{
		// The caller needs no credential except the join token in the request. The handler checks the join token.
		Name: apipb.ClustersService_JoinCluster_FullMethodName, Scope: Public,
		Audit: change("JOIN_CLUSTER", ""), Limiter: Sessions, LargeBody: true,
	},
	{
		// The client certificate names the cluster that the call acts on.
		Name: apipb.ClustersService_RenewClusterCertificate_FullMethodName, Permission: roles.MemberAct, Scope: AnyScope,
		Audit: session("RENEW_CLUSTER_CERTIFICATE", ""), Limiter: Sessions,
	},
	{
		Name: apipb.ClustersService_EndMembership_FullMethodName, Permission: roles.MemberAct, Scope: AnyScope,
		Audit: change("END_MEMBERSHIP", "cluster", "cluster.name"), Limiter: Writes,
	},
	{
		Name: apipb.ClustersService_GetMembership_FullMethodName, Permission: roles.ServerRead, Scope: GlobalScope,
		Audit: read("GET_MEMBERSHIP", ""), Limiter: Reads,
	},
	{
		Name: apipb.ClustersService_JoinHub_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("JOIN_HUB", "hub", "membership.name"), Limiter: Writes,
	},
	{
		Name: apipb.ClustersService_LeaveHub_FullMethodName, Permission: roles.NodeWrite, Scope: GlobalScope,
		Audit: change("LEAVE_HUB", ""), Limiter: Writes,
	},

	// FederationService

	{
		// The client certificate names the member, and the hub compares it with the member's hello.
		Name: apipb.FederationService_Connect_FullMethodName, Permission: roles.MemberAct, Scope: AnyScope,
		Audit: session("CONNECT_CLUSTER", ""), Limiter: AgentStreams, LargeBody: true,
	},
	{
		// The same holds for the two streams with which members answer the users of the hub.
		Name: apipb.FederationService_ServeReads_FullMethodName, Permission: roles.MemberAct, Scope: AnyScope,
		Audit: report("SERVE_READS", ""), Limiter: AgentStreams,
	},
	{
		Name: apipb.FederationService_AnswerRead_FullMethodName, Permission: roles.MemberAct, Scope: AnyScope,
		Audit: report("ANSWER_READ", ""), Limiter: AgentStreams, LargeBody: true,
	},

	// AuditService

	{
		Name: apipb.AuditService_ListAuditEntries_FullMethodName, Permission: roles.AuditRead, Scope: AuditScope,
		Audit: read("LIST_AUDIT", ""), Limiter: Reads,
	},
	{
		Name: apipb.AuditService_GetAuditHead_FullMethodName, Permission: roles.AuditRead, Scope: GlobalScope,
		Audit: read("GET_AUDIT_HEAD", ""), Limiter: Reads,
	},
	{
		Name: apipb.AuditService_VerifyAudit_FullMethodName, Permission: roles.AuditRead, Scope: GlobalScope,
		Audit: read("VERIFY_AUDIT", ""), Limiter: Backups,
	},

	// AgentService

	{
		Name: apipb.AgentService_OpenSession_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: session("OPEN_SESSION", "node", "node.node_id"), Limiter: Sessions,
	},
	{
		Name: apipb.AgentService_RenewSession_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("RENEW_SESSION", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_UpdateNode_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("UPDATE_NODE", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_CloseSession_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("CLOSE_SESSION", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_WatchSeats_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("WATCH_SEATS", "node", "ref.node_id"), Limiter: AgentStreams,
	},
	{
		Name: apipb.AgentService_ClaimSeat_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("CLAIM_SEAT", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_FinishSeat_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("FINISH_SEAT", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_DeclineSeat_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("DECLINE_SEAT", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_ReleaseSeat_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("RELEASE_SEAT", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_ReportClean_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("REPORT_CLEAN", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_ReportProgress_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("REPORT_PROGRESS", "node", "ref.node_id"),
	},
	{
		Name: apipb.AgentService_ReportCheckpoint_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("REPORT_CHECKPOINT", "node", "ref.node_id"),
	},
	{
		// Each delivery of secrets to a node is recorded.
		Name: apipb.AgentService_FetchSecrets_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: session("FETCH_SECRETS", "", "seat.job_id"),
	},
	{
		Name: apipb.AgentService_FetchCode_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: session("FETCH_CODE", "", "seat.job_id"), Limiter: AgentStreams,
	},
	{
		Name: apipb.AgentService_StoreLogs_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("STORE_LOGS", "node", "ref.node_id"), LargeBody: true,
	},
	{
		Name: apipb.AgentService_ServeFiles_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("SERVE_FILES", "node"), Limiter: AgentStreams,
	},
	{
		// The session itself is recorded for the user.
		Name: apipb.AgentService_JoinSession_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("JOIN_SESSION", "node", "ref.node_id"), Limiter: AgentStreams,
	},
	{
		// It is an act of the job and not of a user, and a job may have thousands of them.
		Name: apipb.AgentService_RunRankSession_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("RUN_RANK_SESSION", "", "seat.job_id"), Limiter: RankSessions,
	},
	{
		Name: apipb.AgentService_ListRanks_FullMethodName, Permission: roles.AgentAct, Scope: NodeScope,
		Audit: report("LIST_RANKS", "", "seat.job_id"),
	},
}
