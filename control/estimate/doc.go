// Package estimate learns from runs that have ended. The Estimator learns how long jobs run, and the Scorer learns how reliable nodes are.
// On the leader, the Estimator and the Scorer write their results to the store, where the engine reads them.
//
// No other package waits for package estimate. If package estimate fails, scheduling continues
// without predictions and scores.
package estimate
