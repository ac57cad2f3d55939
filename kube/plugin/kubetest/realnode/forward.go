package realnode

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A forwarder passes connections from the node's network namespace on to the API server, which listens outside of it. It
// does the work of kube-proxy for the only Service that a pod needs.
type forwarder struct {
	to string

	mu    sync.Mutex
	open  map[io.Closer]bool // nil when the forwarder has ended
	group sync.WaitGroup
}

func newForwarder(to string) *forwarder { return &forwarder{to: to, open: map[io.Closer]bool{}} }

// listen accepts connections at an address in the network namespace of a process.
func (f *forwarder) listen(pid int, address string) error {
	l, err := listenIn(pid, address)
	if err != nil {
		return err
	}
	if !f.keep(l) {
		return l.Close()
	}
	f.group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			f.group.Go(func() { f.forward(conn) })
		}
	})
	return nil
}

func (f *forwarder) forward(from net.Conn) {
	to, err := net.Dial("tcp", f.to)
	if err != nil {
		_ = from.Close() // the client tries again
		return
	}
	defer f.drop(from)
	defer f.drop(to)
	if !f.keep(from) || !f.keep(to) {
		return
	}
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		f.group.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // either side may close at any time
			ended <- struct{}{}
		})
	}
	<-ended
}

// keep remembers what must be closed at the end. It returns false if the forwarder has ended.
func (f *forwarder) keep(c io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		return false
	}
	f.open[c] = true
	return true
}

func (f *forwarder) drop(c io.Closer) {
	_ = c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}

// close ends all connections and waits until they are gone.
func (f *forwarder) close() {
	f.mu.Lock()
	open := f.open
	f.open = nil
	f.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
	f.group.Wait()
}

// listenIn listens in the network namespace of a process. A socket belongs to the namespace of the thread that made it.
func listenIn(pid int, address string) (net.Listener, error) {
	type result struct {
		l   net.Listener
		err error
	}
	made := make(chan result, 1)
	go func() {
		// The thread is not unlocked, so it ends with the goroutine and no other goroutine runs in that namespace.
		runtime.LockOSThread()
		ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
		if err == nil {
			err = errors.Join(unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET), ns.Close())
		}
		if err != nil {
			made <- result{nil, err}
			return
		}
		l, err := net.Listen("tcp", address)
		made <- result{l, err}
	}()
	r := <-made
	return r.l, r.err
}
