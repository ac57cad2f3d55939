// Package sync measures how long `ares job submit --sync` takes, from the start of the process to its end.
package sync
