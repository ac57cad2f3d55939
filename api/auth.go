package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// The roles a token may have.
const (
	RoleAdmin = "admin" // may call everything but the agents' door
	RoleNode  = "node"  // may call the agents' door alone
)

// Identity is who a token belongs to.
type Identity struct {
	Name string
	Role string
	hash [sha256.Size]byte
}

// grant says who may call a method.
type grant int

const (
	anyone grant = iota + 1
	admins
	nodes
)

// access is the one table of who may call what. A method that is not in it is
// nobody's.
var access = map[string]grant{
	apipb.ClusterService_GetHealth_FullMethodName: anyone,
	apipb.ClusterService_GetReady_FullMethodName:  anyone,

	apipb.JobService_SubmitJob_FullMethodName:         admins,
	apipb.JobService_SubmitJobs_FullMethodName:        admins,
	apipb.JobService_GetJob_FullMethodName:            admins,
	apipb.JobService_ListJobs_FullMethodName:          admins,
	apipb.JobService_CancelJob_FullMethodName:         admins,
	apipb.JobService_RetryJob_FullMethodName:          admins,
	apipb.JobService_ListJobEvents_FullMethodName:     admins,
	apipb.JobService_StreamLogs_FullMethodName:        admins,
	apipb.JobService_ExplainJob_FullMethodName:        admins,
	apipb.JobService_PlanJob_FullMethodName:           admins,
	apipb.JobService_PredictJob_FullMethodName:        admins,
	apipb.JobService_ListPreemptions_FullMethodName:   admins,
	apipb.JobService_PlanConsolidation_FullMethodName: admins,

	apipb.QueueService_CreateQueue_FullMethodName: admins,
	apipb.QueueService_GetQueue_FullMethodName:    admins,
	apipb.QueueService_ListQueues_FullMethodName:  admins,
	apipb.QueueService_UpdateQueue_FullMethodName: admins,
	apipb.QueueService_DeleteQueue_FullMethodName: admins,
	apipb.QueueService_GetFairness_FullMethodName: admins,

	apipb.TopologyService_GetTopology_FullMethodName:   admins,
	apipb.TopologyService_ApplyTopology_FullMethodName: admins,

	apipb.ReservationService_CreateReservation_FullMethodName: admins,
	apipb.ReservationService_GetReservation_FullMethodName:    admins,
	apipb.ReservationService_ListReservations_FullMethodName:  admins,
	apipb.ReservationService_DeleteReservation_FullMethodName: admins,

	apipb.PolicyService_ApplyPolicy_FullMethodName:       admins,
	apipb.PolicyService_GetPolicy_FullMethodName:         admins,
	apipb.PolicyService_ListPolicies_FullMethodName:      admins,
	apipb.PolicyService_DeletePolicy_FullMethodName:      admins,
	apipb.PolicyService_ListAlertChannels_FullMethodName: admins,
	apipb.PolicyService_TestAlertChannel_FullMethodName:  admins,
	apipb.HistoryService_GetUsage_FullMethodName:         admins,
	apipb.HistoryService_ListPrices_FullMethodName:       admins,
	apipb.HistoryService_SetPrice_FullMethodName:         admins,
	apipb.HistoryService_DeletePrice_FullMethodName:      admins,

	apipb.TenantService_CreateTenant_FullMethodName: admins,
	apipb.TenantService_GetTenant_FullMethodName:    admins,
	apipb.TenantService_ListTenants_FullMethodName:  admins,
	apipb.TenantService_UpdateTenant_FullMethodName: admins,
	apipb.TenantService_DeleteTenant_FullMethodName: admins,

	apipb.ClusterService_ListNodes_FullMethodName:        admins,
	apipb.ClusterService_GetNode_FullMethodName:          admins,
	apipb.ClusterService_CordonNode_FullMethodName:       admins,
	apipb.ClusterService_UncordonNode_FullMethodName:     admins,
	apipb.ClusterService_DrainNode_FullMethodName:        admins,
	apipb.ClusterService_GetClusterStatus_FullMethodName: admins,
	apipb.ClusterService_WatchEvents_FullMethodName:      admins,
	apipb.ClusterService_DumpStore_FullMethodName:        admins,
	apipb.ClusterService_BackupStore_FullMethodName:      admins,
	apipb.ClusterService_RecordState_FullMethodName:      admins,
	apipb.ClusterService_GetServerStatus_FullMethodName:  admins,
	apipb.ClusterService_RemoveNode_FullMethodName:       admins,

	apipb.TrustService_CreateJoinToken_FullMethodName:  admins,
	apipb.TrustService_ListJoinTokens_FullMethodName:   admins,
	apipb.TrustService_RevokeJoinToken_FullMethodName:  admins,
	apipb.TrustService_RevokeNode_FullMethodName:       admins,
	apipb.TrustService_ListRevocations_FullMethodName:  admins,
	apipb.TrustService_GetAuthority_FullMethodName:     admins,
	apipb.TrustService_JoinNode_FullMethodName:         anyone, // the join token in it is checked
	apipb.TrustService_RenewCertificate_FullMethodName: nodes,
	apipb.AuditService_ListAuditEntries_FullMethodName: admins,
	apipb.AuditService_GetAuditHead_FullMethodName:     admins,
	apipb.AuditService_VerifyAudit_FullMethodName:      admins,

	apipb.AgentService_OpenSession_FullMethodName:      nodes,
	apipb.AgentService_RenewSession_FullMethodName:     nodes,
	apipb.AgentService_UpdateNode_FullMethodName:       nodes,
	apipb.AgentService_CloseSession_FullMethodName:     nodes,
	apipb.AgentService_WatchSeats_FullMethodName:       nodes,
	apipb.AgentService_ClaimSeat_FullMethodName:        nodes,
	apipb.AgentService_FinishSeat_FullMethodName:       nodes,
	apipb.AgentService_DeclineSeat_FullMethodName:      nodes,
	apipb.AgentService_ReleaseSeat_FullMethodName:      nodes,
	apipb.AgentService_ReportClean_FullMethodName:      nodes,
	apipb.AgentService_ReportProgress_FullMethodName:   nodes,
	apipb.AgentService_ReportCheckpoint_FullMethodName: nodes,
	apipb.AgentService_ServeFiles_FullMethodName:       nodes,
}

// may refuses an identity what it is not granted.
func (id Identity) may(g grant) error {
	switch {
	case g == anyone, g == admins && id.Role == RoleAdmin, g == nodes && id.Role == RoleNode:
		return nil
	case g == nodes:
		return ares.Errorf(ares.Forbidden, "this call is for node agents: use a node token (this one, %s, has role %s)", id.Name, id.Role)
	default:
		return ares.Errorf(ares.Forbidden, "token %s has role %s, which may not do this: use an admin token", id.Name, id.Role)
	}
}

// How long what was read of the tokens is believed.
const (
	reloadAtMost = time.Second      // for a token that is not known
	refreshAfter = 30 * time.Second // so that a token taken away ends
	staleAfter   = 5 * time.Minute  // while the store does not answer
	loadTimeout  = 2 * time.Second
)

// Auth knows the bearer tokens by their hashes. It is safe for concurrent use.
type Auth struct {
	load func(context.Context) ([]store.Token, error)
	now  func() time.Time

	loading sync.Mutex // held while the store is asked
	mu      sync.RWMutex
	tokens  []store.Token
	tried   time.Time // when the store was last asked
	loaded  time.Time // when it last answered
	err     error     // what it answered last
}

// NewAuth makes an Auth that reads the tokens with load, when it first needs
// them and again when it meets one it does not know, at most once a second:
// another server may have registered it.
func NewAuth(load func(ctx context.Context) ([]store.Token, error)) *Auth {
	return &Auth{load: load, now: time.Now}
}

// NewToken makes a token and the hash to register for it.
func NewToken() (token string, hash []byte) {
	token = "ares-" + strings.ToLower(rand.Text()+rand.Text())
	return token, HashToken(token)
}

// HashToken is what the store keeps of a token.
func HashToken(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Check finds the identity of a token.
func (a *Auth) Check(ctx context.Context, token string) (Identity, error) {
	if token == "" {
		return Identity{}, ares.Errorf(ares.Unauthentic, "no token: send the header Authorization: Bearer <token> (`ares up` writes it to admin.token in its data directory)")
	}
	if len(token) > maxTokenBytes {
		return Identity{}, unknownToken()
	}
	return a.find(ctx, sha256.Sum256([]byte(token)))
}

// known finds the identity of a token without asking the store.
func (a *Auth) known(token string) (Identity, bool) {
	if token == "" || len(token) > maxTokenBytes {
		return Identity{}, false
	}
	id, ok, age := a.lookup(sha256.Sum256([]byte(token)))
	return id, ok && age <= staleAfter
}

// Recheck says whether an identity that was found before is still good.
func (a *Auth) Recheck(ctx context.Context, id Identity) error {
	_, err := a.find(ctx, id.hash)
	return err
}

func unknownToken() error {
	return ares.Errorf(ares.Unauthentic, "this token is not known: it may have been replaced; read it anew from admin.token in the server's data directory")
}

func (a *Auth) find(ctx context.Context, hash [sha256.Size]byte) (Identity, error) {
	id, ok, age := a.lookup(hash)
	switch {
	case ok && age > refreshAfter && a.loading.TryLock(): // one asks, the others go on
		a.reload(ctx)
		a.loading.Unlock()
	case !ok:
		a.loading.Lock()
		a.reload(ctx)
		a.loading.Unlock()
	case age <= staleAfter:
		return id, nil
	}
	if id, ok, age = a.lookup(hash); ok && age <= staleAfter {
		return id, nil
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.err != nil {
		return Identity{}, ares.Errorf(ares.Unavailable, "the token cannot be checked: the store does not answer; try again")
	}
	return Identity{}, unknownToken()
}

// lookup compares a hash with every known one, in the same time for each.
func (a *Auth) lookup(hash [sha256.Size]byte) (id Identity, ok bool, age time.Duration) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, t := range a.tokens {
		if subtle.ConstantTimeCompare(t.Hash, hash[:]) == 1 {
			id, ok = Identity{Name: t.Name, Role: t.Role, hash: hash}, true
		}
	}
	return id, ok, a.now().Sub(a.loaded)
}

// reload asks the store unless that was just done. The caller holds loading.
func (a *Auth) reload(ctx context.Context) {
	a.mu.RLock()
	recent := !a.tried.IsZero() && a.now().Sub(a.tried) < reloadAtMost
	a.mu.RUnlock()
	if recent {
		return
	}
	// The caller may give up, but the answer is for everybody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	defer cancel()
	tokens, err := a.load(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tried, a.err = a.now(), err
	if err == nil {
		a.tokens, a.loaded = tokens, a.tried
	}
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

type identityKey struct{}

func withIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// identityOf is who makes a call.
func identityOf(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}
