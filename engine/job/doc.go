// Package job holds the jobs of the engine: their records, their allocations, and the queues and timers in which
// they wait. Package job applies records to the accounts of nodes, tenants and queues, and answers questions about
// one job. The package decides whether quotas, budget and dependencies allow a job to start, how long the job will
// run, and when it is late.
//
// Read the types in this order:
//
//   - Table holds all jobs, tenants and Shapes, and the indexes over them.
//   - Entry is one job: its spec, its run, and the data that the engine derives from them.
//   - Shape holds the properties that decide whether a job can be placed. Jobs with equal properties share one
//     Shape.
//   - Tenant is the record of a tenant and the allocations of its jobs.
//   - Table.UpdateEntry changes an entry and updates every account. Table.Requeue then
//     moves the changed entries to the queues they belong to.
//
// Each rule has a file with the name of the rule: admission, tenant (with its budget), array, delay,
// deadline, lateness, queuetimeout, start (conditions), orderpolicy, expectedwork, overdue, estimate (of runtimes),
// restart (of gangs, and migrations) and stoprate. The check methods compare the incrementally updated
// values with a recount.
//
// This package does not choose nodes or victims, because it does not depend on placement, backfill or preemption.
// The package changes a plan only to end waiting jobs, to end retry delays, and to add notes to jobs.
package job
