package server

import (
	"sync"

	"github.com/ares-scheduler/ares/api/pipeline"
)

// The type `outgoing` counts the bytes of gRPC answers that wait for a client. gRPC queues an answer at once, however slowly the
// client reads. A client that reads nothing could therefore fill the memory with answers.
type outgoing struct {
	mu      sync.Mutex
	pending int // bytes that wait, or less: everything that is written counts. Invariant: 0 <= pending.
	due     int // bytes that must be written before the watch ends
	watch   *pipeline.Transfer
	renew   func() *pipeline.Transfer // begins a watch
}

// maxPending is the number of bytes that may wait for a client without a time limit.
const maxPending = pipeline.SmallBody

// Sending implements pipeline.Connection.
func (c *connection) Sending(bytes int, watch func(stop func(error)) *pipeline.Transfer) {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending += bytes
	o.renew = func() *pipeline.Transfer { return watch(func(error) { _ = c.Close() }) } // its client does not read the reason
	o.check()
}

// The method `check` begins a watch if too many bytes wait.
func (o *outgoing) check() {
	if o.watch == nil && o.pending > maxPending {
		o.due, o.watch = o.pending, o.renew()
	}
}

// Write implements net.Conn.
func (c *connection) Write(data []byte) (int, error) {
	n, err := c.Conn.Write(data)
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending = max(o.pending-n, 0); o.watch != nil {
		if o.due -= n; o.due <= 0 { // what waited when the watch began has left; the rest has its own time
			o.endWatch()
			o.check()
		}
	}
	return n, err
}

func (o *outgoing) endWatch() {
	if o.watch != nil {
		_ = o.watch.Done() // the connection may be closed already
		o.watch = nil
	}
}

// The method `end` ends the watch of a closed connection.
func (o *outgoing) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endWatch()
	o.pending = 0
}
