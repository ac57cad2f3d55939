// Package history stores finished jobs in an SQL database, with their attempts, placements and transitions. Package history also stores
// the daily usage of each tenant, queue and user, and the prices that turn usage into cost. Package history uses SQLite in one file, or
// PostgreSQL if several servers share the database. SQLite and PostgreSQL pass the same test suite (history/historytest).
//
// No scheduling decision waits for history or reads it. Once a job is stored in history, it may be removed from the live store.
// Storing the same job again changes nothing. docs/reference/history-schema.md describes the tables.
package history
