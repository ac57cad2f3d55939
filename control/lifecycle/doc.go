// Package lifecycle does the leader's work on jobs, except scheduling. The Reaper voids seats on lost nodes, the Drainer moves jobs off
// drained nodes, and the Archiver copies finished jobs to history and moves them out of the live store.
//
// Package lifecycle never places a job.
package lifecycle
