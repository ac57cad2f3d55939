// Package replay records the decisions of a live server and makes them again
// in the simulator. It checks that the plans are the same. The package also
// prints the cost of a recording.
package replay
