package main

const (
	offers     = "store/offer.go"
	bindVerb   = "store/bind.go"
	reports    = "store/report.go"
	regrants   = "store/regrant.go"
	granted    = "store/granted.go"
	acceptVerb = "store/accept.go"
	mirrors    = "mirror.go"
	grantsAt   = "federation.go"
	restoring  = "store/restore_federation.go"
	reads      = "federation/uplink_reads.go"
	session    = "federation/session.go"
)

func inStore(run string) Test      { return Test{Package: "./store", Run: run} }
func inFederation(run string) Test { return Test{Package: "./federation", Run: run} }

// These mutations remove the rules F1 to F13 between a hub and its clusters, one comparison at a time.
var federation = []Mutation{
	{
		"federation-F1-one-owner", "the comparison that a claimed offer is open",
		[]Edit{
			{bindVerb, "case h.grant.State == ares.GrantBound:", "case false:"},
			{bindVerb, "case !h.grant.IsOpenTo(c.Cluster):", "case false:"},
			{mirrors, "r.Stop != nil || r.Cluster != \"\" {", "r.Stop != nil {"},
		},
		law("Hub/OneClaimWins"), `got error <nil>`,
	},
	{
		"federation-F1-epoch", "the comparison of a claim with the epoch of the offer",
		edit(bindVerb, "h.grant == nil || h.grant.Epoch != c.Epoch {", "h.grant == nil {"),
		law("Hub/AWithdrawnOfferCannotBeClaimed"), `want code "fenced"`,
	},
	{
		"federation-F1-incarnation", "the comparison of a claim with the incarnation that the hub knows",
		edit(bindVerb, "case c.Incarnation != incarnation || c.Reconciling:", "case c.Reconciling:"),
		law("Hub/AClaimNeedsItsIncarnation"), `want code "conflict"`,
	},
	{
		"federation-F1-reconciling", "the refusal of claims while the grants of a new incarnation are compared",
		edit(bindVerb, "case c.Incarnation != incarnation || c.Reconciling:", "case c.Incarnation != incarnation:"),
		law("Hub/AClaimNeedsItsIncarnation"), `want code "conflict"`,
	},
	{
		"federation-F1-cluster-record", "the comparison of the cluster's record in the transaction",
		edit(bindVerb, "append(h.compareGrant(), h.stillAsking(), h.compareCluster())", "append(h.compareGrant(), h.stillAsking())"),
		inStore("TestGrantsAreCompared"), `a cluster that is being reconciled: <nil>`,
	},
	{
		"federation-F1-shortlist", "the rule that only the clusters of an offer claim it",
		edit(bindVerb, "case !h.grant.IsOpenTo(c.Cluster):", "case false:"),
		law("Hub/AClaimNeedsTheOffer"), `got error <nil>`,
	},
	{
		"federation-F3-alive", "the refusal to return a job with a live process",
		edit(grantsAt, "case !r.Settled():", "case false:"),
		root("TestReturn"), `a process may live: returned true`,
	},
	{
		"federation-F3-once", "the refusal to return an at_most_once job that was placed",
		edit(grantsAt, "case j.Mode == AtMostOnce && r.Placed > 0:", "case false:"),
		root("TestReturn"), `at_most_once placed: returned true`,
	},
	{
		"federation-F3-run", "the comparison of the run when a job is returned",
		edit(acceptVerb, "\t\tclientv3.Compare(clientv3.ModRevision(runKey(m.id)), \"=\", m.Run.Revision),\n", ""),
		inStore("TestReturnIsCompared"), `was started meanwhile was returned: <nil>`,
	},
	{
		"federation-F3-floor", "the comparison of an answer with the floor",
		edit(acceptVerb, "m.floor.Hub == o.Hub && m.floor.Epoch >= o.Epoch {", "m.floor.Hub == o.Hub && m.floor.Epoch > o.Epoch {"),
		law("Member/AnArchivedGrantIsReportedFromItsFloor"), `accept under the grant 10: "new"`,
	},
	{
		"federation-F3-floor-written", "the floor that is written with the return",
		edit(acceptVerb, "\t\t\twrites = append(writes, put)\n", "\t\t\t_ = put\n"),
		law("Member/AReturnedJobKeepsItsFloor"), `the floor is <nil>`,
	},
	{
		"federation-F4-epoch", "the comparison of a report with the epoch",
		edit(grantsAt, "g.State == GrantBound && g.Epoch == epoch && ", "g.State == GrantBound && epoch != 0 && "),
		law("Hub/OnlyTheOwnerEndsABoundJob"), `epoch is answered <nil>`,
	},
	{
		"federation-F4-incarnation", "the comparison of a report with the incarnation",
		edit(grantsAt, "g.Cluster == cluster && g.Incarnation == incarnation", "g.Cluster == cluster && incarnation != \"\""),
		law("Hub/OnlyTheOwnerEndsABoundJob"), `another incarnation is answered <nil>`,
	},
	{
		"federation-F4-tombstone", "the floor that an archived granted job leaves",
		edit("store/archive.go", "if job.Origin != nil && job.ArrayOf == \"\" {", "if false {"),
		law("Member/AnArchivedGrantIsReportedFromItsFloor"), `the floor is <nil>`,
	},
	{
		"federation-F4-acknowledged", "the rule that a floor stays until the hub has acknowledged it",
		edit("store/floor.go", "f := rec.GetFloor(); !f.GetAcknowledged() || ", "f := rec.GetFloor(); "),
		law("Member/AnArchivedGrantIsReportedFromItsFloor"), `has not acknowledged was forgotten`,
	},
	{
		"federation-F5-start", "the rule that an unconfirmed job is not started",
		edit(transitions, "if r.Unconfirmed {", "if false {"),
		inStore("TestRestoreOfAMember"), `an unconfirmed job was started: <nil>`,
	},
	{
		"federation-F5-return", "the rule that an unconfirmed job is not returned",
		edit(grantsAt, "case r.Unconfirmed:", "case false:"),
		inStore("TestRestoreOfAMember"), `an unconfirmed job was returned: <nil>`,
	},
	{
		"federation-F5-cancel", "the rule that an unconfirmed job is not cancelled",
		edit(runs, "if r.Unconfirmed {", "if false {"),
		inStore("TestRestoreOfAMember"), `an unconfirmed job was cancelled: <nil>`,
	},
	{
		"federation-F5-once", "the end of an at_most_once job that its owner may have started",
		edit(mirrors, "case started && j.Mode == AtMostOnce:", "case false:"),
		law("Hub/ATakenBackJobWaitsOrIsLost"), `want lost`,
	},
	{
		"federation-F6-ask", "the question of a restored hub to its clusters",
		edit(restoring, "done.Asks = got.Count > 0 && !r.AsCopy", "done.Asks = got.Count < 0"),
		inStore("TestRestoreOfAHub"), `of a hub that asks its clusters: `,
	},
	{
		"federation-F6-asking", "the refusal of every verb while a hub asks",
		edit(granted, "if h.asking != 0 {\n\t\t\treturn h, hubAsks()", "if h.asking < 0 {\n\t\t\treturn h, hubAsks()"),
		inStore("TestRestoreOfAHub"), `report of a hub that asks its clusters: <nil>`,
	},
	{
		"federation-F6-offers", "the end of open offers when a hub is restored",
		edit(restoring, ".GetState()) == ares.GrantOffered {", ".GetState()) == \"\" {"),
		inStore("TestRestoreOfAHub"), `the offer or the grant of an ended job stays`,
	},
	{
		"federation-F6-roster", "the rule that a new member gets no offers before its name is stored outside the hub",
		edit("federation/offers.go", " && !c.Damped && c.Known\n", " && !c.Damped\n"),
		inFederation("TestNewMember"), `only the hub knows that b has joined`,
	},
	{
		"federation-F6-roster-claim", "the rule that no job is bound to a new member before its name is stored outside the hub",
		edit(bindVerb, "case !c.Known:", "case false:"),
		law("Roster/ANewMemberIsNotBound"), `got error <nil>`,
	},
	{
		"federation-F6-seal", "the rule that a restored hub recalls only words with its own seal",
		edit("federation/metadata.go", "return !key.ByHub || !hmac.Equal(", "return !key.ByHub || false && !hmac.Equal("),
		inFederation("TestRestoredHubRecalls"), `the hub believes words that it has not sealed`,
	},
	{
		"federation-F6-recall-dead", "the rule that a copy of a cluster that was declared dead does not decide about its membership",
		edit("store/clustercopy.go", "!c.MayOwn() || !kept.MayOwn() ||", "!c.MayOwn() ||"),
		law("Metadata/ARestoredHubRecallsCopies"), `declared dead: `,
	},
	{
		"federation-F7-taken", "the rule that no local job is taken for a granted one",
		edit(acceptVerb, "m.Job.Origin.Hub != o.Hub:\n\t\treturn AcceptedTaken, nil", "m.Job.Origin.Hub != o.Hub:\n\t\treturn AcceptedRepeated, nil"),
		law("Member/AnIDOfAnotherOriginIsTaken"), `accept under the grant 10: "repeated"`,
	},
	{
		"federation-F7-exclude", "the exclusion of a cluster that has another job with the ID",
		edit(reports, "\t\th.Run.Exclude(r.Cluster)\n", ""),
		law("Hub/ATakenJobExcludesTheCluster"), `excluded: \[\]`,
	},
	{
		"federation-F8-return", "the cancel that survives a return",
		edit(mirrors, "case stop != nil && stop.Why == StopCancel:", "case false:"),
		law("Hub/ACancelWaitsForTheOwner"), `want cancelled`,
	},
	{
		"federation-F8-bound", "the rule that a hub cannot end a bound job itself",
		edit(transitions, "case r.IsBound():", "case false:"),
		law("Hub/ACancelWaitsForTheOwner"), `a cancelled bound job is cancelled`,
	},
	{
		"federation-F8-mirror", "the cancel that survives a copy of the owner's run",
		edit(mirrors, "next.Stop, next.Hold, next.Updated, next.Notified = r.Stop, r.Hold, r.Updated, r.Notified", "next.Hold, next.Updated, next.Notified = r.Hold, r.Updated, r.Notified"),
		law("Hub/ACancelWaitsForTheOwner"), `removed the intent to cancel`,
	},
	{
		"federation-F9-withdraw", "the rule that a bound job is not withdrawn",
		edit(offers, "case h.grant.State != ares.GrantOffered:", "case false:"),
		law("Hub/AWithdrawnOfferCannotBeClaimed"), `want code "conflict"`,
	},
	{
		"federation-F9-compare", "the comparison of the grant in every transaction",
		edit(granted, "\"=\", seen)}\n\tif h.Job != nil {", "\">\", -1)}\n\tif seen < 0 {"),
		inStore("TestGrantsAreCompared"), `two clusters were bound: <nil>`,
	},
	{
		"federation-F9-run", "the comparison of the run in transactions about grants",
		edit(granted, "\tif h.Job != nil {\n\t\tcmps = append(cmps, h.asSeen()...)\n\t}\n", ""),
		inStore("TestGrantsAreCompared"), `cancelled meanwhile was (bound|offered)`,
	},
	{
		"federation-F9-leader", "the comparison of leadership when jobs are offered",
		edit(offers, "[]clientv3.Cmp{lead.leads(), ", "[]clientv3.Cmp{"),
		law("Hub/OnlyTheLeaderOffers"), `want code "fenced"`,
	},
	{
		"federation-F9-old-grant", "the comparison of a decision with the epoch of the grant",
		edit(regrants, "case current != r.Old:", "case false:"),
		law("Hub/ATakenBackJobWaitsOrIsLost"), `a decision about an earlier grant is answered <nil>`,
	},
	{
		"federation-F12-token", "the fencing token that begins with the epoch",
		edit(grantsAt, "if j.Origin == nil {\n\t\treturn int64(a.Fence)", "if j != nil {\n\t\treturn int64(a.Fence)"),
		root("TestFencingToken"), `the token`,
	},
	{
		"federation-F12-restore", "the tokens that a restore skips",
		edit(transitions, "r.TokenBase += restoredAttempts", "r.TokenBase += 0"),
		root("TestFencingToken"), `and two restores`,
	},
	{
		"federation-F12-next-grant", "the limit that keeps a grant's tokens below those of the next",
		edit(grantsAt, "int64(min(a.Number+r.TokenBase, maxTokenAttempt))", "int64(max(a.Number+r.TokenBase, 0))"),
		root("TestFencingToken"), `the next grant: the token`,
	},
	{
		"federation-F13-cookie", "the comparison of the cookie of a hello",
		edit(session, "case same && c.Cookie != \"\" &&", "case same && c.Cookie == \"\" &&"),
		inFederation("TestCopy$"), `the refusal of the copy`,
	},
	{
		"federation-F13-revision", "the comparison of the revision of a hello",
		edit(session, "case s.info.GetRevision() < max(c.SeenRevision, s.t.heardRevision(c.Store)):", "case s.info.GetRevision() < 0:"),
		inFederation("TestCopyOfBusyStore"), `the copy is answered`,
	},
	{
		"federation-F13-heartbeats", "the revisions in heartbeats, with which a hello is compared",
		edit("federation/silence.go", "revision > c.SeenRevision {", "revision < c.SeenRevision {"),
		inFederation("TestCopyOfBusyStore"), `the revision of a`,
	},
	{
		"federation-F13-original", "the rule that the hello of a copy does not end the session of the cluster",
		edit(session, "\t\treturn err // a copy of the store does not end the session of the original\n", ""),
		inFederation("TestCopyOfBusyStore"), `the member has opened`,
	},
	{
		"federation-F13-claim", "the refusal of a store that has no record of the claim of a bound job",
		edit("federation/grant/hub.go", "r.Copied = id\n", "\n"),
		Test{Package: "./federation/grant", Run: "."}, `hub_test\.go`,
	},
	{
		"federation-F13-identity", "the identity of a copy",
		edit("store/restore.go", "\tif r.AsCopy {\n\t\tid.Store = rand.Text()\n\t}\n", ""),
		inStore("TestRestoreAsCopy"), `the copy of`,
	},
	{
		"federation-F13-granted", "the granted jobs that a copy drops",
		edit("store/restore_edit.go", "\t\t\tw.drop(job.ID)\n", ""),
		inStore("TestRestoreAsCopy"), `the copy has the granted job`,
	},
	{
		"federation-F13-claims", "the claims that a restored member forgets",
		edit(restoring, "gone := []clientv3.Op{clientv3.OpDelete(grantClaimsKey, clientv3.WithPrefix()), ", "gone := []clientv3.Op{"),
		inStore("TestRestoreOfAMember"), `claims of the earlier incarnation are left`,
	},
	{
		"federation-reads-grant", "the comparison of a hub's read with the grant of the job",
		edit(reads, "hub == \"\" || o.Hub != hub || o.Epoch != q.GetEpoch() || ", "o == nil || "),
		inFederation("TestRefusedReads"), `another hub: <nil>`,
	},
	{
		"federation-reads-local", "the refusal of a hub's read of a local job",
		[]Edit{
			{reads, "case snap.Tombstone != nil || snap.Job == nil || snap.Job.Origin == nil:", "case snap.Tombstone != nil || snap.Job == nil:"},
			{reads, "\to := snap.Job.Origin\n", "\to := snap.Job.Origin\n\tif o == nil {\n\t\treturn snap, nil\n\t}\n"},
		},
		inFederation("TestRefusedReads"), `a local job: <nil>`,
	},
	{
		"federation-reads-tenant", "the comparison of a hub's read with the tenant of the job",
		edit(reads, "snap.Job.Tenant != q.GetTenantId() || ", ""),
		inFederation("TestRefusedReads"), `another tenant: <nil>`,
	},
	{
		"federation-reads-cookie", "the comparison of a connection for reads with the session of its cluster",
		edit("federation/reads.go", "if cookie == \"\" || cookie != c.Cookie && cookie != c.PendingCookie {", "if cookie == \"none\" && c.Name == \"\" {"),
		inFederation("TestRefusedMembers"), `with cookie`,
	},
	{
		"federation-reads-cluster", "the comparison of an answer's cluster with the certificate",
		edit("federation/reads.go", "if err = h.authenticate(stream.Context(), first.GetCluster()); err != nil {", "if err != nil {"),
		inFederation("TestRefusedMembers"), `an answer as another cluster`,
	},
}
