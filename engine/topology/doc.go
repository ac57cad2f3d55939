// Package topology chooses the nodes of a job with several members. It knows where
// each node stands in the tree of places (region, zone, spine, leaf, node), what
// the switches between them carry, and how many free devices are where.
//
// Choose answers with the nodes whose Value is least: Value says once, as a list
// of numbers compared in order, what is better than what. A choice does not
// look at every node: leaves that cannot help are skipped by what they count,
// leaves that cannot win by a bound on their value, and in a large leaf only
// the first nodes of each number of free devices are asked.
//
// A node that does not say where it stands at some level is alone there, unless
// no node of the fleet says: such a level does not divide anything. So a fleet
// without any places is one leaf.
//
// The package is pure. A Tree has one owner; choosing uses its scratch memory.
package topology
