// Package accounting finds jobs and sums their usage. Live jobs are in the cache, finished jobs are
// in history, and for a while after its end a job is in both. Package accounting counts each job
// once.
//
// Package accounting only reads, and does not depend on scheduling.
package accounting
