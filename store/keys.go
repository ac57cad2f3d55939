package store

import (
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Every key begins with the constant `prefix` and is readable with etcdctl.
const (
	prefix          = "/ares/"
	jobsKey         = prefix + "jobs/"
	runsKey         = prefix + "runs/"
	leasesKey       = prefix + "leases/"
	sessionsKey     = prefix + "sessions/"
	nodesKey        = prefix + "nodes/"
	cordonsKey      = prefix + "cordons/"
	tenantsKey      = prefix + "tenants/"
	progressKey     = prefix + "progress/"
	forecastKey     = prefix + "predicted/" // sorts after the jobs, so that a snapshot contains the jobs first
	awaitedKey      = prefix + "awaited/"
	tokensKey       = prefix + "tokens/"
	bindingsKey     = prefix + "bindings/"
	queuesKey       = prefix + "queues/"
	usageKey        = prefix + "usage/"
	reservationsKey = prefix + "reservations/"
	scoresKey       = prefix + "scores/"
	joinTokensKey   = prefix + "jointokens/"
	joinedKey       = prefix + "joined/"
	revokedKey      = prefix + "revoked/"
	authorityKey    = prefix + "authority"
	policiesKey     = prefix + "policies/"
	auditMarksKey   = prefix + "audit/mark/"
	secretsKey      = prefix + "secrets/"
	secretKeysKey   = prefix + "secretkeys/"
	clustersKey     = prefix + "clusters/"
	clusterCertKey  = prefix + "federation/certificate"
	topologyKey     = prefix + "topology/fleet"
	planKey         = prefix + "loop/plan"
	leaderKey       = prefix + "loop/leader"
	identityKey     = prefix + "loop/identity"
	restoredKey     = prefix + "loop/restored"
	forecasterKey   = prefix + "loop/forecaster"
	objectsKey      = prefix + "loop/objects"
	askingKey       = prefix + "loop/asking"
	rollbacksKey    = prefix + "loop/rollback/"
	grantsKey       = prefix + "grants/"
	loansKey        = prefix + "loans/"
	membershipKey   = prefix + "federation/membership"
	floorsKey       = prefix + "federation/floors/"
	grantClaimsKey  = prefix + "federation/claims/"
	rosterKey       = prefix + "federation/roster"
	metadataKey     = prefix + "federation/metadata/"
	federationKey   = prefix + "federation/"
)

func jobKey(id ares.JobID) string        { return jobsKey + string(id) }
func runKey(id ares.JobID) string        { return runsKey + string(id) }
func leaseKey(id ares.JobID) string      { return leasesKey + string(id) }
func claimsKey(id ares.JobID) string     { return leaseKey(id) + "/" }
func progressKeyOf(id ares.JobID) string { return progressKey + string(id) }
func forecastKeyOf(id ares.JobID) string { return forecastKey + string(id) }
func awaitedKeyOf(id ares.JobID) string  { return awaitedKey + string(id) }
func grantKey(id ares.JobID) string      { return grantsKey + string(id) }
func floorKey(id ares.JobID) string      { return floorsKey + string(id) }
func grantClaimKey(id ares.JobID) string { return grantClaimsKey + string(id) }
func sessionKey(node string) string      { return sessionsKey + node }
func nodeKey(node string) string         { return nodesKey + node }
func cordonKey(node string) string       { return cordonsKey + node }
func scoreKey(node string) string        { return scoresKey + node }
func tenantKey(id string) string         { return tenantsKey + id }
func joinTokenKey(id string) string      { return joinTokensKey + id }
func joinedNodeKey(node string) string   { return joinedKey + node }
func revokedNodeKey(node string) string  { return revokedKey + node }
func reservationKey(name string) string  { return reservationsKey + name }
func policyKey(id string) string         { return policiesKey + id }
func auditMarkKey(server string) string  { return auditMarksKey + server }
func clusterKey(name string) string      { return clustersKey + name }
func secretsOf(tenant string) string     { return secretsKey + tenant + "/" }
func queuesOf(tenant string) string      { return queuesKey + tenant + "/" }
func usageOf(tenant string) string       { return usageKey + tenant + "/" }
func queueKey(tenant, name string) string {
	return queuesOf(tenant) + name
}

func loansOf(tenant string) string          { return loansKey + tenant + "/" }
func loanKey(tenant, cluster string) string { return loansOf(tenant) + cluster }

func claimKey(id ares.JobID, rank int) string {
	return claimsKey(id) + strconv.Itoa(rank)
}

// splitKey splits a key into its first part and the name that follows. In the code, the first
// part is called the room.
func splitKey(key string) (room, name string) {
	room, name, _ = strings.Cut(strings.TrimPrefix(key, prefix), "/")
	return room, name
}
