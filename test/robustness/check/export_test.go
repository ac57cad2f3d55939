package check

// RunWithin is Run with less time for each job.
var RunWithin = runWithin
