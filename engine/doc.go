// Package engine is the brain of Ares: it decides which waiting job goes where,
// and says why the others wait. It is pure. It has no clock, goroutine,
// randomness, input or output, and no choice depends on the order of a map, so
// the same events and the same time give the same plan, byte for byte, in the
// server, the simulator, a dry run and a replay.
//
// A State is everything a decision may see. It changes only by Apply, a whole
// revision at a time. Decide runs one cycle over it and answers with a plan,
// Place answers for one gang, Explain says everything that keeps one job
// waiting. A plan is a wish: the store commits it or not, and what was
// committed comes back as events.
//
// A State has one owner. Apply, Decide, Place and Explain need it alone: Decide
// and Place borrow its accounts while they try, Explain makes real what it
// supposes, and each puts back what it took or changed. Everything else only
// reads.
//
// The cycle settles delays, takes the waiting jobs in order, admits, places and
// refuses. A job that does not fit does not hold up the ones behind it: there
// are no reservations for it yet, and nobody gives way to it; those phases are
// not in this version.
package engine
