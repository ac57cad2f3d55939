package main

const consent = "api/service/consent.go"

func inConsent(run string) Test { return Test{Package: "./api", Run: run} }

// These mutations break the rules about who decides which roles a subject has.
var bindings = []Mutation{
	{
		"binding-first-of-a-user", "the consent for the first binding of a user or group",
		edit(consent, "return !known && !s.mayConsent(who, b.Subject)", "return len(s.owners(b.Subject)) > 0 && !known && !s.mayConsent(who, b.Subject)"),
		inConsent("TestFirstBindingOfAUser"), `unasked`,
	},
	{
		"binding-of-a-group", "the rule that no tenant decides for a group",
		edit(consent, "if auth.IsGroup(subject) {", "if false {"),
		inConsent("TestConsentForAUser"), `red accepts for a group`,
	},
	{
		"binding-of-two-tenants-user", "the consent of all tenants of a user",
		edit(consent, "return roles.Allows(who, v, \"\", \"\") || len(tenants) > 0 && !slices.ContainsFunc(tenants, denied)",
			"return roles.Allows(who, v, \"\", \"\") || slices.ContainsFunc(tenants, func(t string) bool { return !denied(t) })"),
		inConsent("TestConsentForAUser"), `decides alone about a user of two tenants`,
	},
	{
		"binding-declined", "the right of a user's tenant to decline a binding",
		edit(consent, "(o.Pending || o.AcceptedBy != \"\")", "false"),
		inConsent("TestConsentForAUser"), `red cannot decline`,
	},
	{
		"binding-visible-subject", "the refusal of characters that a list does not show",
		edit("auth/token.go", "return !unicode.IsPrint(r) })", "return !unicode.IsPrint(r) && r < ' ' })"),
		inConsent("TestSubjectsThatLookLikeOthers"), `201`,
	},
	{
		"binding-token-names", "the form of a token's name",
		edit("auth/token.go", "!isTokenName(name)", "name == \"\""),
		inConsent("TestSubjectsThatLookLikeOthers"), `token:b/holder/x`,
	},
	{
		"binding-offers-of-a-tenant", "the number of a tenant's pending bindings",
		edit("api/service/quota.go", "case b.Pending && offered >= maxPendingOfTenant:", "case b.Pending && offered < 0:"),
		inConsent("TestPendingBindingsOfOneTenant"), `201`,
	},
	{
		"binding-offers-to-a-subject", "the number of a tenant's pending bindings of one subject",
		edit("api/service/quota.go", "case b.Pending && offers >= maxOffers:", "case b.Pending && offers < 0:"),
		inConsent("TestQuotasOfIdentities"), `the 9th unsolicited binding is 201`,
	},
}
