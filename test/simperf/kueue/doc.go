// Package kueue prints how Ares fares with the workloads of Kueue's
// performance tests, in virtual time and beside what Kueue takes for them.
package kueue
