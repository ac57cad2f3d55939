// Package sim runs the scheduling engine in virtual time. It calls the Decide
// of the server on the jobs of a trace and the machines of a fleet file,
// applies plans with engine.PlanChanges as the server does, and keeps a heap of
// attempt ends instead of a store. It makes no scheduling decision of its own.
// The same trace, fleet, configuration and seed give the same report, byte for
// byte.
package sim
