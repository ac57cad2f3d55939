package api

import (
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ares-scheduler/ares/apipb"
)

// keeping says what of a method's calls is in the audit.
type keeping int

const (
	// changes are recorded before they are answered, whatever became of them. One
	// that cannot be recorded is not begun.
	changes keeping = iota
	// opens is for streams that hand out what is not the caller's alone: they are
	// recorded before their first message.
	opens
	// reads are recorded when they are refused.
	reads
	// sessions are noted, and wait for nothing: a server whose disk is full must
	// not lose its nodes for it.
	sessions
	// reports are what agents say many times a second: only who has no right to is
	// recorded.
	reports
	// nothing of what anybody may ask.
	nothing
)

// deed is how a method's calls are recorded.
type deed struct {
	keep   keeping
	action string
	// kind of the object, and the fields of the request, or of the answer, that
	// name it. A job is named by its ID alone.
	kind  string
	names []string
}

// deeds has a row for every method. A new one without a row fails a test; until
// then it is recorded as a change.
var deeds = map[string]deed{
	apipb.ClusterService_GetHealth_FullMethodName: {keep: nothing},
	apipb.ClusterService_GetReady_FullMethodName:  {keep: nothing},

	apipb.JobService_SubmitJob_FullMethodName:         {changes, "SUBMIT_JOB", "", []string{"job_id"}},
	apipb.JobService_SubmitJobs_FullMethodName:        {changes, "SUBMIT_JOB", "", nil}, // each job of its own
	apipb.JobService_CancelJob_FullMethodName:         {changes, "CANCEL_JOB", "", []string{"job_id"}},
	apipb.JobService_RetryJob_FullMethodName:          {changes, "RETRY_JOB", "", []string{"job_id"}},
	apipb.JobService_GetJob_FullMethodName:            {reads, "GET_JOB", "", []string{"job_id"}},
	apipb.JobService_ListJobs_FullMethodName:          {reads, "LIST_JOBS", "", nil},
	apipb.JobService_ListJobEvents_FullMethodName:     {reads, "LIST_JOB_EVENTS", "", []string{"job_id"}},
	apipb.JobService_StreamLogs_FullMethodName:        {reads, "STREAM_LOGS", "", []string{"job_id"}},
	apipb.JobService_ExplainJob_FullMethodName:        {reads, "EXPLAIN_JOB", "", []string{"job_id"}},
	apipb.JobService_PlanJob_FullMethodName:           {reads, "PLAN_JOB", "", nil},
	apipb.JobService_PredictJob_FullMethodName:        {reads, "PREDICT_JOB", "", []string{"job_id"}},
	apipb.JobService_ListPreemptions_FullMethodName:   {reads, "LIST_PREEMPTIONS", "", nil},
	apipb.JobService_PlanConsolidation_FullMethodName: {reads, "PLAN_CONSOLIDATION", "", nil},

	apipb.QueueService_CreateQueue_FullMethodName: {changes, "CREATE_QUEUE", "queue", []string{"queue.tenant_id", "queue.name"}},
	apipb.QueueService_UpdateQueue_FullMethodName: {changes, "UPDATE_QUEUE", "queue", []string{"tenant_id", "name"}},
	apipb.QueueService_DeleteQueue_FullMethodName: {changes, "DELETE_QUEUE", "queue", []string{"tenant_id", "name"}},
	apipb.QueueService_GetQueue_FullMethodName:    {reads, "GET_QUEUE", "queue", []string{"tenant_id", "name"}},
	apipb.QueueService_ListQueues_FullMethodName:  {reads, "LIST_QUEUES", "", nil},
	apipb.QueueService_GetFairness_FullMethodName: {reads, "GET_FAIRNESS", "", nil},

	apipb.HistoryService_SetPrice_FullMethodName:    {changes, "SET_PRICE", "price", []string{"price.gpu_model", "price.region", "price.from"}},
	apipb.HistoryService_DeletePrice_FullMethodName: {changes, "DELETE_PRICE", "price", []string{"gpu_model", "region", "from"}},
	apipb.HistoryService_ListPrices_FullMethodName:  {reads, "LIST_PRICES", "", nil},
	apipb.HistoryService_GetUsage_FullMethodName:    {reads, "GET_USAGE", "", nil},

	apipb.TopologyService_ApplyTopology_FullMethodName: {changes, "APPLY_TOPOLOGY", "topology", nil},
	apipb.TopologyService_GetTopology_FullMethodName:   {reads, "GET_TOPOLOGY", "topology", nil},

	apipb.ReservationService_CreateReservation_FullMethodName: {changes, "CREATE_RESERVATION", "reservation", []string{"reservation.name"}},
	apipb.ReservationService_DeleteReservation_FullMethodName: {changes, "DELETE_RESERVATION", "reservation", []string{"name"}},
	apipb.ReservationService_GetReservation_FullMethodName:    {reads, "GET_RESERVATION", "reservation", []string{"name"}},
	apipb.ReservationService_ListReservations_FullMethodName:  {reads, "LIST_RESERVATIONS", "", nil},

	apipb.TenantService_CreateTenant_FullMethodName: {changes, "CREATE_TENANT", "tenant", []string{"tenant.id"}},
	apipb.TenantService_UpdateTenant_FullMethodName: {changes, "UPDATE_TENANT", "tenant", []string{"tenant_id"}},
	apipb.TenantService_DeleteTenant_FullMethodName: {changes, "DELETE_TENANT", "tenant", []string{"tenant_id"}},
	apipb.TenantService_GetTenant_FullMethodName:    {reads, "GET_TENANT", "tenant", []string{"tenant_id"}},
	apipb.TenantService_ListTenants_FullMethodName:  {reads, "LIST_TENANTS", "", nil},

	apipb.ClusterService_CordonNode_FullMethodName:       {changes, "CORDON_NODE", "node", []string{"node_id"}},
	apipb.ClusterService_UncordonNode_FullMethodName:     {changes, "UNCORDON_NODE", "node", []string{"node_id"}},
	apipb.ClusterService_DrainNode_FullMethodName:        {changes, "DRAIN_NODE", "node", []string{"node_id"}},
	apipb.ClusterService_RemoveNode_FullMethodName:       {changes, "REMOVE_NODE", "node", []string{"node_id"}},
	apipb.ClusterService_GetNode_FullMethodName:          {reads, "GET_NODE", "node", []string{"node_id"}},
	apipb.ClusterService_ListNodes_FullMethodName:        {reads, "LIST_NODES", "", nil},
	apipb.ClusterService_GetClusterStatus_FullMethodName: {reads, "GET_CLUSTER_STATUS", "", nil},
	apipb.ClusterService_GetServerStatus_FullMethodName:  {reads, "GET_SERVER_STATUS", "", nil},
	apipb.ClusterService_WatchEvents_FullMethodName:      {reads, "WATCH_EVENTS", "", []string{"job_id"}},
	apipb.ClusterService_DumpStore_FullMethodName:        {opens, "DUMP_STORE", "store", []string{"prefix"}},
	apipb.ClusterService_BackupStore_FullMethodName:      {opens, "BACKUP_STORE", "store", nil},
	apipb.ClusterService_RecordState_FullMethodName:      {opens, "RECORD_STATE", "store", nil},

	apipb.TrustService_CreateJoinToken_FullMethodName:  {changes, "CREATE_JOIN_TOKEN", "join-token", []string{"join_token.id"}},
	apipb.TrustService_RevokeJoinToken_FullMethodName:  {changes, "REVOKE_JOIN_TOKEN", "join-token", []string{"id"}},
	apipb.TrustService_RevokeNode_FullMethodName:       {changes, "REVOKE_NODE", "node", []string{"node_id"}},
	apipb.TrustService_JoinNode_FullMethodName:         {changes, "JOIN_NODE", "node", []string{"node_id"}},
	apipb.TrustService_RenewCertificate_FullMethodName: {sessions, "RENEW_CERTIFICATE", "", nil}, // of the node that its certificate names
	apipb.TrustService_ListJoinTokens_FullMethodName:   {reads, "LIST_JOIN_TOKENS", "", nil},
	apipb.TrustService_ListRevocations_FullMethodName:  {reads, "LIST_REVOCATIONS", "", nil},
	apipb.TrustService_GetAuthority_FullMethodName:     {reads, "GET_AUTHORITY", "", nil},

	apipb.PolicyService_ApplyPolicy_FullMethodName:       {changes, "APPLY_POLICY", "policy", []string{"policy.tenant_id", "policy.name"}},
	apipb.PolicyService_DeletePolicy_FullMethodName:      {changes, "DELETE_POLICY", "policy", []string{"tenant_id", "name"}},
	apipb.PolicyService_TestAlertChannel_FullMethodName:  {changes, "TEST_ALERT_CHANNEL", "channel", []string{"name"}}, // an alert is sent
	apipb.PolicyService_GetPolicy_FullMethodName:         {reads, "GET_POLICY", "policy", []string{"tenant_id", "name"}},
	apipb.PolicyService_ListPolicies_FullMethodName:      {reads, "LIST_POLICIES", "", nil},
	apipb.PolicyService_ListAlertChannels_FullMethodName: {reads, "LIST_ALERT_CHANNELS", "", nil},

	apipb.IdentityService_CreateToken_FullMethodName:   {changes, "CREATE_TOKEN", "token", []string{"tenant_id", "name"}},
	apipb.IdentityService_RevokeToken_FullMethodName:   {changes, "REVOKE_TOKEN", "token", []string{"tenant_id", "name"}},
	apipb.IdentityService_CreateBinding_FullMethodName: {changes, "CREATE_BINDING", "binding", []string{"binding.subject", "binding.role", "binding.tenant_id", "binding.queue"}},
	apipb.IdentityService_DeleteBinding_FullMethodName: {changes, "DELETE_BINDING", "binding", []string{"subject", "role", "tenant_id", "queue"}},
	apipb.IdentityService_ListTokens_FullMethodName:    {reads, "LIST_TOKENS", "", nil},
	apipb.IdentityService_ListBindings_FullMethodName:  {reads, "LIST_BINDINGS", "", nil},
	apipb.IdentityService_WhoAmI_FullMethodName:        {reads, "WHO_AM_I", "", nil},
	apipb.IdentityService_CanI_FullMethodName:          {reads, "CAN_I", "", nil},

	apipb.AuditService_ListAuditEntries_FullMethodName: {reads, "LIST_AUDIT", "", nil},
	apipb.AuditService_GetAuditHead_FullMethodName:     {reads, "GET_AUDIT_HEAD", "", nil},
	apipb.AuditService_VerifyAudit_FullMethodName:      {reads, "VERIFY_AUDIT", "", nil},

	apipb.AgentService_OpenSession_FullMethodName:      {sessions, "OPEN_SESSION", "node", []string{"node.node_id"}},
	apipb.AgentService_RenewSession_FullMethodName:     {reports, "RENEW_SESSION", "node", []string{"ref.node_id"}},
	apipb.AgentService_UpdateNode_FullMethodName:       {reports, "UPDATE_NODE", "node", []string{"ref.node_id"}},
	apipb.AgentService_CloseSession_FullMethodName:     {reports, "CLOSE_SESSION", "node", []string{"ref.node_id"}},
	apipb.AgentService_WatchSeats_FullMethodName:       {reports, "WATCH_SEATS", "node", []string{"ref.node_id"}},
	apipb.AgentService_ClaimSeat_FullMethodName:        {reports, "CLAIM_SEAT", "node", []string{"ref.node_id"}},
	apipb.AgentService_FinishSeat_FullMethodName:       {reports, "FINISH_SEAT", "node", []string{"ref.node_id"}},
	apipb.AgentService_DeclineSeat_FullMethodName:      {reports, "DECLINE_SEAT", "node", []string{"ref.node_id"}},
	apipb.AgentService_ReleaseSeat_FullMethodName:      {reports, "RELEASE_SEAT", "node", []string{"ref.node_id"}},
	apipb.AgentService_ReportClean_FullMethodName:      {reports, "REPORT_CLEAN", "node", []string{"ref.node_id"}},
	apipb.AgentService_ReportProgress_FullMethodName:   {reports, "REPORT_PROGRESS", "node", []string{"ref.node_id"}},
	apipb.AgentService_ReportCheckpoint_FullMethodName: {reports, "REPORT_CHECKPOINT", "node", []string{"ref.node_id"}},
	apipb.AgentService_ServeFiles_FullMethodName:       {reports, "SERVE_FILES", "node", nil},
}

// deedOf finds how calls of a method are recorded.
func deedOf(method string) deed {
	if d, ok := deeds[method]; ok {
		return d
	}
	return deed{keep: changes, action: snake(method[strings.LastIndexByte(method, '/')+1:])}
}

// snake is a method's name as an action: SubmitJob is SUBMIT_JOB.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToUpper(r))
	}
	return out.String()
}

// object is what a call is about: by its answer where that has the name, as a
// submission's has, else by its request.
func (d *deed) object(req, resp proto.Message) string {
	var parts []string
	if d.kind != "" {
		parts = append(parts, d.kind)
	}
	for _, name := range d.names {
		value := textAt(resp, name)
		if value == "" {
			value = textAt(req, name)
		}
		if value != "" {
			parts = append(parts, value)
		}
	}
	return strings.Join(parts, "/")
}

// textAt reads a text of a message by its path, "" when there is none.
func textAt(m proto.Message, path string) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	at := m.ProtoReflect()
	for {
		name, rest, more := strings.Cut(path, ".")
		field := at.Descriptor().Fields().ByName(protoreflect.Name(name))
		switch {
		case field == nil || field.IsList() || field.IsMap():
			return ""
		case !more && field.Kind() == protoreflect.StringKind:
			return at.Get(field).String()
		case !more || field.Kind() != protoreflect.MessageKind:
			return ""
		}
		at, path = at.Get(field).Message(), rest
	}
}
