package main

// These mutations show a tenant, or a user with a role in one queue, what other tenants and queues do.
var leaks = []Mutation{
	{
		"leak-eta-grid", "the choice of an ETA's grid by a value that the caller knows",
		edit("api/service/rounding.go", "shown.Sub(now) >= step.beyond", "t.Sub(now) >= step.beyond"),
		Test{Package: "./api/service", Run: "TestAChangedETATellsNothing"}, `before the start, the answers are`,
	},
	{
		"leak-deadline", "the rounding of predictions that deadlines are compared with",
		edit("deadline.go", "RoundRuntime(p.P50), RoundRuntime(max(p.P50, p.P90))", "p.P50, max(p.P50, p.P90)"),
		Test{Package: "./control/admission", Run: "TestDeadlinesTellNoExactRuntime"}, `a deadline in 3h`,
	},
	{
		"leak-victim", "the losses of a victim that the caller may not see",
		edit("api/service/preemptions.go", "\t\tm.CheckpointedAt = apipb.Timestamp(p.Attempt.CheckpointedAt)\n\t}\n", "\t}\n\tm.CheckpointedAt = apipb.Timestamp(p.Attempt.CheckpointedAt)\n"),
		Test{Package: "./api", Run: "TestPreemptionsTellNothingOfOtherTenants"}, `tells when another tenant's run began`,
	},
	{
		"leak-cooldown", "the rounding of the time until which other tenants' jobs are protected",
		edit("engine/preempt/protection.go", "counts.firstEnds.Add(time.Minute - 1).Truncate(time.Minute).UTC()", "counts.firstEnds.UTC()"),
		Test{Package: "./engine/preempt", Run: "TestProtectionTextIsRounded"}, `a cooldown that ends at`,
	},
	{
		"leak-share", "the share of a tenant, which a role in one queue does not show",
		edit("api/service/visibility.go", "share(s ares.FairShare) bool { return e.sees(s.Tenant, s.Queue) }", "share(s ares.FairShare) bool { return e.sees(s.Tenant, s.Queue) || s.Queue == \"\" && e.tenant(s.Tenant) }"),
		Test{Package: "./api", Run: "TestFairnessOfOneQueue"}, `one queue sees`,
	},
	{
		"leak-jain", "Jain's index, which only callers of all tenants get",
		edit("api/service/queues.go", "if visibilityOf(ctx).sees(\"\", \"\") {", "if f.Jain > 0 {"),
		Test{Package: "./api", Run: "TestFairnessOfOneQueue"}, `the tenant sees`,
	},
	{
		"leak-node-score", "the counts of a node's score, which only callers of all tenants get",
		edit("api/service/cluster.go", "if m != nil && !e.sees(\"\", \"\") {", "if m != nil && e.Who == nil {"),
		Test{Package: "./api/service", Run: "TestNodesHideOtherTenants"}, `a tenant sees the score`,
	},
	{
		"leak-temperature", "the temperature of devices that other tenants use",
		edit("api/service/cluster.go", "if taken && job == \"\" {", "if taken && job == \"\" && dev.ID == \"\" {"),
		Test{Package: "./api/service", Run: "TestNodesHideOtherTenants"}, `a tenant sees 72 degrees`,
	},
	{
		"leak-dependency", "the check that a caller may see a job in `after`",
		edit("control/admission/dependencies.go", "if err == nil && r.Sees != nil && ", "if err == nil && r.Sees == nil && "),
		Test{Package: "./api", Run: "TestDependenciesOfAnotherQueue"}, `after another queue's job`,
	},
	{
		"leak-count-in-error", "the counts that errors leave out for a role in one queue",
		edit("control/admission/limits.go", "if visible || !counts {", "if visible || counts {"),
		Test{Package: "./control/admission", Run: "TestErrorsOfOneQueue"}, `for a caller of the whole tenant \(false\)`,
	},
	{
		"leak-tenant-reuse", "the rejection of a deleted tenant's ID",
		edit("api/service/tenant_reuse.go", "if len(d.Cfg.View.Jobs(cache.Filter{Tenant: id, Limit: 1}).Entries) > 0 {", "if len(d.Cfg.View.Jobs(cache.Filter{Tenant: id, Limit: 1}).Entries) < 0 {"),
		Test{Package: "./api", Run: "TestTenantIDsAreNotReused"}, `want 409`,
	},
	{
		"leak-audit-reuse", "the audit entries of a deleted tenant, which its successor must not read",
		edit("api/service/audit.go", "if !unnamed || !d.isFormer(&page[i]) {", "if !unnamed || d.isFormer(&page[i]) || i >= 0 {"),
		Test{Package: "./api", Run: "TestTenantIDsAreNotReused"}, `the successor's auditor reads`,
	},
	{
		"leak-queue-reuse", "the end of a deleted queue's roles",
		edit("store/queue.go", "if q.Name != ares.DefaultQueue {\n\t\tif err := s.dropQueueRights", "if q.Name == \"\" {\n\t\tif err := s.dropQueueRights"),
		Test{Package: "./api", Run: "TestQueueNamesAreNotReused"}, `the token gets 200 for the new queue`,
	},
	{
		"leak-metrics-host", "the token that metrics need beside a node whose address is a host name",
		edit("server/metrics_guard.go", "err != nil || at.IsLoopback()", "err == nil && at.IsLoopback()"),
		Test{Package: "./server", Run: "TestMetricsNeedATokenBeyondLoopback"}, `beside node "gpu-1.example.org": 200, want 401`,
	},
}
