// Package queue decides which waiting job is next, and how much each tenant and
// queue may have: fair share, priority and ageing, deadlines, limits and quotas. It
// knows nothing of nodes; the engine finds out whether the next job can be placed.
// The package is pure, and all its arithmetic is in integers.
//
// Read it in this order: Tree, Item, LeafQueue, Round, and then the rules, each in a
// file of its name: ageing, class, fairshare, usagehistory, adaptiveweight, quota,
// borrowing and admission.
//
// # Tree, leaf queues and items
//
// The root of the tree is the cluster. Its children are the tenants, and below each
// of them are its queues, nested as their records say. A tenant or queue that is not
// declared exists from the moment that it is first named, with weight 1 and without
// limits. A leaf queue holds the jobs that named one queue themselves. When a queue
// has both jobs of its own and child queues, its leaf queue counts as one more child
// with weight 1.
//
// An Item is a waiting job. The items of one shape in one leaf queue form a shape
// queue. Jobs of one shape get the same result in a decision, so when one cannot be
// placed its whole shape queue is skipped. The cost of a decision grows with the
// number of shape queues, not with the number of jobs.
//
// # Ageing
//
// The level of an item is its priority less the ageing steps that had passed when it
// was accepted. The aged priority is the level plus the steps that have passed now.
// Time raises all items alike, so the order of two items of a leaf queue never
// changes: critical ones first, then by level, then by the revision of the
// submission, then by ID. Ageing raises a job through the classes up to high. Only
// jobs submitted as critical are critical.
//
// # Deadlines
//
// An item with a deadline stands where ageing would have put it to reach the end of
// its class at its due time, unless it has waited for longer than that. It moves
// forward within its class only. The owner pushes it again when the due time or the
// class has passed; between two pushes the order is fixed.
//
// # Sort keys
//
// A tree can order its leaf queues by another policy: by the submitted class, then by
// the sort key that the owner gives each item, then by revision and ID. Items do not
// age then, and the bounds on waiting below do not hold.
//
// # Rounds
//
// A Round is the order of offers of one decision. It serves the highest class that
// has items left. From the root down it follows the child with the smallest weighted
// share that has a job of this class, and in the leaf queue it offers the first item.
// Allocations count at once, and the end of the round undoes them.
//
// # Fair share
//
// The share of a tenant or queue is its use divided by the capacity of the cluster,
// for the resource where that is largest (the dominant one). The weighted share is
// this divided by the weight. Use is what is allocated now plus past use. Past use is
// the average of what was allocated, where a moment one half-life ago counts half as
// much as the present: a constant use of n gives a past use of n.
//
// # Quota
//
// A quota gives a tenant or queue a nominal amount of GPUs of a model, and bounds
// everything below it: its use never exceeds the nominal amount plus the borrowing
// limit. The part that it does not lend is guaranteed, used or not. What exceeds the
// guaranteed part counts at the next quota above, and finally against the pool of the
// cluster, the sum of the topmost quotas. So a tenant can borrow what others lend and
// leave idle. Quotas do not bound a queue that has none at or above it.
//
// # How long a job can wait for its turn
//
// An ageing step is ten seconds by default. A job is in class high after at most 1000
// steps (2 h 47 min), and precedes everything below critical that its queue accepts
// 1999 steps (5 h 34 min) after it or later. An endless stream of jobs up to high
// delays it by the jobs accepted in that time, and no more. Within a class the queue
// with the smallest share is served first, so a job of a tenant that has nothing
// allocated is first as soon as it is high.
//
// With an endless stream of jobs up to high, an admissible job therefore starts
//
//   - in a tenant and queue with the smallest share: as soon as capacity becomes free
//     1000 steps after it was accepted, or later;
//   - behind others of its own queue: when those have started that the queue accepted
//     up to 1999 steps after it, however many come later.
//
// A job is admissible when the limits, quotas and budgets of its tenant and queues
// allow it to start, its dependencies are met, and the capacity that one job of the
// stream frees is enough for it. Being next is not a reservation: smaller jobs pass a
// job that needs more than becomes free at once, until the engine makes a backfill
// reservation for it. Only critical jobs, which no job ages into, can delay others
// for ever.
package queue
