package main

// These mutations break the rule that all members of a gang get devices of one
// model.
var gangs = []Mutation{
	{
		"gang-one-model", "one GPU model for all members of a gang",
		edit("engine/placement/gang.go", "if !sh.Wish.OneModel || len(pl.Cluster.ModelsPresent) < 2 {", "if sh.Wish.OneModel || len(pl.Cluster.ModelsPresent) < 2 {"),
		script("gangs/one_model"), `but the first device of the job has model`,
	},
	{
		"gang-one-model-start", "one GPU model in the search for the earliest start of a gang",
		edit("engine/backfill/earlieststart.go", "if !e.Shape.Wish.OneModel {", "if e.Shape.Wish.OneModel {"),
		script("gangs/one_model_later"), `-  starts: in 0s to 1h50m0s \(kept`,
	},
	{
		"network-bandwidth", "the bandwidth between the leaves of a gang",
		edit("engine/topology/evaluate.go", "v.BandwidthLoss, v.NetworkNanos = t.maxGbps-gbps, d.latencyNanos", "v.BandwidthLoss, v.NetworkNanos = 0*gbps, d.latencyNanos"),
		Test{Package: "./engine/topology", Run: "TestConstraints"}, `the_fastest_leaves_of_a_spine`,
	},
	{
		"node-score-own-failures", "the difference between failures of a job and failures of its node",
		edit("forecast/attemptends.go", "\t\treturn OutcomeFailed, true\n", "\t\treturn OutcomeFaulted, true\n"),
		Test{Package: "./learn", Run: "TestFailuresOfJobsDoNotLowerTheScore"}, `commands of users failed, and the score of their node is`,
	},
}
