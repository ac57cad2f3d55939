// Package learn learns from the events of a scheduler. Runtimes learns how long jobs run, and NodeScores learns how reliable
// nodes are. Both take the batches that the scheduler's engine.State applies, and return the Forecast and Score records that
// the engine plans with. Package learn has no store and no clock: callers pass the time, and decide where records are kept.
//
// The server has a store. It uses Runtimes and NodeScores through package control/estimate, which writes their records as
// the leader.
//
// A scheduler without a store, such as the one for Kubernetes, uses a Learner. A Learner has both, returns events that can
// be applied directly, and exports what it has learned as bytes of a bounded size.
//
// The types of this package are not safe for concurrent use.
package learn
