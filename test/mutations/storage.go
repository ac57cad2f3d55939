package main

// These mutations break the rule that what servers keep of jobs, such as code and output, is stored whole or not at all.
var storage = []Mutation{
	{
		"objects-whole", "that an object which does not fit on the disk is dropped, and not stored in part",
		edit("objects/bucket/bucket.go", "\t\tcancel() // now Close drops what was written\n", ""),
		Test{Package: "./objects/bucket", Run: "TestWriteOnAFullDisk"}, `then the object has`,
	},
	{
		"output-of-the-test-container", "that the log of the agent's test container is not sent with the output of jobs, which a server would then refuse",
		edit("agent/storelogs.go", "if key.Job == probeImage {", "if key.Job == \"?\" {"),
		inAgent("TestTheTestContainerHasNoOutput"), `2 logs were sent`,
	},
}
