package main

// These mutations remove the limits on what a node may claim, on how many ranks
// it gets, and on what a job's files can do to it.
var nodes = []Mutation{
	{
		"reserved-labels", "the refusal of a reserved label that a node gives itself",
		edit("grant.go", "isReserved(k, reserved) && (!ok || granted != v)", "isReserved(k, reserved) && ok && granted != v"),
		root("TestANodeCannotGrantItself"), "a reserved label without a grant: <nil>",
	},
	{
		"granted-devices", "the limit on the GPUs that a node may offer",
		edit("grant.go", "g.MaxGPUs > 0 && gpus > g.MaxGPUs", "g.MaxGPUs < 0"),
		root("TestANodeCannotGrantItself"), "a GPU more: <nil>",
	},
	{
		"grant-in-the-report", "the check of a node's later reports against its grant",
		edit("store/grant.go", "admitted, err := g.grant.Admit(node, s.cfg.ReservedLabels)\n\tif", "admitted, err := node, error(nil)\n\tif"),
		law("Trust/ANodeHasWhatItsJoinTokenGrants"), `want code "forbidden"`,
	},
	{
		"grant-of-a-repeated-join", "the grant that a node keeps when it repeats its join",
		edit("store/trust.go", "if before.GetJoined().GetToken() == t.ID {", "if before.GetJoined().GetToken() == \"\" && before != nil {"),
		law("Trust/ARepeatedJoinKeepsTheGrant"), "the grant is",
	},
	{
		"grant-of-an-older-token", "the refusal of a used token after the node joined with another one",
		edit("store/trust.go", "\t\tcase !t.UsedAt.IsZero():\n\t\t\treturn nil, 0, badJoinToken()\n", ""),
		law("Trust/ARepeatedJoinKeepsTheGrant"), `want code "unauthenticated"`,
	},
	{
		"revoked-open-tokens", "the end of a join token for any node that a revoked node has used",
		edit("store/revoke.go", "t.Node != r.Node && t.UsedBy != r.Node", "t.Node != r.Node"),
		law("Trust/ARevocationEndsEveryJoinToken"), "used by the node",
	},
	{
		"slices-of-a-device", "the limit on the slices of one device",
		edit("node_check.go", "count > MaxDeviceSlices {", "count > MaxNodeDevices {"),
		root("TestAbsurdNodes"), "node.devices: <nil>",
	},
	{
		"address-of-a-node", "the check of a node's address",
		edit("node_check.go", "if !isHost(n.Address) {", "if n.Address == \"\\x00\" {"),
		root("TestAbsurdNodes"), "node.address: <nil>",
	},
	{
		"ranks-per-node", "the limit on the ranks of one node",
		edit("engine/config/config.go", "\treturn c.NodeRanks\n", "\treturn MaxNodeRanks\n"),
		Test{Package: "./engine", Run: "TestScripts/feasibility"}, "max_ranks_per_node",
	},
	{
		"default-requests", "the default requests of a job without any",
		edit("control/admission/admission.go", "if stored.GPUs == 0 {", "if stored.GPUs < 0 {"),
		Test{Package: "./control/admission", Run: "TestDefaultRequests"}, "has 0 cores and 0 MB",
	},
	{
		"trash-never-descends", "the moving up of subdirectories: deleting stops at the first that is not empty",
		edit("agent/trash/trash.go", "\t\terr = b.lift(dir, name)\n", "\t\terr = unix.ENOTEMPTY\n"),
		Test{Package: "./agent/trash", Run: "TestATreeOfAnyDepthIsDeleted"}, "directory not empty",
	},
	{
		"clean-up-blocks-no-start", "the start despite files that cannot be removed",
		edit("agent/run/run.go", "\tr.untidy = r.tidyLogs()\n\treturn nil\n", "\treturn r.tidyLogs()\n"),
		inRun("TestAFailingCleanUpDoesNotBlockTheStart"), "busy",
	},
}
