package main

const (
	sealing   = "secret/envelope.go"
	keeping   = "store/secret.go"
	delivery  = "control/secrets/secrets.go"
	furnished = "cmd/ares-supervisor/secrets.go"
)

func inSecrets(run string) Test { return Test{Package: "./control/secrets", Run: run} }

// These mutations break the rule that only the job itself gets the values of its secrets.
var secrets = []Mutation{
	{
		"secrets-bound-to-their-tenant", "the tenant in the authenticated text",
		edit(sealing, "[]string{purpose, id.Tenant, id.Name}", "[]string{purpose}"),
		Test{Package: "./secret", Run: "TestBound"}, `it opens as`,
	},
	{
		"secrets-for-a-claim-only", "the check of the claim's session",
		edit(keeping, " || claim.GetSession() != session {", " {"),
		law("Secrets/SecretsAreForTheClaimOfTheCurrentSession"), `want code "fenced"`,
	},
	{
		"secrets-not-in-dumps", "the text that replaces them in a dump",
		edit("store/debug.go", `, secretsKey: "secret"`, ""),
		law("Secrets/ADumpShowsNoCiphertext"), `the dump has`,
	},
	{
		"secrets-of-several-servers", "the refusal to encrypt with a key that other servers lack",
		edit(delivery, "\t\tfor _, id := range keyIDs(all) {\n\t\t\tif err := s.Keys.Holds(ctx, id)", "\t\tfor _, id := range keyIDs(nil) {\n\t\t\tif err := s.Keys.Holds(ctx, id)"),
		inSecrets("TestServersNeedTheSameKeys"), `create: `,
	},
	{
		"secrets-end-with-their-tenant", "the deletion of a deleted tenant's secrets",
		edit("store/tenant.go", "\t\t\tclientv3.OpDelete(secretsOf(id), clientv3.WithPrefix()),\n", ""),
		law("Secrets/ASecretEndsWithItsTenant"), `inherits`,
	},
	{
		"secrets-complete", "the count of the secrets that a supervisor got",
		edit("agent/run/seat/secrets.go", "if len(list) != count {", "if len(list) > count {"),
		inRun("TestNoJobStartsWithoutItsSecrets"), `a missing secret is not noticed`,
	},
	{
		"secrets-after-a-killed-supervisor", "the removal of the files by the agent",
		edit("agent/run/cgroup.go", "\tr.removeSecrets(key)\n", ""),
		inRun("TestSecretsEndWithAKilledSupervisor"), `is left`,
	},
	{
		"secrets-of-their-user", "the mode of the files",
		edit(furnished, "[]byte(x.Value), 0o400)", "[]byte(x.Value), 0o444)"),
		inRun("TestSecretsAreThisJobsOwn"), `another user's job found`,
	},
}
