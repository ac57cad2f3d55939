// Package cli measures how long commands of `ares` take, from the start of the process to its end.
package cli
