// Package queue says who is next, and how much each may have. It knows tenants,
// queues and jobs that wait, and nothing of nodes: whether the next one finds a
// place is for the engine to say. It is pure, and all its arithmetic is in
// integers.
//
// # Words
//
// The tree has the fleet as its root, tenants under it, and the queues of a
// tenant under that, as deep as their parents say. A tenant or queue that
// nobody declared is there when it is first named, with weight 1 and without
// limits. A leaf is the jobs that named one queue themselves. A queue that has
// both jobs of its own and queues under it treats its leaf as one more of these,
// with weight 1.
//
// An item is a waiting job. Items of one shape in one leaf are a line. Jobs of a
// shape fare alike, so when one is refused its whole line is passed over for the
// rest of the decision: a decision costs by lines, not by jobs.
//
// The level of an item is its priority less the steps of time that had passed
// when it was accepted. Its aged priority is the level plus the steps that have
// passed now, so time lifts all of them at once, and the order of two items in a
// leaf never changes: critical ones first, then by level, then by the revision
// of their submission, then by ID. Ageing lifts through the classes up to high.
// Only what was submitted as critical is ever critical.
//
// An item that is due at some time (Due, Roof) stands where it would had it waited
// for so long that it comes to the end of its class then, unless it has waited for
// longer. So it moves within its class alone, and never back. Its owner changes
// that when the time or the class is past; between two changes the order is fixed.
//
// A tree that is Ranked has another order in its leaves: the classes as they were
// submitted, then the rank that the owner gave each item, then revision and ID.
// Nobody ages there, so what follows on waiting does not hold of it.
//
// A pass is the order of one decision. Of the classes in which somebody is left
// it serves the highest; from the root down it follows, at every step, the child
// with the least weighted share that has a job of that class; in the leaf it
// offers the first item. What is taken counts at once. The end of a pass leaves
// no trace.
//
// A share is use divided by the capacity of the fleet, for the resource where
// that is most (the dominant one), divided by the weight. Use is what is held
// now plus past use. Past use is the average of what was held, where a moment
// one half-life ago weighs half as much as the present: steady use of n for ever
// is a past use of n.
//
// A quota promises a tenant or queue GPUs of a model. It bounds everything under
// it: use is never more than nominal plus borrowed. What it does not lend is
// kept for it, used or not. What goes beyond that part counts at the next quota
// above, and at last against the pool of the fleet, which is the sum of the
// topmost quotas; so what one borrows is what others lend and leave idle. Who
// has no quota at or above him is not bounded by any.
//
// # How long can a job wait for its turn
//
// Step is ten seconds by default. A job is in class high after at most 1000
// steps (2 h 47 min), and precedes everything below critical that its queue
// accepts 1999 steps (5 h 34 min) after it or later: an endless stream of jobs
// up to high holds it up by what was accepted in that time, and no more. In a
// class the queue with the least share is served first, so a job of a tenant
// that holds nothing is first as soon as it is high.
//
// So with an endless stream of jobs up to high, an admissible job starts
//
//   - of a tenant and queue with the least share: at the first room that comes
//     free 1000 steps after it was accepted;
//   - behind others of its own queue: when those have started that the queue
//     accepted up to 1999 steps after it, however many come later.
//
// Admissible is a job that its tenant's and queues' limits, quotas and budget
// let start, whose dependencies are met, and for which the room is enough that
// one job of the stream leaves behind. A turn is not a reservation: a job that
// asks for more than comes free at once is passed by smaller ones, until the
// engine keeps a place for it (engine.Reserving). Only critical jobs, which
// nobody ages into, may keep the others waiting for ever.
package queue
