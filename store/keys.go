package store

import (
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Every key is under prefix and readable with etcdctl.
const (
	prefix      = "/ares/"
	jobsKey     = prefix + "jobs/"
	runsKey     = prefix + "runs/"
	leasesKey   = prefix + "leases/"
	sessionsKey = prefix + "sessions/"
	nodesKey    = prefix + "nodes/"
	cordonsKey  = prefix + "cordons/"
	tenantsKey  = prefix + "tenants/"
	progressKey = prefix + "progress/"
	forecastKey = prefix + "predicted/" // after the jobs, so that a snapshot has those first
	awaitedKey  = prefix + "awaited/"
	tokensKey   = prefix + "tokens/"
	bindingsKey = prefix + "bindings/"
	queuesKey   = prefix + "queues/"
	usageKey    = prefix + "usage/"
	windowsKey  = prefix + "reservations/"
	scoresKey   = prefix + "scores/"
	joinsKey    = prefix + "jointokens/"
	joinedKey   = prefix + "joined/"
	revokedKey  = prefix + "revoked/"
	caKey       = prefix + "authority"
	policiesKey = prefix + "policies/"
	topologyKey = prefix + "topology/fleet"
	planKey     = prefix + "loop/plan"
	leaderKey   = prefix + "loop/leader"
	identityKey = prefix + "loop/identity"
	restoredKey = prefix + "loop/restored"
	memoryKey   = prefix + "loop/forecaster"
)

func jobKey(id ares.JobID) string     { return jobsKey + string(id) }
func runKey(id ares.JobID) string     { return runsKey + string(id) }
func leaseKey(id ares.JobID) string   { return leasesKey + string(id) }
func claimsKey(id ares.JobID) string  { return leaseKey(id) + "/" }
func progressOf(id ares.JobID) string { return progressKey + string(id) }
func forecastOf(id ares.JobID) string { return forecastKey + string(id) }
func awaitedOf(id ares.JobID) string  { return awaitedKey + string(id) }
func sessionKey(node string) string   { return sessionsKey + node }
func nodeKey(node string) string      { return nodesKey + node }
func cordonKey(node string) string    { return cordonsKey + node }
func scoreKey(node string) string     { return scoresKey + node }
func tenantKey(id string) string      { return tenantsKey + id }
func joinKey(id string) string        { return joinsKey + id }
func joinedOf(node string) string     { return joinedKey + node }
func revokedOf(node string) string    { return revokedKey + node }
func windowKey(name string) string    { return windowsKey + name }
func policyKey(id string) string      { return policiesKey + id }
func queuesOf(tenant string) string   { return queuesKey + tenant + "/" }
func usageOf(tenant string) string    { return usageKey + tenant + "/" }
func queueKey(tenant, name string) string {
	return queuesOf(tenant) + name
}

func claimKey(id ares.JobID, rank int) string {
	return claimsKey(id) + strconv.Itoa(rank)
}

// rest splits a key into its room and the name inside it.
func rest(key string) (room, name string) {
	room, name, _ = strings.Cut(strings.TrimPrefix(key, prefix), "/")
	return room, name
}
