package api

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/policy/roles"
)

// access is the one table of who may call what, and where that counts. A method
// that is not in it is nobody's.
var access = map[string]rule{
	apipb.ClusterService_GetHealth_FullMethodName: anyone,
	apipb.ClusterService_GetReady_FullMethodName:  anyone,

	apipb.JobService_SubmitJob_FullMethodName:         {roles.JobSubmit, ofSpec},
	apipb.JobService_SubmitJobs_FullMethodName:        {roles.JobSubmit, somewhere}, // each job is looked at by itself
	apipb.JobService_GetJob_FullMethodName:            {roles.JobRead, ofJob},
	apipb.JobService_ListJobs_FullMethodName:          {roles.JobRead, somewhere},
	apipb.JobService_CancelJob_FullMethodName:         {roles.JobCancel, ofJob},
	apipb.JobService_RetryJob_FullMethodName:          {roles.JobSubmit, ofJob},
	apipb.JobService_ListJobEvents_FullMethodName:     {roles.JobRead, ofJob},
	apipb.JobService_StreamLogs_FullMethodName:        {roles.JobRead, ofJob},
	apipb.JobService_ExplainJob_FullMethodName:        {roles.JobRead, ofJob},
	apipb.JobService_PlanJob_FullMethodName:           {roles.JobSubmit, ofSpec},
	apipb.JobService_PredictJob_FullMethodName:        {roles.JobRead, ofJobOrSpec},
	apipb.JobService_ListPreemptions_FullMethodName:   {roles.JobRead, somewhere},
	apipb.JobService_PlanConsolidation_FullMethodName: {roles.ClusterRead, everywhere},

	apipb.QueueService_CreateQueue_FullMethodName: {roles.QueueWrite, ofNewQueue},
	apipb.QueueService_GetQueue_FullMethodName:    {roles.QueueRead, ofQueue},
	apipb.QueueService_ListQueues_FullMethodName:  {roles.QueueRead, inTenant},
	apipb.QueueService_UpdateQueue_FullMethodName: {roles.QueueWrite, ofQueue},
	apipb.QueueService_DeleteQueue_FullMethodName: {roles.QueueWrite, ofQueue},
	apipb.QueueService_GetFairness_FullMethodName: {roles.QueueRead, inTenant},

	apipb.TopologyService_GetTopology_FullMethodName:   {roles.NodeRead, somewhere},
	apipb.TopologyService_ApplyTopology_FullMethodName: {roles.TopologyWrite, everywhere},

	apipb.ReservationService_CreateReservation_FullMethodName: {roles.ReservationWrite, everywhere},
	apipb.ReservationService_GetReservation_FullMethodName:    {roles.ReservationRead, somewhere},
	apipb.ReservationService_ListReservations_FullMethodName:  {roles.ReservationRead, somewhere},
	apipb.ReservationService_DeleteReservation_FullMethodName: {roles.ReservationWrite, everywhere},

	apipb.PolicyService_ApplyPolicy_FullMethodName:       {roles.PolicyWrite, ofNewPolicy},
	apipb.PolicyService_GetPolicy_FullMethodName:         {roles.PolicyRead, ofPolicy},
	apipb.PolicyService_ListPolicies_FullMethodName:      {roles.PolicyRead, somewhere},
	apipb.PolicyService_DeletePolicy_FullMethodName:      {roles.PolicyWrite, ofPolicy},
	apipb.PolicyService_ListAlertChannels_FullMethodName: {roles.PolicyRead, everywhere},
	apipb.PolicyService_TestAlertChannel_FullMethodName:  {roles.PolicyWrite, everywhere},

	apipb.HistoryService_GetUsage_FullMethodName:    {roles.UsageRead, ofUsage},
	apipb.HistoryService_ListPrices_FullMethodName:  {roles.UsageRead, somewhere},
	apipb.HistoryService_SetPrice_FullMethodName:    {roles.PriceWrite, everywhere},
	apipb.HistoryService_DeletePrice_FullMethodName: {roles.PriceWrite, everywhere},

	apipb.TenantService_CreateTenant_FullMethodName: {roles.TenantWrite, everywhere},
	apipb.TenantService_GetTenant_FullMethodName:    {roles.TenantRead, ofTenant},
	apipb.TenantService_ListTenants_FullMethodName:  {roles.TenantRead, somewhere},
	apipb.TenantService_UpdateTenant_FullMethodName: {roles.TenantWrite, everywhere},
	apipb.TenantService_DeleteTenant_FullMethodName: {roles.TenantWrite, everywhere},

	apipb.ClusterService_ListNodes_FullMethodName:        {roles.NodeRead, somewhere},
	apipb.ClusterService_GetNode_FullMethodName:          {roles.NodeRead, somewhere},
	apipb.ClusterService_CordonNode_FullMethodName:       {roles.NodeWrite, everywhere},
	apipb.ClusterService_UncordonNode_FullMethodName:     {roles.NodeWrite, everywhere},
	apipb.ClusterService_DrainNode_FullMethodName:        {roles.NodeWrite, everywhere},
	apipb.ClusterService_GetClusterStatus_FullMethodName: {roles.NodeRead, somewhere},
	apipb.ClusterService_WatchEvents_FullMethodName:      {roles.JobRead, somewhere},
	apipb.ClusterService_DumpStore_FullMethodName:        {roles.StoreRead, everywhere},
	apipb.ClusterService_BackupStore_FullMethodName:      {roles.StoreRead, everywhere},
	apipb.ClusterService_RecordState_FullMethodName:      {roles.StoreRead, everywhere},
	apipb.ClusterService_GetServerStatus_FullMethodName:  {roles.ServerRead, everywhere},
	apipb.ClusterService_RemoveNode_FullMethodName:       {roles.NodeWrite, everywhere},

	apipb.IdentityService_WhoAmI_FullMethodName:        everybody,
	apipb.IdentityService_CanI_FullMethodName:          everybody,
	apipb.IdentityService_CreateToken_FullMethodName:   {roles.TokenWrite, somewhere}, // what it is bound to decides
	apipb.IdentityService_ListTokens_FullMethodName:    {roles.TokenRead, somewhere},
	apipb.IdentityService_RevokeToken_FullMethodName:   {roles.TokenWrite, somewhere},
	apipb.IdentityService_CreateBinding_FullMethodName: {roles.BindingWrite, somewhere},
	apipb.IdentityService_ListBindings_FullMethodName:  {roles.BindingRead, somewhere},
	apipb.IdentityService_DeleteBinding_FullMethodName: {roles.BindingWrite, somewhere},

	apipb.TrustService_CreateJoinToken_FullMethodName:  {roles.NodeWrite, everywhere},
	apipb.TrustService_ListJoinTokens_FullMethodName:   {roles.ServerRead, everywhere},
	apipb.TrustService_RevokeJoinToken_FullMethodName:  {roles.NodeWrite, everywhere},
	apipb.TrustService_RevokeNode_FullMethodName:       {roles.NodeWrite, everywhere},
	apipb.TrustService_ListRevocations_FullMethodName:  {roles.ServerRead, everywhere},
	apipb.TrustService_GetAuthority_FullMethodName:     everybody,
	apipb.TrustService_JoinNode_FullMethodName:         anyone,                      // the join token in it is checked
	apipb.TrustService_RenewCertificate_FullMethodName: {roles.AgentAct, somewhere}, // it is given what its certificate says

	apipb.AuditService_ListAuditEntries_FullMethodName: {roles.AuditRead, ofAudit},
	apipb.AuditService_GetAuditHead_FullMethodName:     {roles.AuditRead, everywhere},
	apipb.AuditService_VerifyAudit_FullMethodName:      {roles.AuditRead, everywhere},

	apipb.AgentService_OpenSession_FullMethodName:      {roles.AgentAct, ofNode},
	apipb.AgentService_RenewSession_FullMethodName:     {roles.AgentAct, ofNode},
	apipb.AgentService_UpdateNode_FullMethodName:       {roles.AgentAct, ofNode},
	apipb.AgentService_CloseSession_FullMethodName:     {roles.AgentAct, ofNode},
	apipb.AgentService_WatchSeats_FullMethodName:       {roles.AgentAct, ofNode},
	apipb.AgentService_ClaimSeat_FullMethodName:        {roles.AgentAct, ofNode},
	apipb.AgentService_FinishSeat_FullMethodName:       {roles.AgentAct, ofNode},
	apipb.AgentService_DeclineSeat_FullMethodName:      {roles.AgentAct, ofNode},
	apipb.AgentService_ReleaseSeat_FullMethodName:      {roles.AgentAct, ofNode},
	apipb.AgentService_ReportClean_FullMethodName:      {roles.AgentAct, ofNode},
	apipb.AgentService_ReportProgress_FullMethodName:   {roles.AgentAct, ofNode},
	apipb.AgentService_ReportCheckpoint_FullMethodName: {roles.AgentAct, ofNode},
	apipb.AgentService_ServeFiles_FullMethodName:       {roles.AgentAct, ofNode},
}

// admit finds out who is asking and whether the method is theirs to call at all.
// Where it acts is in its request: permit looks at that.
func (d *Doors) admit(ctx context.Context, method string) (context.Context, error) {
	r, ok := access[method]
	if !ok {
		return ctx, ares.Errorf(ares.Forbidden, "nobody may call %s", method)
	}
	if r.open() {
		return ctx, nil
	}
	if _, known := callerOf(ctx); !known { // the REST door has asked already
		who, err := d.identify(ctx)
		if err != nil {
			return ctx, err
		}
		ctx = withCaller(ctx, who)
	}
	if err := r.admits(identityOf(ctx)); err != nil || r.verb != roles.AgentAct {
		return ctx, err
	}
	return ctx, d.cfg.Trust.admitsAgent(ctx, identityOf(ctx))
}

// identify finds who makes a gRPC call: by its token, or else by the certificate
// of its connection.
func (d *Doors) identify(ctx context.Context) (*auth.Caller, error) {
	token := bearerOf(metadata.ValueFromIncomingContext(ctx, "authorization"))
	if leaf := presented(ctx); leaf != nil && token == "" && d.cfg.Certified != nil {
		return auth.NewCaller(ctx, func(ctx context.Context) (ares.Identity, error) { return d.cfg.Certified(ctx, leaf) })
	}
	return d.cfg.Auth.Check(ctx, token)
}

// bearerOf reads a token out of Authorization values, "" when there is none.
func bearerOf(values []string) string {
	if len(values) != 1 {
		return ""
	}
	scheme, token, ok := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

type callerKey struct{}

func withCaller(ctx context.Context, who *auth.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, who)
}

func callerOf(ctx context.Context) (*auth.Caller, bool) {
	who, ok := ctx.Value(callerKey{}).(*auth.Caller)
	return who, ok
}

// nobody has no rights: it stands for a caller where none was asked for.
var nobody = &ares.Identity{}

// identityOf is who makes a call.
func identityOf(ctx context.Context) *ares.Identity {
	if who, ok := callerOf(ctx); ok {
		return who.Identity()
	}
	return nobody
}
