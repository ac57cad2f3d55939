// Package scripts runs the ares binary as people do: each file in testdata is
// a session at a terminal, with the mistakes, the exit codes and the words that
// say what to do. See README.md for the commands a script may use.
package scripts
