// Package aside is the Redis that may stand beside many servers. It remembers which
// requests were accepted lately, so that a repetition is looked up and not written
// again, and it counts the calls of each caller over all servers.
//
// Nothing depends on it. What it says of a request is only where to look: the store
// is asked before anybody is answered. What it says of a rate can only turn a caller
// away for as long as the rate itself could; every server bounds the rate by itself
// too. It is given a moment for each answer, and after a few failures in a row it is
// left alone for a while. So it may be off, slow, lying, emptied or killed at any
// time, and answers stay right; metrics tell.
package aside
