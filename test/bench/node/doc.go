// Package node measures how many short processes one node runs in a second, and the processor time that each of them costs in the
// server, in the agent and in the supervisors. A real `ares server` with an embedded store and one real `ares agent` run an array
// and a flood of single jobs whose command is `true`. Beside them, the same run measures a plain program that creates a cgroup,
// starts `true` in it, waits for it and removes the cgroup. Run the benchmark with `make bench`.
package node
