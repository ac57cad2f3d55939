// Package sim runs the scheduling engine in virtual time. Like a server, package sim calls the
// engine's Decide and applies plans with engine.PlanChanges. The jobs come from a trace and the
// machines from a fleet file. Instead of a store and agents, package sim has a heap with the
// scheduled ends of attempts. Package sim makes no scheduling decisions of its own. The same trace,
// fleet, configuration and seed give the same report, byte for byte.
package sim
