package main

// These mutations break the rules that keep tenants from each other's rights, streams and alerts.
var tenants = []Mutation{
	{
		"tenant-consent", "the consent that a binding to another tenant's subject needs",
		edit("auth/auth.go", "if !b.Pending && exists(b.Tenant) {", "if exists(b.Tenant) {"),
		Test{Package: "./auth", Run: "TestADeletedTenantEndsAtOnce"}, `want "" and 3 bindings`,
	},
	{
		"tenant-share", "the share of a tenant in the slots of a limiter",
		edit("api/pipeline/limiter.go", "g.HeldBy[who.Tenant] < g.TenantShare && ", ""),
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
}
