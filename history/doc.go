// Package history remembers what is over, in SQL: every job that ended, with its
// attempts, places and transitions, what each tenant, queue and user has used by
// day, and the prices that make a cost of it. SQLite keeps it in one file, or
// PostgreSQL where several servers share it; both pass one suite
// (history/historytest).
//
// No decision waits for it or reads it. What was put in is safe to leave the live
// store; putting the same job in again changes nothing. docs/history-schema.md
// tells people the tables.
package history
