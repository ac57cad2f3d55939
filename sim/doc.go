// Package sim runs the engine in virtual time: the same Decide that a server
// calls, on jobs of a trace and a fleet of a file, with a heap of events instead
// of a store. It assembles no scheduling round of its own. The same trace, fleet,
// configuration and seed give the same report, to the byte.
package sim
