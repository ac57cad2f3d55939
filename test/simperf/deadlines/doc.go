// Package deadlines replays jobs that all have a deadline, and counts who
// misses it: Ares beside first come first served and earliest deadline first, each
// strict and with backfill, in the same run and on the same machines.
//
// The trace is Philly's jobs as the authors of Chronus shortened them (MIT licence):
// 30,735 jobs over 5.6 hours that run for 20 s to 72 min and should be done within
// 1.1 to 5 times that. Each is strict there: it has one deadline, and being late by
// a little counts as much as by an hour. None is best-effort.
//
// All jobs wait in one queue of one tenant, so that FIFO and EDF are what their
// names say; with a queue a tenant, fair shares would come before either. Fleets
// have machines of 8 GPUs. The jobs use 1,097 GPUs on average from the first to
// the last arrival, and come in waves.
package deadlines
