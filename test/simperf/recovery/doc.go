// Package recovery prints what the loss of a node, or of a leaf, costs gangs on a
// fleet of leaves and spines: how many members moved, how few any placement by the
// same rules would have moved, and how long they did not run.
package recovery
