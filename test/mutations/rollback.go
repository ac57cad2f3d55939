package main

const (
	rollbackVerb = "store/rollback.go"
	identityAt   = "store/identity.go"
	campaign     = "store/leader.go"
)

// These mutations break the rule that no server leads a store after one server has noticed that it was put back.
var rollbacks = []Mutation{
	{
		"rollback-read", "the record of a rollback in the read of the identity",
		edit(identityAt, "if string(r.Key) == rollbackKey(&id) {", "if string(r.Key) == identityKey {"),
		inServer("TestOneServerNoticesARollbackForAll"), "the server does not refuse to lead",
	},
	{
		"rollback-written", "the record that a server writes when its mark shows a rollback",
		edit(mark, "if u == nil || !u.isOf(now) {", "if u == nil || u.isOf(now) {"),
		inServer("TestOneServerNoticesARollbackForAll"), "the server does not refuse to lead",
	},
	{
		"rollback-election", "the comparison of the record in the transaction that makes a server the leader",
		edit(campaign, "id.isCurrent(), id.isNotRolledBack()},", "id.isCurrent()},"),
		inStore("TestACampaignComparesTheRollback"), "a server leads a store that was rolled back",
	},
	{
		"rollback-leader", "the end of the current leader's term",
		edit(rollbackVerb, ", clientv3.OpDelete(leaderKey)},", "},"),
		inStore("TestARollbackEndsLeading"), `want code "fenced"`,
	},
	{
		"rollback-hub", "the rule that a hub without a leader binds no job to an earlier offer",
		edit(bindVerb, `[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(leaderKey), ">", 0)}, children`, "nil, children"),
		inStore("TestARollbackEndsLeading"), `want code "unavailable"`,
	},
	{
		"rollback-restore", "the removal of the record by a restore",
		edit("store/restore_edit.go", "\t\tclientv3.OpDelete(rollbacksKey, clientv3.WithPrefix()),\n", ""),
		inStore("TestRestoreEndsARollback"), "the store has",
	},
	{
		"rollback-identity", "the identity in the record's key",
		edit(identityAt, "if string(r.Key) == rollbackKey(&id) {", "if len(r.Key) > 0 {"),
		inStore("TestARollbackIsOfOneIdentity"), "a record of another identity counts",
	},
	{
		"rollback-other-store", "the comparison of the identity when the record is written",
		edit(rollbackVerb, "[]clientv3.Cmp{id.isCurrent(), id.isNotRolledBack()},", "[]clientv3.Cmp{id.isNotRolledBack()},"),
		inStore("TestARollbackEndsLeading"), `got error <nil>`,
	},
	{
		"rollback-remembered", "the rollback that a server remembers until the store takes the record",
		edit(mark, "\treturn s.noteRollback(ctx, id)\n", "\tif own == nil {\n\t\treturn nil\n\t}\n\treturn s.noteRollback(ctx, id)\n"),
		inServer("TestAnUnwrittenRollbackIsRemembered"), "the rollback is forgotten",
	},
	{
		"rollback-compared-first", "the comparison before the writes of a server that starts",
		[]Edit{
			{"server/server.go", "if err = s.openMark(ctx); err != nil {", "if _, _, err = s.Store.Identity(ctx); err != nil {"},
			{"server/server.go", "\ts.checkSecretKeys(ctx)\n\treturn nil\n", "\ts.checkSecretKeys(ctx)\n\treturn s.openMark(ctx)\n"},
		},
		inServer("TestAServerComparesBeforeItWrites"), "the server does not refuse to lead",
	},
}
