package main

const imageFault = "cmd/ares-supervisor/imagefault.go"

func inImages(run string) Test { return Test{Package: "./agent/image", Run: run} }

// These mutations break the rule that a user with a bad image harms only the own job: not the node, its disk, or other tenants.
var badImages = []Mutation{
	{
		"image-fault-of-runtime", "that what an image makes the runtime say is the job's own failure",
		edit(imageFault, "if why := faultOfImage(err.Error()); why != \"\" {", "if why := faultOfImage(err.Error()); why == \"?\" {"),
		inRun("TestContainerImageAtFault"), `the result is {Outcome:lost`,
	},
	{
		"image-links-before", "the check of the paths at which the runtime, which is root, makes files for the job's devices",
		edit("cmd/ares-supervisor/container.go", "if why = faultBefore(); why != \"\" {", "if why = faultBefore(); why == \"?\" {"),
		inRun("TestContainerImageAtFault"), `the result is {Outcome:(exited|lost)`,
	},
	{
		"image-resolver-files", "the files of the machine that hide directories and links of the image",
		edit("cmd/ares-supervisor/image.go", "if _, missing := os.Stat(name); err == nil && missing == nil {", "if _, missing := os.Stat(name); err == nil && missing != nil {"),
		inRun("TestContainerImageAtFault"), `the result is {Outcome:lost`,
	},
	{
		"image-not-the-node", "the test container that shows whether a failed start counts against the node",
		edit(seat, "proc.Pid() == 0 && s.isNodeAtFault(ctx) {", "proc.Pid() == 0 {"),
		Test{Package: "./test/e2e/images", Run: "TestBadImagesAndTheNode", Program: true}, `the node is cordoned`,
	},
	{
		"image-layer-twice", "that no layer is mounted twice",
		edit("agent/image/store.go", "if !slices.Contains(layers[i+1:], name) {", "if i >= 0 || name != \"\" {"),
		inImages("TestLayerTwice"), `the layers are`,
	},
	{
		"image-limits-of-all-layers", "the limits of all layers of an image together",
		[]Edit{
			{"agent/image/pull.go", "err = s.checkTotal(req, f.names())", "_ = s.checkTotal(req, f.names())"},
			{"agent/image/layer.go", "dir, s.rest(others))", "dir, s.rest(others[:0]))"},
		},
		inImages("TestLimitsOfAllLayers"), `was accepted`,
	},
	{
		"image-names", "the limit of the names of directories that the unpacker remembers",
		edit("agent/image/unpacker.go", "u.names > maxNames {", "u.names < 0 {"),
		inImages("TestNamesOfDirectories"), `after 65536 names`,
	},
}
