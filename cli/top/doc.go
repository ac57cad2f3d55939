// Package top implements "ares top", which shows the nodes, the devices, the caller's jobs and the waiting jobs of a
// cluster on the whole terminal, and reads them again at an interval.
//
// The state of the screen is a value: Model.update takes one message and returns the next model and what to do (read,
// wait, suspend, quit), and Model.Lines returns the screen. Neither reads a clock, a server or a terminal, so tests need
// none of them. The file run.go connects the model to the terminal.
//
// Ares does not measure the utilization, the memory use and the power of devices yet. Package top has no columns for
// them, because a 0 would be wrong.
package top
