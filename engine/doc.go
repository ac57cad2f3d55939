// Package engine decides which waiting job is placed on which nodes, and explains why the others wait. Package
// engine is deterministic. The package uses no clock, goroutine, randomness, input or output, and no choice
// depends on the iteration order of a map. The same events and the same time give the same plan, byte for byte,
// in a server, the simulator, a dry run and a replay.
//
// Reading order:
//
//   - State holds everything that a cycle may read. Only Apply changes the State permanently, one
//     store revision at a time.
//   - Decide runs one cycle and returns a plan. Consolidate is a dry run of the migrations that a cycle
//     would make. PlanChanges returns the runs that a plan changes.
//   - Explain, Refusal, Place and WhatIf answer questions about one job.
//   - StaticFeasibility distinguishes jobs that can never run on the current nodes from
//     jobs that only have to wait.
//   - The other methods of State return records and numbers and do not change the State.
//
// A plan changes nothing by itself. The caller commits the plan to the store. The state changes when Apply receives
// the committed records as events.
//
// A State is not safe for concurrent use. Apply, Decide, Consolidate, Explain, Refusal, Place and WhatIf need
// exclusive access to the State. Except for Apply, these functions undo all their changes to the State before
// they return.
//
// Package engine is only a facade for its subpackages. The file README.md describes each subpackage and
// the phases of a cycle. No subpackage depends on the store, the API or the agents.
package engine
