// Command turns compares this version of Ares with another commit. It builds both and measures them in turns, so that
// both run while the machine has the same load. The other commit is checked out into a temporary git worktree.
//
// It measures submissions over REST to an `ares server` of each version (rate, processor time of the server, memory),
// and decisions of each version's engine (package decisions, which is compiled in both source trees). Each figure is
// the median of the rounds, with its range. Each ratio is the median of the ratios of the rounds.
//
// Run it with `make bench-turns OLD=commit`.
package main
