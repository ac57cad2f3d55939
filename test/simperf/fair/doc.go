// Package fair prints how fairly the virtual clusters of a production trace
// share one pool when they are tenants of it, with every decision held against
// the law of turns.
package fair
