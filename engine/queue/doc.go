// Package queue decides which waiting job is next, and how much each tenant and queue may use. Package queue
// implements fair share, priority and ageing, deadlines, limits and quotas. The package knows nothing about nodes,
// so the engine must find out whether the next job can be placed. The package has no side effects, and all its
// arithmetic uses integers.
//
// Read the types in this order: Tree, Item, LeafQueue, Round. Then read the rules, each of which is in a file of the
// same name: ageing, class, fairshare, usagehistory, adaptiveweight, quota, borrowing and admission.
//
// # Tree, leaf queues and items
//
// The root of the tree is the cluster. The children of the root are the tenants, and below each tenant are its
// queues, nested as in the queue records. If a job names a tenant or queue that was not declared, the tenant or queue
// is created. A tenant or queue created in this way has weight 1 and no limits. A leaf queue holds the jobs that were
// submitted directly to one queue. When a queue has both jobs of its own and child queues, its leaf queue counts as
// one more child with weight 1.
//
// An Item is a waiting job. Jobs with equal requests have the same shape. The items of one shape in one leaf queue
// form a shape queue. All jobs of the same shape get the same result in a decision, so when one of them cannot be
// placed, its whole shape queue is skipped. The cost of a decision grows with the number of shape queues, not with
// the number of jobs.
//
// # Ageing
//
// The level of an item is its priority minus the number of ageing steps between 1970 and its acceptance. The aged
// priority of an item is its level plus the number of ageing steps from 1970 until now. Time raises the aged priority
// of all items equally, so the order of two items in a leaf queue never changes. Critical items come first.
// Items that are not critical are ordered by level, then by the revision of the submission, then by ID. Ageing
// raises a job through the priority classes, but not above class high. A job is critical only if it was
// submitted as critical.
//
// # Deadlines
//
// An item with a deadline is ordered as if its aged priority reached the end of its class at the due time. If ageing
// alone gives the item an earlier position than its deadline does, the earlier position counts. A deadline moves an
// item forward only within its class. When the due time has passed or the item enters another class, the owner pushes
// the item again. Between two pushes the order is fixed.
//
// # Sort keys
//
// A tree can also order the items in its leaf queues by a sort key. This is so with every order except
// config.OrderAged. The tree then orders items by the class of their priority, then by the sort key that the owner
// assigns to each item, then by revision and ID. With sort keys, the tree does not age items, and the bounds below do not
// hold. Package job documents the order by expected work, which is the default, and its bound.
//
// # Rounds
//
// A Round determines the order in which one decision considers the waiting jobs. A round serves the highest class
// that has items left. A round starts at the root of the tree. At each node of the tree, the round follows the
// child with the smallest weighted share among the children that have a job of this class. When the round
// reaches a leaf queue, it offers the first item. Allocations count immediately for the rest of the round, and
// the end of the round undoes them.
//
// # Fair share
//
// The share of a tenant or queue is its usage divided by the cluster's capacity, for the resource where this quotient
// is largest (the dominant resource). The weighted share is the share divided by the weight. The usage of a tenant or
// queue is its current allocation plus its past usage. Past usage is a weighted average of past allocations. Usage
// one half-life ago counts half as much as usage now. With this weighting, a constant usage of n gives a past usage
// of n.
//
// # Quota
//
// A quota gives a tenant or queue a nominal number of GPUs of a model, and limits the usage of the whole subtree. The
// usage never exceeds the nominal quota plus the borrowing limit. The part of a quota that may not be lent is
// guaranteed to its tenant or queue, even if it is not used. Usage beyond the guaranteed part also counts against the
// next higher quota in the tree, and so on up to the cluster's pool. The pool is the sum of the topmost quotas. So a
// tenant can borrow quota that other tenants lend and do not use. If neither a queue nor any of its ancestors has a
// quota, quotas do not limit the queue.
//
// # How long a job can wait for its turn
//
// This section is about a tree without sort keys. An ageing step is ten seconds by default. A job reaches class high after at most 1000 ageing steps (2 h 47 min).
// Suppose that a queue accepts two jobs, the second one 1999 ageing steps (5 h 34 min) or more after the first. Then
// the first job precedes the second, unless the second is critical. Suppose that jobs up to class high arrive in an
// endless stream. Even then, a job is delayed only by jobs that were accepted less than 1999 ageing steps after it.
// Within a class, the queue with the smallest weighted share is served first. So if a tenant has nothing allocated,
// its job becomes the next job of the cluster when the job reaches class high.
//
// With an endless stream of jobs up to class high, an admissible job therefore starts at one of these times:
//
//   - Suppose that the job's tenant and queue have the smallest share, and that the job has waited for 1000 ageing
//     steps. Then the job starts the next time that capacity becomes free.
//   - If other jobs of the same queue come before the job, it starts once those jobs have started. Jobs that the queue
//     accepts more than 1999 ageing steps after a job do not delay that job.
//
// A job is admissible under three conditions. The limits, quotas and budgets of its tenant and queues allow it to
// start. Its dependencies are met. It needs no more capacity than becomes free when one of the competing jobs ends.
// A job does not get a reservation merely because it is next. If the next job needs more capacity than becomes free
// at one time, smaller jobs start before it until the engine makes a backfill reservation for it. Only critical jobs
// can delay other jobs forever, and no job becomes critical by ageing.
package queue
