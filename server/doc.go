// Package server assembles one Ares process from a Config: the store, the
// view, the desk, the loop and what runs beside it, the doors, the metrics, and
// for `ares up` a node agent. It is the only place that starts the parts, and
// it waits for them.
package server
