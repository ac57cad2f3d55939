package main

const (
	sealing    = "secret/envelope.go"
	keeping    = "store/secret.go"
	delivery   = "control/secrets/secrets.go"
	checking   = "control/secrets/keys.go"
	deliveries = "control/secrets/deliveries.go"
	furnished  = "cmd/ares-supervisor/secrets.go"
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
		edit(checking, "\t\t\tfailed[is.Keys[i].ID] = err\n", ""),
		inSecrets("TestServersNeedTheSameKeys"), `create: `,
	},
	{
		"secrets-with-the-same-key", "the check of a key by its sample",
		edit(checking, "\treturn secret.CheckSample(ctx, s.Keys, k.ID, k.Sample)\n", "\treturn s.Keys.Holds(ctx, k.ID)\n"),
		inSecrets("TestAnotherKeyWithTheSameID"), `create: `,
	},
	{
		"secrets-of-an-earlier-version", "the keys of secrets without a record of their key",
		edit(checking, "if len(is.Keys) > 0 && len(failed) == 0 {", "if len(failed) == 0 {"),
		inSecrets("TestSecretsOfAnEarlierVersion"), `a server without the key`,
	},
	{
		"secrets-key-records", "the comparison that notices a deleted record of a key",
		edit("store/secretkey.go", "\tfor _, k := range read {", "\tfor _, k := range read[:0] {"),
		law("Secrets/AKeyHasARecordWhileASecretUsesIt"), `1 tries`,
	},
	{
		"secrets-of-one-tenant", "the limit of the bytes of one tenant",
		edit(delivery, "grows && size > ares.MaxTenantSecretBytes", "grows && size < 0"),
		inSecrets("TestOneTenantsSecretsDoNotFillTheOthers"), `could create 100`,
	},
	{
		"secrets-for-the-start", "the time after which no secret is delivered",
		edit(deliveries, "s.Now().Sub(started) > deliveryTime", "s.Now().Before(started)"),
		inSecrets("TestSecretsAreForTheStartOnly"), `a day later`,
	},
	{
		"secrets-a-few-times", "the number of deliveries",
		edit(deliveries, "\ts.delivered[ref]++\n", ""),
		inSecrets("TestSecretsAreForTheStartOnly"), `once more`,
	},
	{
		"secrets-not-guessed-by-digests", "the fields that a digest leaves out",
		edit("api/pipeline/digest.go", "\t\tclearRedacted(m.ProtoReflect())\n", ""),
		Test{Package: "./api/pipeline", Run: "TestNoDigestOfASecret"}, `the digest tells values apart`,
	},
	{
		"secrets-key-file-of-others", "the mode in what tells that a key file has changed",
		edit("secret/keyfile.go", ", mode: st.Mode()}", "}"),
		Test{Package: "./secret", Run: "TestKeyFile"}, `a server that has read it`,
	},
	{
		"secrets-continued-rotation", "the key in the error of an interrupted rotation",
		edit(checking, "\tif err = s.rewrapAll(ctx, &done); err != nil {", "\tif err = s.rewrapAll(ctx, &done); err != nil && done.KeyID == \"\" {"),
		inSecrets("TestAnInterruptedRotation"), `rotated`,
	},
	{
		"secrets-not-in-the-path", "the refusal of variables that errors show",
		edit("secretref.go", `r.Env == "PATH" || strings.HasPrefix(r.Env, "LD_")`, `r.Env == "PATH" && strings.HasPrefix(r.Env, "LD_")`),
		Test{Package: ".", Run: "TestSecretRefs"}, `decides which programs`,
	},
	{
		"secrets-on-no-disk", "the refusal of secret files without a file system in memory",
		edit("agent/run/secrets.go", "\t\treturn ErrNoMemory\n", "\t\treturn nil\n"),
		inRun("TestSecretFilesAreOnNoDisk"), `started: `,
	},
	{
		"secrets-in-an-unpredictable-directory", "the owner of a directory that the agent removes",
		edit("agent/run/secrets.go", " && st.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid()) {", " {"),
		inRun("TestAForeignSecretsDirectory"), `left are`,
	},
	{
		"trusted-earlier-versions", "the rule that a job of an earlier version is not trusted",
		edit("store/codec.go", "Trusted: m.GetTrusted() && !m.GetUntrusted(),", "Trusted: !m.GetUntrusted(),"),
		Test{Package: "./store", Run: "TestAJobOfAnEarlierVersionIsNotTrusted"}, `trusted true`,
	},
	{
		"trusted-checked-by-the-agent", "the agent's own refusal of other users' jobs without isolation",
		edit("agent/seat.go", "cmp.Or(s.agent.refuses, s.untrusted(), ", "cmp.Or(s.agent.refuses, "),
		inAgent("TestAnUntrustedJobNeverStarts"), `ran true`,
	},
	{
		"secrets-end-with-their-tenant", "the deletion of a deleted tenant's secrets",
		edit("store/tenant_rights.go", "\t\tclientv3.OpDelete(secretsOf(tenant), clientv3.WithPrefix()),\n", ""),
		law("Secrets/ASecretEndsWithItsTenant"), `inherits`,
	},
	{
		"secrets-of-one-version", "the one read of a secret for all of its values",
		edit(delivery, "\t\tx := known[r.Name]\n", "\t\tvar x *openSecret\n"),
		inSecrets("TestValuesAreOfOneVersion"), `delivered`,
	},
	{
		"secrets-complete", "the count of the secrets that a supervisor got",
		edit("agent/run/seat/secrets.go", "if len(list) != count {", "if len(list) > count {"),
		inRun("TestNoJobStartsWithoutItsSecrets"), `a missing secret is not noticed`,
	},
	{
		"secrets-after-a-killed-supervisor", "the removal of the files by the agent",
		edit("agent/run/cgroup.go", "\tr.removeSecrets(order.Key, known && order.SecretCount == 0)\n", ""),
		inRun("TestSecretsEndWithAKilledSupervisor"), `is left`,
	},
}
