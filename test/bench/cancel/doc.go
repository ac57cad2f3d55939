// Package cancel measures how long `ares cancel` takes for many jobs, from the start of the process to its end.
package cancel
