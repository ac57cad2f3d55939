package main

// These mutations break the rules that keep tenants from each other's rights, streams and alerts.
var tenants = []Mutation{
	{
		"tenant-undone-deletion", "the rule that a deletion that may still be undone deletes the tenant's record only",
		edit("store/tenant.go", "[]clientv3.Op{clientv3.OpDelete(tenantKey(id))}, nil)", "append(dropRights(id), clientv3.OpDelete(tenantKey(id))), nil)"),
		law("Tenants/AnUndoneDeletionLosesNothing"), `the secret is`,
	},
	{
		"tenant-roles-of-two-creations", "the second try to take roles out of a token that another creation has changed",
		edit("store/tenant_rights.go", "return none, Conflict{ares.Errorf(ares.Exhausted, \"the tokens keep changing: try again\")}", "return none, nil"),
		law("Tenants/TenantsCreatedTogetherLeaveNoRoles"), `still has`,
	},
	{
		"tenant-consent", "the consent that a binding to another tenant's subject needs",
		edit("auth/auth.go", "if !b.Pending && exists(b.Tenant) {", "if exists(b.Tenant) {"),
		Test{Package: "./auth", Run: "TestADeletedTenantEndsAtOnce"}, `want "" and 3 bindings`,
	},
	{
		"tenant-share", "the share of a tenant in the slots of a limiter",
		edit("api/pipeline/limiter.go", "g.HeldBy[who.Tenant] < g.tenantShare() && ", ""),
		Test{Package: "./api", Run: "TestLimiterTenants$"}, `other callers got`,
	},
	{
		"tenant-kept-slots", "the slots that are kept for administrators",
		edit("api/pipeline/limiter.go", "return g.tenants < g.Limit-g.Kept && ", "return "),
		Test{Package: "./api", Run: "TestLimiterTenants$"}, `all but the two that are kept`,
	},
	{
		"tenant-ended", "the end of a deleted tenant's tokens",
		edit("auth/tenants.go", "if id.Tenant != \"\" && is(id.Tenant) {", "if id.Tenant == \"\" && is(id.Tenant) {"),
		Test{Package: "./auth", Run: "TestADeletedTenantEndsAtOnce"}, `red: <nil>`,
	},
	{
		"tenant-alert-channels", "the list of tenants that may use an alert channel",
		edit("notify/notify.go", "if !c.allows(a.Tenant) {", "if !c.allows(\"\") {"),
		Test{Package: "./notify", Run: "TestOnlyAllowedTenants"}, `became "ops sent", want "ops forbidden"`,
	},
	{
		"tenant-fair-queue", "the order in which waiting calls get free slots: by arrival",
		edit("api/pipeline/limiter.go", "		if best >= 0 && least == [2]int{} {", "		if best >= 0 {"),
		Test{Package: "./api", Run: "TestLimiterTwoHostileTenants"}, `the first free slot went to`,
	},
	{
		"tenant-fair-streams", "the streams that hostile tenants leave to others",
		edit("api/pipeline/limiter.go", "g.Long && free < g.TenantShare", "false && free < g.TenantShare"),
		Test{Package: "./api", Run: "TestStreamsOfHostileTenants"}, `one after the other`,
	},
	{
		"tenant-rejected-calls", "the rate of calls that are rejected for a missing permission",
		edit("api/pipeline/auth.go", "tooMany != nil {", "tooMany != nil && false {"),
		Test{Package: "./api", Run: "TestRejectedCallsCount"}, `answered 403`,
	},
	{
		"tenant-revoked-at-once", "the end of a deleted token on servers that follow the store",
		edit("store/watch.go", "batch.Lost = append(batch.Lost, lost)", "_ = lost"),
		Test{Package: "./api", Run: "TestARevokedTokensStreamsEnd"}, `a stream of a lost right does not end`,
	},
	{
		"tenant-stale-read", "the second read after a change during the first",
		edit("auth/auth.go", "if a.changes != changes {", "if a.changes != changes && false {"),
		Test{Package: "./auth", Run: "TestAReadThatBeganBeforeAChange"}, `is not seen after`,
	},
	{
		"tenant-revoked-during-a-read", "the removal of a revoked token from a read that began before",
		edit("auth/auth.go", "a.drop(a.lost) //", "//"),
		Test{Package: "./auth", Run: "TestAReadThatBeganBeforeAChange"}, `a token that was revoked during the first read`,
	},
	{
		"tenant-rings-seldom", "the minimum time between two checks of all streams",
		edit("auth/lost.go", "case wait <= 0:", "case true:"),
		Test{Package: "./auth", Run: "TestARevokedTokenEndsAtOnce"}, `open streams are told of every deletion`,
	},
	{
		"tenant-alert-mentions", "the mentions in alerts",
		edit("notify/tenants.go", "return mentions.ReplaceAllString(links.ReplaceAllString(s, \"$1[$2]\"), \"$1(at)$2\")", "return links.ReplaceAllString(s, \"$1[$2]\")"),
		Test{Package: "./notify", Run: "TestNoMentions"}, `the message has "@channel"`,
	},
	{
		"tenant-alert-as-code", "the form in which Slack shows the text of a tenant",
		edit("notify/webhook.go", "text = code(text)", "text = escape(a.Text)"),
		Test{Package: "./notify", Run: "TestNoMentions"}, `are not shown as they are`,
	},
	{
		"tenant-alert-keys", "the tenant in the key of an alert",
		edit("notify/notify.go", "return c.toldOf, a.Tenant + \"\\x00\" + a.Key", "return c.toldOf, a.Key"),
		Test{Package: "./notify", Run: "TestKeysOfTenants"}, `an alert of green is a repetition`,
	},
	{
		"tenant-alert-metrics", "the name of an unknown channel in metrics",
		edit("notify/notify.go", "shown = noChannel", "shown = name"),
		Test{Package: "./notify", Run: "TestUnknownChannelsOfTenants"}, `want "(unknown) unknown"`,
	},
	{
		"tenant-policies-of-the-platform", "the limit of the platform's policies apart from those of tenants",
		edit("store/policy.go", "case tenant == \"\" && platform >= ares.MaxPolicies:", "case len(all) >= ares.MaxPolicies:"),
		Test{Package: "./store", Run: "TestPoliciesOfHostileTenants"}, `which is the limit`,
	},
	{
		"tenant-policy-metrics", "the number of tenants' policies with metrics",
		edit("server/policy.go", "len(m.named) >= maxNamedPolicies", "false"),
		Test{Package: "./server", Run: "TestMetricsOfTenantsPolicies"}, `another policy is named`,
	},
	{
		"tenant-alert-cause", "the caller in the key of an alert about a call",
		edit("control/admission/policies.go", "p.report(&v, in.Object.Tenant, cmp.Or(in.User.Tenant, in.User.Name), ", "p.report(&v, in.Object.Tenant, cmp.Or(in.Object.Tenant, in.User.Name), "),
		Test{Package: "./control/admission", Run: "TestAlertsThatOneCallerCauses"}, `the caller made 20 alerts`,
	},
}
