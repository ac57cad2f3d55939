// Package installtest has tests of deploy/*.yaml and of the examples in docs/examples/kubernetes, against a real API
// server: the admission policies, the rights of the scheduler's service account, and whether every example is scheduled.
package installtest
