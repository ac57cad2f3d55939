// Package job holds the jobs of the engine: their records, what they have allocated,
// and the queues and timers they wait in. It applies records to the accounts of
// nodes, tenants and queues, and answers questions about one job: may it start by
// its quotas, budget and dependencies, how long will it run, when is it late.
//
// Read it in this order:
//
//   - Table has all jobs, tenants and shapes, and the indexes over them.
//   - Entry is one job: its spec and its run, with what the engine derives from them.
//   - Shape is what decides whether a job can be placed. Jobs of one shape share it.
//   - Tenant is the record of a tenant and what its jobs have allocated.
//   - Table.UpdateEntry changes an entry and keeps every account right; Table.Requeue
//     then moves the changed entries to the queues they belong to.
//
// After these come the rules, each in a file of its name: admission, budget, array,
// delay, deadline and lateness, queuetimeout, orderpolicy, estimate (of runtimes),
// restart (of gangs), migration and stoprate. The check methods compare what is kept
// up to date with what counting anew finds.
//
// The package does not choose nodes or victims: it knows neither placement nor
// backfill nor preemption. Where it appends to a plan, it ends, readies or annotates
// jobs that wait.
package job
