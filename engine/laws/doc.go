// Package laws says what holds of every decision, and finds the one that a plan
// breaks. It counts everything anew from the records: the only thing it has in
// common with the code it judges is the meaning of the records. Property tests,
// the simulator and a server in debug mode share it.
//
// A check costs time that grows with all live jobs and nodes, about a tenth of a
// second for ten thousand of each, so nobody pays for it who does not ask.
package laws
