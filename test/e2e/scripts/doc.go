// Package scripts runs the ares binary as users do. Each file in testdata is a
// terminal session. The sessions include mistakes, exit codes and the messages
// that say what to do next. README.md describes the commands that a script may
// use.
package scripts
