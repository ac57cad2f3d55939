// Package estimate keeps what package learn learns from runs that have ended. The Estimator predicts how long jobs
// run, and the Scorer computes how reliable nodes are. On the leader, the Estimator and the Scorer write their results to the
// store, where the engine reads them.
//
// No other package waits for package estimate. If package estimate fails, scheduling continues
// without predictions and scores.
package estimate
