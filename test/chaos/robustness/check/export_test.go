package check

// RunWithin is like Run, but has a shorter time limit for each job.
var RunWithin = runWithin
