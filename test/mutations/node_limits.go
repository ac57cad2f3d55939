package main

// These mutations remove parts of the clean-up after jobs and of what a terminal shows of a job.
var nodeLimits = []Mutation{
	{
		"trash-protected-files", "the removal of the flags that forbid to delete a file",
		edit("agent/trash/flags.go", "return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags&^forbidding)) == nil", "return false"),
		Test{Package: "./agent/trash", Run: "TestWhatAJobLeaves"}, "operation not permitted",
	},
	{
		"trash-follows-no-link", "the refusal to open a directory through a link",
		append(edit("agent/trash/trash.go", "unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC", "unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC"),
			edit("agent/trash/trash.go", "if st, err := os.Lstat(dir); err == nil && !st.IsDir() {", "if st, err := os.Stat(dir); err == nil && !st.IsDir() {")...),
		Test{Package: "./agent/trash", Run: "TestTheBinsPlaceIsTaken"}, "the bin is outside",
	},
	{
		"trash-place-is-taken", "the start although a file is at the place of the trash",
		edit("agent/trash/trash.go", "if err = os.Remove(dir); err != nil {", "if err = error(unix.ENOTDIR); err != nil {"),
		Test{Package: "./agent/trash", Run: "TestTheBinsPlaceIsTaken"}, "not a directory",
	},
	{
		"trash-tries-again", "the second attempt to discard a directory",
		edit("agent/trash/trash.go", "owed := b.retryOwed()", "owed := error(nil)"),
		Test{Package: "./agent/trash", Run: "TestAFullDiskIsTriedAgain"}, "still at its place",
	},
	{
		"terminal-direction", "the removal of characters that change the direction of text",
		edit("cli/output/clean.go", "case ares.IsDirectionMark(r):", "case ares.IsDirectionMark(r) && r > 0x2000:"),
		Test{Package: "./cli/output", Run: "TestClean"}, "arabic",
	},
}
