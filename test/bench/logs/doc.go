// Package logs measures what it costs to follow the output of all ranks of a job at once, and checks that the lines are
// whole, complete and in the order of time.
package logs
