// Package scheduler runs the engine. The Loop passes the changes in the cache to the engine and, on the leader, commits the engine's plans
// to the store. The Loop also answers questions that need the engine's state, such as why a job waits.
//
// The Loop makes no decisions itself, and does not depend on the API or on history.
package scheduler
