// Package control is the part of a server that handles a job from submission to archive. Package
// control has no code of its own; its packages are, from the first step of a job to the last:
//
//   - Package admission decides whether a submitted job is accepted, and stores it.
//   - Package scheduler runs the engine on the leader and commits the engine's plans.
//   - Package lifecycle voids seats on lost nodes, stops jobs on drained
//     nodes, and moves finished jobs to history and to the archive.
//   - Package estimate learns the runtimes of jobs and the reliability of nodes from finished runs.
//   - Package accounting finds jobs and sums usage, both of live jobs and of jobs in history.
//   - Package cache is this server's copy of the live state.
//   - Package recording writes and reads files with the scheduler's input and decisions.
//
// No package under control has state of its own. All data comes from the store's watch, and every
// change is a transaction that the store may reject.
package control
