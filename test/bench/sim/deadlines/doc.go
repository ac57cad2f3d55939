// Package deadlines replays a trace in which every job has a deadline. It counts
// the jobs that miss their deadline. The package compares Ares with two other
// queue orders: first come, first served (FIFO) and earliest deadline first
// (EDF). Each queue order runs once without and once with backfill. All policies
// run in the same benchmark and on the same machines.
//
// The authors of Chronus made the trace: they shortened the jobs of the Philly
// trace (MIT licence). The trace has 30,735 jobs, which arrive over 5.6 hours
// and run for 20 s to 72 min. The time from a job's arrival to its deadline is
// 1.1 to 5 times its runtime. Every deadline in the trace is strict, so being
// late by a minute counts as much as being late by an hour. No job is
// best-effort.
//
// All jobs wait in one queue of one tenant. FIFO and EDF therefore order all of
// them. With a queue per tenant, fair share would take precedence over the FIFO
// or EDF order. Each machine has 8 GPUs. From the first to the last arrival, the
// jobs need 1,097 GPUs on average. The jobs arrive in waves.
package deadlines
