// Package server assembles one Ares process from a Config. The parts of a process are the store, the view, admission,
// the API and the metrics. Further parts are the scheduling loop, the leader's other loops and, for `ares up`, a node
// agent. Package server is the only package that starts these parts, and it waits until they have ended.
package server
