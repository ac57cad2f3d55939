// Package control is the work of a server on the path of a job: the Desk
// accepts requests, the View shows what the store holds, and on the leader the
// Loop decides, the Reaper takes back what lost nodes held, the Drainer empties
// nodes that are drained and the Recorder remembers finished jobs. The Estimator
// learns how long jobs run, and on the leader says so of each new one; the Scorer
// counts how nodes do, and on the leader says so.
//
// It owns no truth: whatever it knows came from the store's watch, and
// whatever it wants is a transaction that the store may refuse.
package control
