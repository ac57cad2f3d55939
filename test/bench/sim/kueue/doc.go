// Package kueue replays the workloads of Kueue's performance tests in virtual
// time. It prints the results next to Kueue's published figures.
package kueue
