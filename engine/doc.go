// Package engine decides which waiting job is placed on which nodes, and explains why
// the others wait. It is deterministic: it has no clock, goroutine, randomness, input
// or output, and no choice depends on the iteration order of a map. The same events
// and the same time give the same plan, byte for byte, in a server, the simulator, a
// dry run and a replay.
//
// Reading order:
//
//   - State has everything that a cycle may read. Apply changes it, one store revision
//     at a time, and is the only function that does.
//   - Decide runs one cycle and returns a plan. Consolidate is the dry run of its
//     migrations. PlanChanges turns a plan into changed runs.
//   - Explain, Refusal, Place and WhatIf answer questions about one job.
//   - StaticFeasibility tells jobs that can never run on the nodes from those that have
//     to wait.
//   - The other methods of State return records and numbers, and only read.
//
// A plan changes nothing by itself: the caller commits it to the store, and the state
// changes when the committed records come back as events.
//
// A State has one owner. Apply, Decide, Consolidate and the questions need exclusive
// access: they change the state while they work, and undo that before they return.
//
// This package is a facade. The packages below it do the work; see README.md for what
// each of them answers, and for the phases of a cycle. None of them knows the store,
// the API or the agents.
package engine
